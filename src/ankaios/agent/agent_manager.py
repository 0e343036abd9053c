"""The heart of the agent: what the server wants, what workloads report, and what follows from it.

Comes in: messages of the server, states of own workloads, requests of workloads. Goes out: work for the runtime facade,
messages to the server. Nothing here waits: whatever takes time is a task of its own. Owned here: the states of all
workloads and what waits for them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping

from ankaios.agent.control_interface import Outside
from ankaios.agent.core.dependencies import Decision, DependencyScheduler
from ankaios.agent.core.operations import Create, Delete, Operation, StateReport, Update, Vacate
from ankaios.agent.core.parameter_storage import ParameterStorage
from ankaios.agent.core.runtime_manager import Found, Plan, RuntimeManager
from ankaios.agent.device_joint import DeviceHost, DeviceService
from ankaios.agent.load_reporter import LoadReporter
from ankaios.agent.log_streams import LogSource, LogStreams
from ankaios.agent.run_folder import RunFolder
from ankaios.agent.runtime_facade import RuntimeFacade
from ankaios.agent.server_link import Connected, Disconnected, LinkChannel, LinkEvent, Outbox
from ankaios.agent.workload_task import Surroundings
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.execution_state import (
    PENDING_STARTING,
    PENDING_WAITING_TO_START,
    REMOVED,
    SUCCEEDED_OK,
    ExecutionState,
)
from ankaios.common.messages import REQUEST_ID_SEPARATOR
from ankaios.common.pb.ank_base_pb2 import LogsCancelRequest, Request, Response
from ankaios.common.pb.grpc_api_pb2 import (
    FromServer,
    ServerHello,
    ToServer,
    UpdateWorkload,
    UpdateWorkloadState,
)
from ankaios.common.proto_conversion import (
    added_workload_from_pb,
    deleted_workload_from_pb,
    workload_state_from_pb,
    workload_state_to_pb,
)
from ankaios.common.workload import InstanceName
from ankaios.runtimes.runtime_connector import RuntimeConnector

REQUESTS_UNDER_WAY = 20
FIRST_LISTING_PAUSE = 0.5
LONGEST_LISTING_PAUSE = 30.0

log = logging.getLogger(__name__)


class AgentManager:
    """[impl->swdd~agent-manager-listens-requests-from-server~1]"""

    def __init__(
        self,
        name: str,
        connectors: Mapping[str, RuntimeConnector],
        folder: RunFolder,
        devices: DeviceService,
        outbox: Outbox,
        load: LoadReporter,
        tasks: asyncio.TaskGroup,
        chance: Callable[[], float],
    ) -> None:
        self._name = name
        self._devices = devices
        self._outbox = outbox
        self._load = load
        self._tasks = tasks
        self._states = ParameterStorage()
        self._scheduler = DependencyScheduler()
        self._planner = RuntimeManager(tuple(connectors))
        around = Surroundings(connectors, folder, devices, self.report, chance)
        self._facade = RuntimeFacade(name, around, self._outside, tasks)
        self._logs = LogStreams(self._log_source, outbox, tasks)
        self._reports: deque[StateReport] = deque()
        self._reporting = False
        self._listings: dict[str, asyncio.Task[None]] = {}
        self._session_is_new = False

    async def run(self, inbox: LinkChannel) -> None:
        """[impl->swdd~agent-uses-async-channels~1]"""
        async for event in inbox:
            self.handle(event)

    async def run_devices(self) -> None:
        await self._devices.run(DeviceHost(self._outbox.put_transient, self._wake_waiting, self._restart))

    # -- messages of the server

    def handle(self, event: LinkEvent) -> None:
        match event:
            case Connected():
                self._session_is_new = True
                self._load.connected()
                self._devices.connected()
            case Disconnected():
                self._logs.cancel_all()
            case FromServer():
                try:
                    self._receive(event)
                except Rejected as error:
                    kind = event.WhichOneof("FromServerEnum")
                    log.warning("a message of the server is ignored, its '%s' makes no sense: %s", kind, error)

    def _receive(self, message: FromServer) -> None:
        match message.WhichOneof("FromServerEnum"):
            case "serverHello":
                self._server_hello(message.serverHello)
            case "updateWorkload":
                self._update_workload(message.updateWorkload)
            case "updateWorkloadState":
                self._update_workload_state(message.updateWorkloadState)
            case "response":
                self._response(message.response)
            case "logsRequest":
                self._logs.start(message.logsRequest.requestId, message.logsRequest.logsRequest)
            case "logsCancelRequest":
                self._logs.cancel(message.logsCancelRequest.requestId)
            case "deviceUpdate":
                self._devices.handle(message.deviceUpdate)
            case "slotResponse":
                self._devices.handle(message.slotResponse)
            case None:
                raise Rejected("it is empty, or newer than this agent")

    def _server_hello(self, message: ServerHello) -> None:
        added = [added_workload_from_pb(item) for item in message.addedWorkloads]
        forgotten = self._begin_session()
        waiting = {name: entry for name in self._scheduler.names() if (entry := self._scheduler.waiting(name))}
        self._apply(self._planner.server_hello(added, self._facade.workloads, waiting))
        self._decide(self._scheduler.recheck(forgotten, self._states))
        for listing in self._listings.values():
            listing.cancel()
        for runtime in self._planner.unlisted():
            work = self._list(runtime)
            self._listings[runtime] = self._tasks.create_task(work, name=f"existing workloads of '{runtime}'")

    def _begin_session(self) -> set[str]:
        """The server tells the states of other agents anew, before or never."""
        if not self._session_is_new:
            return set()
        self._session_is_new = False
        return self._states.forget_other_agents(self._name)

    async def _list(self, runtime: str) -> None:
        """Ask until the runtime answers: only it knows what must not be started twice."""
        pause, attempt = FIRST_LISTING_PAUSE, 1
        while True:
            try:
                found = await self._facade.existing_workloads(runtime)
                break
            except (Rejected, Unavailable) as error:
                log.log(
                    logging.WARNING if attempt == 1 else logging.DEBUG,
                    "cannot list the workloads of the runtime '%s', asking again: %s",
                    runtime,
                    error,
                )
                for spec in self._planner.held(runtime):
                    self.report(spec.instance_name, PENDING_STARTING.because(f"Retry {attempt}: {error}"))
            await asyncio.sleep(pause)
            pause, attempt = min(2 * pause, LONGEST_LISTING_PAUSE), attempt + 1
        self._apply(self._planner.listed(runtime, found, self._facade.workloads))

    def _update_workload(self, message: UpdateWorkload) -> None:
        added = [added_workload_from_pb(item) for item in message.addedWorkloads]
        deleted = [deleted_workload_from_pb(item) for item in message.deletedWorkloads]
        waiting = self._scheduler.names()
        self._apply(self._planner.update_workload(added, deleted, self._facade.workloads, waiting))

    def _update_workload_state(self, message: UpdateWorkloadState) -> None:
        """[impl->swdd~agent-manager-stores-all-workload-states~1]"""
        states = [workload_state_from_pb(item) for item in message.workloadStates]
        changed = self._begin_session()
        for name, state in states:
            if name.agent != self._name:  # of its own workloads this agent knows best
                self._states.store(name, state)
                changed.add(name.workload)
        self._decide(self._scheduler.recheck(changed, self._states))

    def _response(self, response: Response) -> None:
        """[impl->swdd~agent-uses-id-prefix-forward-control-interface-response-correct-workload~1]
        [impl->swdd~agent-remove-id-prefix-forwarding-control-interface-response~1]
        """
        full_id = response.requestId
        name, _, response.requestId = full_id.partition(REQUEST_ID_SEPARATOR)
        workload = self._facade.workloads.get(name)
        if workload is not None and workload.deliver(response):
            return
        log.warning("a response is dropped: the workload '%s' has no control interface", name)
        if response.HasField("logEntriesResponse"):
            self._cancel_logs(full_id)

    # -- plans and decisions

    def _apply(self, plan: Plan) -> None:
        for name in plan.drop:
            self._decide(self._scheduler.drop(name))
        for name in plan.keep:
            self._keep(name)
        for instance in plan.removed:
            self.report(instance, REMOVED)
        for found in plan.unneeded:
            self._facade.delete_found(found)
        for resume in plan.resume:
            self._facade.resume(resume.spec, resume.id)
        for replacement in plan.replace:
            self._facade.replace(replacement.found)
        self._decide(self._scheduler.schedule(plan.operations, self._states))

    def _keep(self, name: str) -> None:
        """It goes on as it is; a stop that waited is off. The server has lost its state, so that is told again."""
        self._decide(self._scheduler.drop(name))
        workload = self._facade.workloads[name]
        if (state := workload.last_state) is not None:
            self._states.store(workload.current, REMOVED)  # nothing is damped by what was planned before
            self.report(workload.current, state)

    def _decide(self, decision: Decision) -> None:
        for name, state in decision.reports:
            self.report(name, state)
        for entry in decision.abandoned:
            spec = entry.spec
            self._facade.delete_found(Found(spec.runtime, spec.instance_name, SUCCEEDED_OK, entry.reuse))
        for operation in decision.ready:
            self._execute(operation)

    def _execute(self, operation: Operation) -> None:
        workload = self._facade.workloads.get(operation.name)
        match operation:
            case Create(spec) if workload is not None:
                workload.update(spec)
            case Create(spec, reuse):
                self._facade.create(spec, reuse)
            case Update(spec, deleted):
                self._gone_already(deleted.instance_name, unless=spec.instance_name)
                if workload is not None:
                    workload.update(spec)
                else:
                    # [impl->swdd~agent-add-on-update-missing-workload~1]
                    self._facade.create(spec)
            case Vacate(instance):
                self._gone_already(instance)
                if workload is not None:
                    workload.update(None)
            case Delete(deleted):
                # [impl->swdd~podman-adapter-request-stopping-container~2]
                self._gone_already(deleted.instance_name)
                if workload is not None:
                    workload.delete()

    def _gone_already(self, instance: InstanceName, unless: InstanceName | None = None) -> None:
        """No task will ever report its end, so it is done here."""
        workload = self._facade.workloads.get(instance.workload)
        if instance != unless and not (workload is not None and workload.owns(instance)):
            self.report(instance, REMOVED)

    # -- states of own workloads

    def report(self, name: InstanceName, state: ExecutionState) -> None:
        """Store, tell the server, and see what the news sets free. News that this makes come in turn."""
        self._reports.append((name, state))
        if self._reporting:
            return
        self._reporting = True
        try:
            while self._reports:
                self._pass_on(*self._reports.popleft())
        finally:
            self._reporting = False

    def _pass_on(self, name: InstanceName, state: ExecutionState) -> None:
        """[impl->swdd~podman-workload-sends-workload-state~1]"""
        accepted = self._states.report(name, state)
        update = UpdateWorkloadState(workloadStates=[workload_state_to_pb(name, accepted)])
        self._outbox.put_state(name, ToServer(updateWorkloadState=update))
        match self._scheduler.waiting(name.workload):
            case Create(spec) if spec.instance_name == name and state.is_same(REMOVED):
                # Its predecessor has the same name: that one's end must not be the last word.
                self._reports.append((name, PENDING_WAITING_TO_START))
            case _:
                pass
        self._decide(self._scheduler.recheck([name.workload], self._states))

    # -- what others need

    def _outside(self) -> Outside:
        """Each control interface has its own limit of requests that wait for the server."""
        room = asyncio.Semaphore(REQUESTS_UNDER_WAY)

        async def forward(request: Request) -> None:
            await room.acquire()
            self._outbox.put(ToServer(request=request), room.release)

        return Outside(forward, self._cancel_logs)

    def _cancel_logs(self, full_id: str) -> None:
        """Nobody reads these logs."""
        self._outbox.put(ToServer(request=Request(requestId=full_id, logsCancelRequest=LogsCancelRequest())))

    def _log_source(self, name: str) -> LogSource | None:
        workload = self._facade.workloads.get(name)
        return workload.log_source() if workload else None

    def _wake_waiting(self) -> None:
        for workload in self._facade.workloads.values():
            workload.devices_changed()

    def _restart(self, name: InstanceName) -> None:
        workload = self._facade.workloads.get(name.workload)
        if workload is not None and workload.current == name:
            workload.restart()
