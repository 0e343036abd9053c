"""Makes happen what planner and scheduler decide, and passes on what workloads report.

Comes in: plans, states of own workloads. Goes out: work for the runtime facade, states for the server. Owned here: the
states of all workloads and the operations that wait for them. Nothing here waits.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from ankaios.agent.agent_records import AgentRecords
from ankaios.agent.control_callbacks import ControlCallbacks
from ankaios.agent.core.dependencies import DependencyScheduler, SchedulingDecision, may_start
from ankaios.agent.core.offline_state import ForeignState, foreign_states
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
from ankaios.runtimes.runtime_connector import RuntimeConnector


class WorkloadOperations:
    def __init__(
        self,
        agent: str,
        connectors: Mapping[str, RuntimeConnector],
        folder: RunFolder,
        devices: DeviceProvider,
        outbox: Outbox,
        callbacks: Callable[[], ControlCallbacks],
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
        services = SharedServices(connectors, folder, devices, self.report, self.records, chance, health)
        self._facade = RuntimeFacade(agent, services, callbacks, tasks)
        self._reports: deque[StateReport] = deque()
        self._reporting = False

    @property
    def workloads(self) -> Mapping[str, WorkloadObject]:
        """Those that have a task."""
        return self._facade.workloads

    def instances(self) -> set[InstanceName]:
        """All that may have containers, and what waits to have one."""
        waiting = (
            entry.spec.instance_name
            for entry in self.waiting.values()
            if isinstance(entry, CreateOperation | UpdateOperation)
        )
        return self._facade.instances().union(waiting)

    def known_instances(self) -> list[InstanceName]:
        """Of this agent and of others, as far as something was heard of them."""
        return self._states.instances()

    @property
    def waiting(self) -> Mapping[str, Operation]:
        return self._scheduler.entries

    async def existing_workloads(self, runtime: str) -> list[Found]:
        return await self._facade.existing_workloads(runtime)

    def forget_other_agents(self) -> set[str]:
        return self._states.forget_other_agents(self._agent)

    def learn(self, states: Iterable[StateReport]) -> set[str]:
        """States of other agents' workloads; of its own this agent knows best.

        [impl->swdd~agent-manager-stores-all-workload-states~1]
        """
        foreign = [(name, state) for name, state in states if name.agent != self._agent]
        for name, state in foreign:
            self._states.store(name, state)
        return {name.workload for name, _ in foreign}

    def foreign_states(self, workloads: Iterable[str]) -> tuple[ForeignState, ...]:
        """What is known of these workloads on other agents."""
        found = {name: state for workload in workloads for name, state in self._states.instances_of(workload).items()}
        return foreign_states(found, self._agent)

    def recheck(self, changed: Iterable[str]) -> None:
        """See what the news of these workloads sets free."""
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
        """Never fails: what was planned once is not planned a second time."""
        try:
            self._apply(plan)
        except Exception as error:
            why = internal_error("the operations on workloads", error)
            self.report_unstarted([operation.instance for operation in plan.operations], why)

    def _apply(self, plan: Plan) -> None:
        for name in plan.drop:
            self._decide(self._scheduler.drop(name))
        for name in plan.keep:
            with self._isolated(self._facade.workloads[name].current):
                self._keep(name)
        for instance in plan.removed:
            self.report(instance, REMOVED)
        for found in plan.unneeded:
            with self._isolated(found.instance_name):
                self._facade.delete_found(found)
        for resume in plan.resume:
            with self._isolated(resume.spec.instance_name):
                self._facade.resume(resume.spec, resume.id)
        for replacement in plan.replace:
            with self._isolated(replacement.spec.instance_name):
                self._facade.replace(replacement.found)
        operations = [self._about_what_is(operation) for operation in plan.operations]
        self._decide(self._scheduler.schedule(operations, self._states))

    def report_unstarted(self, names: Iterable[InstanceName], why: str) -> None:
        """Those of these that neither have a task nor wait for something will not start, for this reason."""
        for name in names:
            if name.workload not in self.workloads and name.workload not in self.waiting:
                self.report(name, PENDING_STARTING_FAILED.because(why))

    @contextmanager
    def _isolated(self, name: InstanceName) -> Iterator[None]:
        """An internal error about one workload must not keep the others from what they are to do."""
        try:
            yield
        except Exception as error:
            why = internal_error(f"an operation on workload '{name.workload}'", error)
            self.report(name, FAILED_UNKNOWN.because(why))

    def _about_what_is(self, operation: Operation) -> Operation:
        """After a failed update the server speaks of an instance that never came about; what is there is meant."""
        workload = self._facade.workloads.get(operation.name)
        if workload is None or operation.name in self.waiting:
            return operation
        match operation:
            case DeleteOperation(deleted) if not workload.owns(deleted.instance_name):
                self.report(deleted.instance_name, REMOVED)
                return DeleteOperation(replace(deleted, instance_name=workload.current))
            case UpdateOperation(spec, deleted) if not workload.owns(deleted.instance_name):
                self._gone_already(deleted.instance_name, unless=spec.instance_name)
                return UpdateOperation(spec, replace(deleted, instance_name=workload.current))
            case _:
                return operation

    def _keep(self, name: str) -> None:
        """It goes on as it is; a stop that waited is off. The server has lost its state, so that is told again."""
        self._decide(self._scheduler.drop(name))
        workload = self._facade.workloads[name]
        if (state := workload.last_state) is not None:
            self._states.store(workload.current, REMOVED)  # nothing is damped by what was planned before
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
        workload = self._facade.workloads.get(operation.name)
        match operation:
            case CreateOperation(spec) if workload is not None:
                workload.update(spec)
            case CreateOperation(spec, reuse):
                self._facade.create(spec, reuse)
            case UpdateOperation(spec, deleted):
                self._gone_already(deleted.instance_name, unless=spec.instance_name)
                if workload is not None and operation.starts_new_first and workload.target is not None:
                    self._facade.start_beside(spec)
                elif workload is not None:
                    workload.update(spec)
                else:
                    # [impl->swdd~agent-add-on-update-missing-workload~1]
                    self._facade.create(spec)
            case DeleteBeforeUpdate(instance):
                self._gone_already(instance)
                if workload is not None:
                    workload.update(None)
            case DeleteOperation(deleted):
                # [impl->swdd~podman-adapter-request-stopping-container~2]
                self._gone_already(deleted.instance_name)
                if workload is not None:
                    workload.delete()

    def _gone_already(self, instance: InstanceName, unless: InstanceName | None = None) -> None:
        """No task will ever report its end, so it is done here."""
        workload = self._facade.workloads.get(instance.workload)
        if instance != unless and not (workload is not None and workload.owns(instance)):
            self.report(instance, REMOVED)

    def report(self, name: InstanceName, state: ExecutionState) -> None:
        """Store, tell the server, and see what the news sets free. News that this makes come in turn."""
        self._reports.append((name, state))
        if self._reporting:
            return
        self._reporting = True
        try:
            while self._reports:
                self._pass_on_safely(*self._reports.popleft())
        finally:
            self._reporting = False

    def _pass_on_safely(self, name: InstanceName, state: ExecutionState) -> None:
        """What a state sets free is the business of other workloads, not of the one that reports it."""
        try:
            self._pass_on(name, state)
        except Exception as error:
            internal_error(f"the report that '{name}' is {state}", error)

    def _pass_on(self, name: InstanceName, state: ExecutionState) -> None:
        """[impl->swdd~podman-workload-sends-workload-state~1]"""
        accepted = self._states.report(name, state)
        message = workload_state_to_pb(name, accepted)
        message.timeMs = self.records.note(name, accepted)
        update = UpdateWorkloadState(workloadStates=[message])
        self._outbox.put_state(name, ToServer(updateWorkloadState=update), is_last=state.is_same(REMOVED))
        self._facade.ready(name, accepted)
        match self._scheduler.entries.get(name.workload):
            case CreateOperation(spec) if spec.instance_name == name and state.is_same(REMOVED):
                # Its predecessor has the same name: that one's end must not be the last word.
                self._reports.append((name, PENDING_WAITING_TO_START))
            case _:
                pass
        self.recheck([name.workload])
