"""An agent without server and containers: a test sends messages of the server and reads those of the agent."""

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from ankaios.agent.agent_manager import AgentManager
from ankaios.agent.devices import DeviceProvider
from ankaios.agent.load_reporter import LoadReporter
from ankaios.agent.resource_monitor import ResourceMonitor
from ankaios.agent.run_folder import RunFolder
from ankaios.agent.server_link import Connected, Disconnected, Outbox
from ankaios.common import supervision
from ankaios.common.execution_state import ExecutionState
from ankaios.common.pb.grpc_api_pb2 import FromServer, ServerHello, ToServer, UpdateWorkload, UpdateWorkloadState
from ankaios.common.proto_conversion import (
    deleted_workload_to_pb,
    workload_state_from_pb,
    workload_state_to_pb,
)
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import DeleteCondition, DeletedWorkload, InstanceName, WorkloadSpec
from ankaios.runtimes.connectors import Connectors
from tests.support.builders import added_workload_to_pb
from tests.support.fake_runtime import FakeRuntime
from tests.unit.agent.fake_devices import NoDevices

TRIGGERED = "«T»"
NOT_PENDING_NOR_RUNNING = DeleteCondition.DEL_COND_NOT_PENDING_NOR_RUNNING


def server_hello(*added: WorkloadSpec) -> FromServer:
    return FromServer(serverHello=ServerHello(addedWorkloads=map(added_workload_to_pb, added)))


def update_workload(
    added: tuple[WorkloadSpec, ...] = (), deleted: Mapping[InstanceName, Mapping[str, DeleteCondition]] | None = None
) -> FromServer:
    gone = [DeletedWorkload(name, conditions) for name, conditions in (deleted or {}).items()]
    message = UpdateWorkload(
        addedWorkloads=map(added_workload_to_pb, added), deletedWorkloads=map(deleted_workload_to_pb, gone)
    )
    return FromServer(updateWorkload=message)


def states_of_others(*states: tuple[InstanceName, ExecutionState]) -> FromServer:
    message = UpdateWorkloadState(workloadStates=[workload_state_to_pb(*state) for state in states])
    return FromServer(updateWorkloadState=message)


class AgentScenario:
    """All parts are real except the server and the runtimes."""

    def __init__(self, manager: AgentManager, outbox: Outbox, runtimes: list[FakeRuntime], folder: RunFolder) -> None:
        self.manager = manager
        self.outbox = outbox
        self.runtimes = {runtime.name: runtime for runtime in runtimes}
        self.folder = folder
        self._ids: dict[str, list[str]] = {}

    @property
    def podman(self) -> FakeRuntime:
        return self.runtimes["podman"]

    def connect(self) -> None:
        self.outbox.go_online()
        self.manager.handle(Connected())

    def disconnect(self) -> None:
        self.outbox.go_offline()
        self.manager.handle(Disconnected())

    async def handle(self, *messages: FromServer) -> list[str]:
        """Return the reports of the agent after these messages."""
        for message in messages:
            self.manager.handle(message)
        return await self.reports()

    async def messages(self) -> list[ToServer]:
        """Return all messages of the agent after it has become idle."""
        messages: list[ToServer] = []
        idle = 0
        while idle < 20:
            await asyncio.sleep(0)
            idle += 1
            while (message := self.outbox._queue.take()) is not None:
                messages.append(message)
                idle = 0
        return messages

    async def reports(self) -> list[str]:
        messages = await self.messages()
        return [self._line(message) for message in messages if message.HasField("updateWorkloadState")]

    async def until(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - the condition is the test's
                await asyncio.sleep(0.002)

    def _line(self, message: ToServer) -> str:
        (state,) = message.updateWorkloadState.workloadStates
        name, execution = workload_state_from_pb(state)
        info = execution.additional_info.replace("Triggered at runtime.", "T")
        return f"{self.label(name)} {execution}{f'«{info}»' if info else ''}"

    def label(self, name: InstanceName) -> str:
        """`web`, or `web#2` for the second id seen under that name."""
        ids = self._ids.setdefault(name.workload, [])
        if name.id not in ids:
            ids.append(name.id)
        number = ids.index(name.id) + 1
        return name.workload if number == 1 else f"{name.workload}#{number}"


@asynccontextmanager
async def an_agent(
    name: str = "A",
    runtimes: tuple[str, ...] = ("podman",),
    *,
    prepare: Callable[[FakeRuntime], None] | None = None,
    devices: DeviceProvider | None = None,
    chance: Callable[[], float] = lambda: 0.0,
    base: Path | None = None,
    made_by: Callable[[str], FakeRuntime] = FakeRuntime,
    expects_bugs: bool = False,
) -> AsyncIterator[AgentScenario]:
    """Internal errors, after which an agent continues, fail a test that does not expect them."""
    bugs = Bugs()
    connectors = [made_by(runtime) for runtime in runtimes]
    if prepare:
        prepare(connectors[0])
    with tempfile.TemporaryDirectory() as directory:
        where = base or Path(directory)
        folder = RunFolder(where, name)
        folder.prepare()
        outbox = Outbox()
        async with Supervisor() as tasks:
            manager = AgentManager(
                name,
                Connectors({connector.name: partial(lambda it: it, connector) for connector in connectors}),
                folder,
                devices or NoDevices(),
                outbox,
                LoadReporter(name, outbox, ResourceMonitor()),
                tasks,
                chance,
            )
            scenario = AgentScenario(manager, outbox, connectors, folder)
            scenario.connect()
            supervision.log.addHandler(bugs)
            try:
                yield scenario
            finally:
                supervision.log.removeHandler(bugs)
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()
    if bugs.found and not expects_bugs:
        raise AssertionError("the agent had internal errors") from bugs.found[0]


class Bugs(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[BaseException | None] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.exc_info[1] if record.exc_info else None)
