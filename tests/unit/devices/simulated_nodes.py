"""Agents with the real device service, in a world where nothing happens unless the test says so.

The clock stands still, messages wait in queues, plugins and disk answer when they are let, and a process that is killed
does nothing more: no goodbye to the server, nothing on disk. What is faked is only what touches the outside: sockets,
files, time.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX, ResourceRequest
from ankaios.devices import device_service, holdings
from ankaios.devices.acquisition import Waiting
from ankaios.devices.claim_store import Record
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.grants import ANNOTATION_PREFIX
from ankaios.devices.device_manager import Count, PluginFailed
from ankaios.devices.device_service import DeviceService, Host
from ankaios.devices.reconciler import Reconciler


class StandingClock(asyncio.SelectorEventLoop):
    """Time passes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def do(self, function: Callable[..., object], *values: object) -> None:
        """This, and all that follows of itself."""

        async def run() -> None:
            function(*values)
            for _ in range(12):
                await asyncio.sleep(0)

        self.run_until_complete(run())

    def settle(self) -> None:
        self.do(lambda: None)


class FakePlugins:
    """Our plugins, without sockets."""

    def __init__(self, folder: Path, *, watches: bool) -> None:
        self._resources: set[str] = set()

    def __contains__(self, resource: str) -> bool:
        return resource in self._resources

    def add(self, behaviour: Any) -> None:
        self._resources.add(behaviour.resource)

    def remove(self, resource: str) -> None:
        self._resources.discard(resource)

    def refresh(self, resource: str) -> None: ...

    def register_again(self, resource: str) -> None: ...


class FakeManager:
    """Asks the owners of the slots themselves, as our plugins would; each answer takes its time and may fail."""

    def __init__(self, folder: Path, changed: Callable[[str, bool], None], listener: object) -> None:
        self.process: Process
        self.broken = False
        self._changed = changed

    def is_ready(self, resource: str) -> bool:
        return resource in self.process.service.plugins

    def has_lost(self, resource: str) -> bool:
        return False

    def resources(self) -> list[str]:
        return []

    def count(self, resource: str) -> Count:
        return Count(0, 0, 0)

    def free(self, resource: str) -> int:
        return 0

    def are_healthy(self, resource: str, ids: Sequence[str]) -> bool:
        return False

    def mark(self, resource: str, ids: Sequence[str], owner: str) -> None: ...

    def unmark(self, resource: str, ids: Sequence[str], owner: str) -> None: ...

    async def allocate(self, resource: str, ids: Sequence[str], owner: str) -> DeviceGrant:
        await self.process.pause()
        if self.broken:
            raise PluginFailed("out of order")
        node, office = self.process.service.node, self.process.service._office
        target = resource.removeprefix(DEFAULT_RESOURCE_PREFIX)
        (grant,) = await office.allocate(target, target in node.configurations, [ids], owner)
        await self.process.pause()
        return grant

    async def pre_start(self, resource: str, ids: Sequence[str]) -> None: ...


class FakeDisk:
    """What outlives a process. Of one that is dead nothing is written any more."""

    def __init__(self, records: dict[str, Record], process: "Process") -> None:
        self._records = records
        self._process = process

    def load(self) -> Iterator[Record]:
        return iter(list(self._records.values()))

    def save(self, record: Record) -> None:
        if self._process.alive:
            self._records[record.owner] = record

    def remove(self, owner: str) -> None:
        if self._process.alive:
            self._records.pop(owner, None)


class FakeFiles:
    def __init__(self, folder: Path) -> None: ...

    def open(self) -> None: ...

    def write(self, owner: str, number: int, grant: DeviceGrant, described: object) -> DeviceGrant:
        return grant

    def remove(self, owner: str, count: int) -> None: ...


async def slow_disk(function: Callable[..., Any], *values: Any) -> Any:
    """In place of a thread: before and after what it does, anything may happen."""
    process: Process = function.__self__._manager.process  # type: ignore[attr-defined]
    await process.pause()
    result = function(*values)
    await process.pause()
    return result


FAKES = (
    (device_service, "DeviceManager", FakeManager),
    (device_service, "PluginHost", FakePlugins),
    (holdings, "DevicesFiles", FakeFiles),
)


class Node:
    """One machine: its disk and its containers stay, whatever happens to the agent."""

    def __init__(self, name: str, loop: StandingClock, shared: Sequence[str], local: Sequence[str]) -> None:
        self.name = name
        self.loop = loop
        self.devices = {"cam": (True, [*shared]), "mic": (False, [*local])}
        self.visible = {"cam": [*shared], "mic": [*local]}
        self.disk: dict[str, Record] = {}
        self.wanted: dict[str, tuple[str, int]] = {}
        self.containers: dict[str, set[str]] = {}  # owner -> slots
        self.outbox: deque[grpc.ToServer] = deque()
        self.inbox: deque[grpc.FromServer] = deque()
        self.connected = False
        self.process = Process(self)

    def kill(self) -> None:
        self.cut()
        self.loop.do(self.process.kill)
        self.process = Process(self)
        self.loop.do(self.process.start)

    def connect(self) -> None:
        self.connected = True
        self.outbox.append(grpc.ToServer(agentHello=grpc.AgentHello(devices=True)))
        self.loop.do(self.process.service.connected)

    def cut(self) -> None:
        """Whatever was on its way is lost."""
        if self.connected:
            self.connected = False
            self.outbox.clear()
            self.inbox.clear()
            self.loop.do(self.process.service.disconnected)

    def receive(self) -> None:
        message = self.inbox.popleft()
        kind = message.deviceUpdate if message.HasField("deviceUpdate") else message.slotResponse
        self.loop.do(self.process.service.handle, kind)
        if message.deviceUpdate.complete:  # now handlers are asked
            for configuration in self.devices:
                self.loop.do(self.process.look, configuration)

    def show(self, configuration: str, devices: Iterable[str]) -> None:
        self.visible[configuration] = list(devices)
        self.loop.do(self.process.look, configuration)

    def want(self, owner: str, configuration: str, quantity: int) -> None:
        if owner not in self.wanted and owner not in self.process.workloads:
            self.wanted[owner] = (configuration, quantity)
            self.loop.do(self.process.begin, owner)

    def end(self, owner: str) -> None:
        if self.wanted.pop(owner, None) is not None:
            self.loop.do(self.process.end, owner)


class Process:
    """One life of an agent."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.alive = True
        self.paused: list[asyncio.Future[None]] = []
        self.workloads: dict[str, Workload] = {}
        host = Host(self._send, self._wake, self._restart, lambda: set(node.wanted) | set(node.containers))
        self.service = DeviceService(node.name, Path("/nowhere"), host)
        self.service.manager.process = self  # type: ignore[attr-defined]
        self.service.holdings._store = FakeDisk(node.disk, self)  # type: ignore[assignment]
        self.reconciler = Reconciler(self.service.holdings, self.service._office, host.living, unused_seconds=20)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.service.restore()
        self.service._news.begin()
        self._tasks.append(self._node.loop.create_task(self.service._lost.run()))
        for owner in self._node.wanted.keys() | self._node.containers.keys():
            self.begin(owner)
            if owner not in self._node.wanted:
                self.end(owner)

    def kill(self) -> None:
        """Tasks are thrown away; what they do on their way out reaches nobody."""
        self.alive = False
        tasks = [*self._tasks, *(workload.task for workload in self.workloads.values())]
        for task in tasks:
            task.cancel()

    async def pause(self) -> None:
        go_on = self._node.loop.create_future()
        self.paused.append(go_on)
        try:
            await go_on
        finally:
            self.paused.remove(go_on)

    def go_on(self, number: int) -> None:
        if self.paused:
            self._node.loop.do(self.paused[number % len(self.paused)].set_result, None)

    def time_passed(self) -> None:
        self.service._note(self.service.node.expire(self._node.loop.now))
        self.service._news.try_again()

    def look(self, configuration: str) -> None:
        shared, _ = self._node.devices[configuration]
        devices = tuple(map(DiscoveredDevice, self._node.visible[configuration]))
        self.service.observed(configuration, "s", devices, shared)

    def begin(self, owner: str) -> None:
        self.workloads[owner] = Workload(self._node, self, owner)

    def end(self, owner: str) -> None:
        self.workloads[owner].stopping = True
        self.workloads[owner].news.set()

    def _send(self, message: grpc.ToServer) -> None:
        if self.alive and self._node.connected:
            self._node.outbox.append(message)

    def _wake(self, owner: str) -> None:
        if owner in self.workloads:
            self.workloads[owner].news.set()

    def _restart(self, owner: str) -> None:
        if self.alive and owner in self.workloads:
            self.workloads[owner].restarting = True
            self.workloads[owner].news.set()


class Workload:
    """What the agent's task for a workload does: devices, then the container, then it waits for news."""

    def __init__(self, node: Node, process: Process, owner: str) -> None:
        self._node = node
        self._process = process
        self._owner = owner
        self.news = asyncio.Event()
        self.stopping = self.restarting = False
        self.waits: str | None = None
        self.task = node.loop.create_task(self._run())

    async def _run(self) -> None:
        service, owner = self._process.service, self._owner
        if owner in self._node.containers:
            await service.adopt(owner, self._requests())
        while not self.stopping:
            self.news.clear()
            if self.restarting:
                self.restarting = False
                self._stop()
            if owner not in self._node.containers:
                await self._start()
            if not (self.stopping or self.restarting):
                await self.news.wait()
        self._stop()
        self._process.workloads.pop(owner, None)

    def _requests(self) -> list[ResourceRequest]:
        configuration, quantity = self._node.wanted.get(self._owner, ("cam", 1))
        return [ResourceRequest(configuration, quantity)]

    async def _start(self) -> None:
        self.waits = None
        answer = await self._process.service.acquire(self._owner, self._requests())
        if isinstance(answer, Waiting):
            self.waits = answer.reason
            return
        await self._process.pause()
        names = [name for grant in answer for name in grant.annotations]
        self._node.containers[self._owner] = {name.removeprefix(ANNOTATION_PREFIX) for name in names}

    def _stop(self) -> None:
        if self._process.alive:
            self._node.containers.pop(self._owner, None)
            self._process.service.release(self._owner)
