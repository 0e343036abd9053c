"""Performs the decisions of planner and scheduler, and forwards the states of workloads.

Input: plans, states of own workloads. Output: calls of the runtime facade, states for the server. The module owns the
states of all workloads and the operations that wait for them. No function of this module waits.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from ankaios.agent.agent_records import AgentRecords
from ankaios.agent.core.dependencies import DependencyScheduler, SchedulingDecision, may_start
from ankaios.agent.core.operations import (
    CreateOperation,
    DeleteBeforeUpdate,
    DeleteOperation,
    Operation,
    StateReport,
    UpdateOperation,
)
from ankaios.agent.core.parameter_storage import ParameterStorage
from ankaios.agent.core.runtime_manager import Found, Plan
from ankaios.agent.devices import DeviceProvider
from ankaios.agent.health_checks import HealthChecks
from ankaios.agent.run_folder import RunFolder
from ankaios.agent.runtime_facade import RuntimeFacade
from ankaios.agent.server_link import Outbox
from ankaios.agent.workload_object import WorkloadObject
from ankaios.agent.workload_task import SharedServices
from ankaios.common.execution_state import (
    FAILED_UNKNOWN,
    PENDING_STARTING_FAILED,
    PENDING_WAITING_TO_START,
    REMOVED,
    SUCCEEDED_OK,
    ExecutionState,
)
from ankaios.common.pb.grpc_api_pb2 import ToServer, UpdateWorkloadState
from ankaios.common.proto_conversion import workload_state_to_pb
from ankaios.common.supervision import Supervisor, internal_error
from ankaios.common.workload import InstanceName
from ankaios.runtimes.connectors import Connectors


class WorkloadOperations:
    def __init__(
        self,
        agent: str,
        connectors: Connectors,
        folder: RunFolder,
        devices: DeviceProvider,
        outbox: Outbox,
        tasks: Supervisor,
        chance: Callable[[], float],
    ) -> None:
        self._agent = agent
        self._outbox = outbox
        self._states = ParameterStorage()
        self._scheduler = DependencyScheduler()
        self._held_claims: set[str] = set()  # workloads that wait for devices and whose dependencies have ended
        self.records = AgentRecords(folder.path / "records", outbox)
        health = HealthChecks(folder, tasks, outbox.observer.health_checked)
        services = SharedServices(connectors, folder, devices, outbox, tasks, self.report, self.records, chance, health)
        self._facade = RuntimeFacade(agent, services)
        self._reports: deque[StateReport] = deque()
        self._reporting = False

    @property
    def workloads(self) -> Mapping[str, WorkloadObject]:
        """The workloads that have a task."""
        return self._facade.workloads

    def instances(self) -> set[InstanceName]:
        """Return all instances that may have containers or wait for their start."""
        waiting = (
            entry.spec.instance_name
            for entry in self.waiting.values()
            if isinstance(entry, CreateOperation | UpdateOperation)
        )
        return self._facade.instances().union(waiting)

    def known_instances(self) -> list[InstanceName]:
        """Return all instances of this agent and of other agents whose state is known."""
        return self._states.instances()

    @property
    def waiting(self) -> Mapping[str, Operation]:
        return self._scheduler.entries

    async def existing_workloads(self, runtime: str) -> list[Found]:
        return await self._facade.existing_workloads(runtime)

    def forget_other_agents(self) -> set[str]:
        return self._states.forget_other_agents(self._agent)

    def update_states(self, states: Iterable[StateReport]) -> set[str]:
        """Store states of other agents' workloads, and ignore those of own workloads. Return the workload names.

        [impl->swdd~agent-manager-stores-all-workload-states~1]
        """
        foreign = [(name, state) for name, state in states if name.agent != self._agent]
        for name, state in foreign:
            self._states.store(name, state)
        return {name.workload for name, _ in foreign}

    def states_of(self, workloads: Iterable[str]) -> dict[InstanceName, ExecutionState]:
        """Return the known states of these workloads on all agents."""
        return {name: state for workload in workloads for name, state in self._states.instances_of(workload).items()}

    def recheck(self, changed: Iterable[str]) -> None:
        """Perform operations that waited for the states of these workloads."""
        self._decide(self._scheduler.recheck(changed, self._states))
        held, self._held_claims = self._held_claims, set()
        for name in sorted(held):
            self.devices_changed(name)

    def devices_changed(self, name: str) -> None:
        """A workload that waits for devices claims them again, unless its dependencies have ended meanwhile."""
        workload = self.workloads.get(name)
        if workload is None or workload.target is None or not workload.lacks_devices:
            return
        if may_start(workload.target.dependencies, self._states):
            workload.claim_devices()
        else:
            self._held_claims.add(name)

    def apply(self, plan: Plan) -> None:
        """Perform a plan. Errors are reported and not raised, because a plan is not repeated."""
        try:
            self._apply(plan)
        except Exception as error:
            why = internal_error("the operations on workloads", error)
            self.report_unstarted([operation.instance for operation in plan.operations], why)

    def _apply(self, plan: Plan) -> None:
        for name in plan.drop:
            self._decide(self._scheduler.drop(name))
        for name in plan.keep:
            with self._isolated(self.workloads[name].current):
                self._keep(name)
        for instance in plan.removed:
            self.report(instance, REMOVED)
        for found in plan.unneeded:
            with self._isolated(found.instance_name):
                self._facade.delete_found(found)
        for resume in plan.resume:
            with self._isolated(resume.spec.instance_name):
                self._facade.resume(resume.spec, resume.id)
        for found in plan.replace:
            with self._isolated(found.instance_name):
                self._facade.replace(found)
        operations = [self._adapted(operation) for operation in plan.operations]
        self._decide(self._scheduler.schedule(operations, self._states))

    def report_unstarted(self, names: Iterable[InstanceName], why: str) -> None:
        """Report a failed start for all given instances that have no task and no waiting operation."""
        for name in names:
            if name.workload not in self.workloads and name.workload not in self.waiting:
                self.report(name, PENDING_STARTING_FAILED.because(why))

    @contextmanager
    def _isolated(self, name: InstanceName) -> Iterator[None]:
        """Catch and report an internal error of one workload, so that it does not affect others."""
        try:
            yield
        except Exception as error:
            why = internal_error(f"an operation on workload '{name.workload}'", error)
            self.report(name, FAILED_UNKNOWN.because(why))

    def _adapted(self, operation: Operation) -> Operation:
        """Apply the operation to the existing instance: after a failed update, the server may name another one."""
        workload = self.workloads.get(operation.name)
        if workload is None or operation.name in self.waiting:
            return operation
        match operation:
            case DeleteOperation(deleted) if not workload.owns(deleted.instance_name):
                self.report(deleted.instance_name, REMOVED)
                return DeleteOperation(replace(deleted, instance_name=workload.current))
            case UpdateOperation(spec, deleted) if not workload.owns(deleted.instance_name):
                self._report_unowned(deleted.instance_name, unless=spec.instance_name)
                return UpdateOperation(spec, replace(deleted, instance_name=workload.current))
            case _:
                return operation

    def _keep(self, name: str) -> None:
        """Continue an unchanged workload, cancel its waiting stop, and report its state, which the server has lost."""
        self._decide(self._scheduler.drop(name))
        workload = self.workloads[name]
        if (state := workload.last_state) is not None:
            self._states.store(workload.current, REMOVED)  # transition rules must not apply to the cancelled stop
            self.report(workload.current, state)

    def _decide(self, decision: SchedulingDecision) -> None:
        for name, state in decision.reports:
            self.report(name, state)
        for entry in decision.abandoned:
            spec = entry.spec
            self._facade.delete_found(Found(spec.runtime, spec.instance_name, SUCCEEDED_OK, entry.reuse))
        for operation in decision.ready:
            with self._isolated(operation.instance):
                self._execute(operation)

    def _execute(self, operation: Operation) -> None:
        workload = self.workloads.get(operation.name)
        match operation:
            case CreateOperation(spec) if workload is not None:
                workload.update(spec)
            case CreateOperation(spec, reuse):
                self._facade.create(spec, reuse)
            case UpdateOperation(spec, deleted):
                self._report_unowned(deleted.instance_name, unless=spec.instance_name)
                if workload is not None and operation.starts_new_first and workload.target is not None:
                    self._facade.start_beside(spec)
                elif workload is not None:
                    workload.update(spec)
                else:
                    # [impl->swdd~agent-add-on-update-missing-workload~1]
                    self._facade.create(spec)
            case DeleteBeforeUpdate(instance):
                self._report_unowned(instance)
                if workload is not None:
                    workload.update(None)
            case DeleteOperation(deleted):
                self._report_unowned(deleted.instance_name)
                # [impl->swdd~podman-adapter-request-stopping-container~2]
                if workload is not None:
                    workload.delete()

    def _report_unowned(self, instance: InstanceName, unless: InstanceName | None = None) -> None:
        """Report an instance as removed that no task owns, because no task will report it."""
        workload = self.workloads.get(instance.workload)
        if instance != unless and not (workload is not None and workload.owns(instance)):
            self.report(instance, REMOVED)

    def report(self, name: InstanceName, state: ExecutionState) -> None:
        """Store a state, send it to the server, and perform operations that waited for it.

        Reports that result from this are queued and handled in order.
        """
        self._reports.append((name, state))
        if self._reporting:
            return
        self._reporting = True
        try:
            while self._reports:
                self._forward_safely(*self._reports.popleft())
        finally:
            self._reporting = False

    def _forward_safely(self, name: InstanceName, state: ExecutionState) -> None:
        """Catch errors of other workloads' operations, so that they do not affect the reporting workload."""
        try:
            self._forward(name, state)
        except Exception as error:
            internal_error(f"the report that '{name}' is {state}", error)

    def _forward(self, name: InstanceName, state: ExecutionState) -> None:
        """[impl->swdd~podman-workload-sends-workload-state~1]"""
        accepted = self._states.report(name, state)
        message = workload_state_to_pb(name, accepted)
        message.timeMs = self.records.note(name, accepted)
        update = UpdateWorkloadState(workloadStates=[message])
        self._outbox.put_state(name, ToServer(updateWorkloadState=update), is_last=state.is_same(REMOVED))
        self._facade.ready(name, accepted)
        match self._scheduler.entries.get(name.workload):
            case CreateOperation(spec) if spec.instance_name == name and state.is_same(REMOVED):
                # The removed predecessor has the same name, so the waiting state must be reported after its removal.
                self._reports.append((name, PENDING_WAITING_TO_START))
            case _:
                pass
        self.recheck([name.workload])
