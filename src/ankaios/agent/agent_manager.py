"""Handles the messages of the server.

Input: messages of the server. Output: plans for `WorkloadOperations`, responses to workloads, messages to the server.
No function of this module waits; long operations run in separate tasks. The module owns the task that reports the known
workloads to a new server.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from ankaios.agent.core.runtime_manager import Found, RuntimeManager
from ankaios.agent.devices import DeviceProvider
from ankaios.agent.listings import Listings
from ankaios.agent.load_reporter import LoadReporter
from ankaios.agent.log_streams import LogSource, LogStreams
from ankaios.agent.run_folder import RunFolder
from ankaios.agent.server_link import Connected, Disconnected, LinkChannel, LinkEvent, Outbox
from ankaios.agent.usage_reporter import UsageReporter
from ankaios.agent.workload_object import WorkloadObject
from ankaios.agent.workload_operations import WorkloadOperations
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.execution_state import PENDING_STARTING
from ankaios.common.messages import REQUEST_ID_SEPARATOR
from ankaios.common.pb.ank_base_pb2 import Response
from ankaios.common.pb.grpc_api_pb2 import (
    DeviceUpdate,
    FromServer,
    KnownWorkloads,
    ServerHello,
    ToServer,
    UpdateWorkload,
    UpdateWorkloadState,
)
from ankaios.common.proto_conversion import (
    added_workload_from_pb,
    deleted_workload_from_pb,
    instance_name_from_pb,
    instance_name_to_pb,
    workload_state_from_pb,
)
from ankaios.common.supervision import Supervisor, internal_error
from ankaios.common.workload import InstanceName
from ankaios.devices.host import DeviceHost
from ankaios.runtimes.connectors import Connectors

if TYPE_CHECKING:
    from ankaios.agent.core.offline_state import OfflineState
    from ankaios.agent.offline_store import OfflineStore

LISTING_LIMIT = 1.5

log = logging.getLogger(__name__)


class AgentManager:
    """[impl->swdd~agent-manager-listens-requests-from-server~1]"""

    def __init__(
        self,
        name: str,
        connectors: Connectors,
        folder: RunFolder,
        devices: DeviceProvider,
        outbox: Outbox,
        load: LoadReporter,
        tasks: Supervisor,
        chance: Callable[[], float],
    ) -> None:
        self.name = name
        self.is_connected = False
        self.has_workloads = False  # received from the server
        self._devices = devices
        self._outbox = outbox
        self._load = load
        self._tasks = tasks
        self._runtimes = tuple(connectors)
        self._planner = RuntimeManager(self._runtimes)
        self._work = WorkloadOperations(name, connectors, folder, devices, outbox, tasks, chance)
        self._logs = LogStreams(self._log_source, outbox, tasks)
        self._usage = UsageReporter(self._processes, outbox, tasks)
        self._listings = Listings(self._work.existing_workloads, self._listed, self._report_delay, tasks)
        self._answer: asyncio.Task[None] | None = None
        self._session_is_new = False
        self._lost_at = ""
        self._offline_store: OfflineStore | None = None

    async def run(self, inbox: LinkChannel) -> None:
        """[impl->swdd~agent-uses-async-channels~1]"""
        async for event in inbox:
            self.handle(event)

    async def run_devices(self) -> None:
        host = DeviceHost(self._outbox.put_transient, self._wake, self._restart, self._living)
        await self._devices.run(host)

    def handle(self, event: LinkEvent) -> None:
        match event:
            case Connected():
                self.is_connected = self._session_is_new = True
                self._load.connected()
                self._devices.connected()
            case Disconnected():
                self._lost_at = datetime.now(UTC).isoformat()
                self.is_connected = False
                self._logs.cancel_all()
                self._work.records.disconnected()
                self._usage.stop()
                self._devices.disconnected()
            case FromServer():
                self._receive_safely(event)

    def _receive_safely(self, message: FromServer) -> None:
        """Handle one message. An error in it does not affect the next message."""
        kind = message.WhichOneof("FromServerEnum")
        try:
            self._receive(message)
        except Rejected as error:
            log.warning("ignoring a message of the server with invalid '%s': %s", kind, error)
        except Exception as error:
            self._work.report_unstarted(_added(message), internal_error(f"the message '{kind}' of the server", error))

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
                self._receive_device_update(message.deviceUpdate)
            case "slotResponse":
                self._devices.handle(message.slotResponse)
            case "recordsRequest":
                self._work.records.send_since(message.recordsRequest.sinceMs)
            case "tellWorkloads":
                self._send_known_workloads()
            case "measureUsage":
                self._usage.measure(message.measureUsage.seconds)
            case None:
                raise Rejected("it is empty, or newer than this agent")

    def _server_hello(self, message: ServerHello) -> None:
        added = [added_workload_from_pb(item) for item in message.addedWorkloads]
        forgotten = self._begin_session()
        self.has_workloads = True
        plan = self._planner.server_hello(
            added, self._work.workloads, self._work.waiting, keep_unlisted=message.keepUnlisted
        )
        if message.keepUnlisted:  # the stored assignment is kept as well
            log.warning("the server has lost a part of its state: workloads that it does not list are not deleted")
        elif self._offline_store is not None:
            self._offline_store.assign(added)
        self._work.apply(plan)
        self._work.recheck(forgotten)
        self._listings.begin(self._planner.unlisted(), self._planner.awaited())
        for workload in self._work.workloads.values():
            workload.interface.repeat_requests(self._lost_at)

    def _begin_session(self) -> set[str]:
        """Drop the states of other agents at the first message of a session, because the server sends them again."""
        if not self._session_is_new:
            return set()
        self._session_is_new = False
        return self._work.forget_other_agents()

    def _listed(self, runtime: str, found: list[Found]) -> None:
        self._work.apply(self._planner.listed(runtime, found, self._work.workloads, self._work.waiting))

    def _report_delay(self, runtime: str, why: str) -> None:
        for spec in self._planner.held(runtime):
            self._work.report(spec.instance_name, PENDING_STARTING.because(why))

    def _send_known_workloads(self) -> None:
        """A new server requests this before its hello, so that it can keep earlier placements."""
        if self._answer is not None:
            self._answer.cancel()
        unknown = self._planner.unlisted() if self.has_workloads else self._runtimes
        known = self._work.known_instances()
        name = "the report of the known workloads"
        self._answer = self._tasks.run_once(name, lambda: self._list_and_send(known, unknown))

    async def _list_and_send(self, known: Iterable[InstanceName], unlisted: Iterable[str]) -> None:
        """Send the known instances and those that exist in runtimes which are not listed yet."""
        found = await asyncio.gather(*map(self._found_in, unlisted))
        names = dict.fromkeys([*known, *chain.from_iterable(found)])
        message = KnownWorkloads(instanceNames=map(instance_name_to_pb, names))
        self._outbox.put_transient(ToServer(knownWorkloads=message))

    async def _found_in(self, runtime: str) -> list[InstanceName]:
        """Return an empty list for a runtime that does not answer in time, because the server waits only briefly."""
        try:
            async with asyncio.timeout(LISTING_LIMIT):
                return [item.instance_name for item in await self._work.existing_workloads(runtime)]
        except (Rejected, Unavailable, TimeoutError) as error:
            log.warning("cannot report the workloads of runtime '%s' to the server: %s", runtime, error or "no answer")
        except Exception as error:
            internal_error(f"the list of existing workloads of '{runtime}'", error)
        return []

    def _update_workload(self, message: UpdateWorkload) -> None:
        added = [added_workload_from_pb(item) for item in message.addedWorkloads]
        deleted = [deleted_workload_from_pb(item) for item in message.deletedWorkloads]
        if self._offline_store is not None:
            self._offline_store.update(added, deleted)
        plan = self._planner.update_workload(added, deleted, self._work.workloads, self._work.waiting)
        self._work.apply(plan)
        self._listings.hurry(self._planner.awaited())

    def _update_workload_state(self, message: UpdateWorkloadState) -> None:
        states = [workload_state_from_pb(item) for item in message.workloadStates]
        self._work.recheck(self._begin_session() | self._work.update_states(states))
        if self._offline_store is not None:
            self._offline_store.states_changed(name.workload for name, _ in states)

    # --- starting without a server ------------------------------------------------------------------------------------

    def use_offline_store(self, store: "OfflineStore") -> None:
        """Store what is needed for a start without a server, and each change of it."""
        self._offline_store = store
        self._tasks.keep_running("the state file", lambda: store.run(self._work.states_of))

    def start_offline(self, stored: "OfflineState", seconds: int) -> None:
        """Start the stored workloads. When a server connects, its list applies, and unchanged workloads are kept."""
        if self.has_workloads:
            return
        log.warning("no server for %d s: starting %d stored workloads", seconds, len(stored.workloads))
        if stored.devices:
            self._devices.handle(DeviceUpdate.FromString(stored.devices))
        self._work.update_states([(known.name, known.state) for known in stored.states])
        self._work.apply(self._planner.server_hello(stored.workloads, self._work.workloads, self._work.waiting))
        self._listings.begin(self._planner.unlisted(), self._planner.awaited())

    def _receive_device_update(self, update: DeviceUpdate) -> None:
        if update.complete and self._offline_store is not None:
            self._offline_store.put_devices(update)
        self._devices.handle(update)

    def _response(self, response: Response) -> None:
        """[impl->swdd~agent-uses-id-prefix-forward-control-interface-response-correct-workload~1]
        [impl->swdd~agent-remove-id-prefix-forwarding-control-interface-response~1]
        """
        full_id = response.requestId
        name, _, response.requestId = full_id.partition(REQUEST_ID_SEPARATOR)
        workload = self._work.workloads.get(name)
        if workload is not None and workload.interface.deliver(response):
            return
        log.warning("a response is dropped: the workload '%s' has no control interface", name)
        if response.HasField("logEntriesResponse"):
            self._outbox.cancel_logs(full_id)

    def _log_source(self, name: str) -> LogSource | None:
        workload = self._work.workloads.get(name)
        return workload.log_source() if workload else None

    def _processes(self) -> dict[InstanceName, list[int]]:
        return {workload.current: pids for workload in self._work.workloads.values() if (pids := workload.processes())}

    def _wake(self, owner: str) -> None:
        """Let a workload that waits for devices claim them again."""
        if workload := self._current(owner):
            self._work.devices_changed(workload.current.workload)

    def _restart(self, owner: str) -> None:
        if workload := self._current(owner):
            workload.restart()

    def _current(self, owner: str) -> WorkloadObject | None:
        """Return None if the workload was replaced or deleted in the meantime."""
        workload = self._work.workloads.get(owner.partition(".")[0])
        return workload if workload is not None and str(workload.current) == owner else None

    def _living(self) -> Collection[str] | None:
        """Return None until the server has sent all workloads and all runtimes are listed."""
        is_known = self.has_workloads and not self._planner.unlisted() and not self._planner.keeps_unlisted
        return set(map(str, self._work.instances())) if is_known else None


def _added(message: FromServer) -> list[InstanceName]:
    """Return the workloads that the message adds."""
    added = [*message.serverHello.addedWorkloads, *message.updateWorkload.addedWorkloads]
    return [instance_name_from_pb(item.instanceName) for item in added]
