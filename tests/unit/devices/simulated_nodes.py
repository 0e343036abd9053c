"""Agents with the real device manager, where each step happens only when the test requests it.

The clock does not advance, messages wait in queues, and the disk answers when the test permits it. A killed process
does nothing more: no message to the server, nothing on disk. Only sockets, files and time are replaced by fakes.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Unavailable
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import ResourceRequest
from ankaios.devices.claim_store import ClaimRecord
from ankaios.devices.core.claim_plan import ResourceNeed
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.grants import ANNOTATION_PREFIX
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.host import DeviceHost, WaitingForDevices
from ankaios.devices.reconciler import Reconciler


class ManualClock(asyncio.SelectorEventLoop):
    """Time passes only when the test advances it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def do(self, function: Callable[..., object], *values: object) -> None:
        """Call the function, and run everything that follows without further events."""

        async def run() -> None:
            function(*values)
            for _ in range(12):
                await asyncio.sleep(0)

        self.run_until_complete(run())

    def settle(self) -> None:
        self.do(lambda: None)


class FakeForeign:
    """No plugins of other programs."""

    def __init__(self, folder: Path, changed: Callable[[str, bool], None], listener: object) -> None: ...

    def resources(self) -> list[str]:
        return []

    def shortage(self, needs: Iterable[ResourceNeed]) -> str | None:
        names = [need.resource for need in needs]
        return f"waits for {names[0]}" if names else None

    def outage(self, resource: str) -> str | None:
        return "no device plugin for it is registered"

    def are_healthy(self, resource: str, ids: Sequence[str]) -> bool:
        return False

    def restore(self, resource: str, ids: Sequence[str], owner: str) -> None: ...

    def holds(self, resource: str, ids: Sequence[str], owner: str) -> bool:
        return False

    def release(self, resource: str, ids: Sequence[str], owner: str) -> None: ...


class FakeDisk:
    """Files that remain after the end of a process. A killed process writes nothing any more."""

    def __init__(self, records: dict[str, ClaimRecord], process: "Process") -> None:
        self._records = records
        self.process = process

    def load(self) -> Iterator[ClaimRecord]:
        return iter(list(self._records.values()))

    def save(self, record: ClaimRecord) -> None:
        if self.process.alive:
            self._records[record.owner] = record

    def remove(self, owner: str, containers: int) -> None:
        if self.process.alive:
            self._records.pop(owner, None)

    def write_devices_file(self, owner: str, number: int, grant: DeviceGrant, allocated: object) -> DeviceGrant:
        return grant


async def slow_disk(function: Callable[..., Any], *values: Any) -> Any:
    """Replaces a thread: any event may happen before and after its function, and the disk may fail."""
    process: Process = function.__self__._store.process  # type: ignore[attr-defined]
    await process.pause()
    if process.disk_fails:
        raise Unavailable("the disk is full")
    result = function(*values)
    await process.pause()
    return result


async def pause(paused: list[asyncio.Future[None]]) -> None:
    """Any event may happen before the test resumes this."""
    go_on = asyncio.get_running_loop().create_future()
    paused.append(go_on)
    try:
        await go_on
    finally:
        paused.remove(go_on)


class Node:
    """One machine: its disk and its containers stay after the end of the agent."""

    def __init__(self, name: str, loop: ManualClock, shared: Sequence[str], local: Sequence[str]) -> None:
        self.name = name
        self.loop = loop
        self.devices = {"cam": (True, [*shared]), "mic": (False, [*local])}
        self.visible = {"cam": [*shared], "mic": [*local]}
        self.disk: dict[str, ClaimRecord] = {}
        self.wanted: dict[str, tuple[str, int]] = {}
        self.containers: dict[str, set[str]] = {}  # owner -> slots
        self.outbox: deque[grpc.ToServer] = deque()
        self.inbox: deque[grpc.FromServer] = deque()
        self.connected = False
        self.process = self.new_process()

    def new_process(self) -> "Process":
        return Process(self)

    def kill(self) -> None:
        self.cut()
        self.loop.do(self.process.kill)
        self.process = self.new_process()
        self.loop.do(self.process.start)

    def connect(self) -> None:
        self.connected = True
        self.outbox.append(grpc.ToServer(agentHello=grpc.AgentHello(devices=True)))
        self.loop.do(self.process.manager.connected)

    def cut(self) -> None:
        """Messages that were not delivered are lost."""
        if self.connected:
            self.connected = False
            self.outbox.clear()
            self.inbox.clear()
            self.loop.do(self.process.manager.disconnected)

    def receive(self) -> None:
        message = self.inbox.popleft()
        kind = message.deviceUpdate if message.HasField("deviceUpdate") else message.slotResponse
        self.loop.do(self.process.manager.handle, kind)
        if message.deviceUpdate.complete:  # now discovery starts
            for configuration in self.devices:
                self.loop.do(self.process.discover, configuration)

    def show(self, configuration: str, devices: Iterable[str]) -> None:
        self.visible[configuration] = list(devices)
        self.loop.do(self.process.discover, configuration)

    def want(self, owner: str, configuration: str, quantity: int) -> None:
        if owner not in self.wanted and owner not in self.process.workloads:
            self.wanted[owner] = (configuration, quantity)
            self.loop.do(self.process.begin, owner)

    def end(self, owner: str) -> None:
        if self.wanted.pop(owner, None) is not None:
            self.loop.do(self.process.end, owner)

    @property
    def paused(self) -> list[asyncio.Future[None]]:
        """Calls that wait until the test resumes them."""
        return self.process.paused

    def go_on(self, number: int) -> None:
        if self.paused:
            self.loop.do(self.paused[number % len(self.paused)].set_result, None)

    def review(self) -> None:
        """One round of the reconciler."""
        self.loop.run_until_complete(self.process.reconciler.review(self.loop.now))
        self.loop.settle()

    def users(self) -> dict[str, str]:
        """The slots that containers use, with the owner that their claims name."""
        return {slot: owner for owner, slots in self.containers.items() for slot in slots}

    def check_at_rest(self) -> None:
        """The ledger and the disk contain exactly the used slots, and no workload waits without a reason."""
        manager = self.process.manager
        assert {str(slot): it.owner for slot, it in manager.node.ledger.claims_on(self.name).items()} == self.users()
        assert set(self.disk) == set(self.containers)
        assert set(self.containers) <= set(self.wanted)
        for owner in self.wanted.keys() - self.containers.keys():
            workload = self.process.workloads[owner]
            assert workload.waits is not None
            needs = manager._pending._pending[owner].needs
            assert manager._obstacle(owner, needs) == workload.waits, owner

    def close(self) -> None:
        """No claims and records remain."""


class Process:
    """One process of an agent."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.alive = True
        self.paused: list[asyncio.Future[None]] = []
        self.workloads: dict[str, Workload] = {}
        self.disk_fails = False
        host = DeviceHost(self._send, self._wake, self._restart, lambda: set(node.wanted) | set(node.containers))
        self.manager = self.new_manager(host)
        self.manager.claims._store = FakeDisk(node.disk, self)  # type: ignore[assignment]
        self.reconciler = Reconciler(
            self.manager.node, self.manager.allocator, self.manager.claims, host.living, unused_seconds=20
        )
        self._tasks: list[asyncio.Task[Any]] = []

    def new_manager(self, host: DeviceHost) -> DeviceManager:
        return DeviceManager(self._node.name, Path("/nowhere"), host)

    def start(self) -> None:
        self.manager.restore()
        self._tasks.append(self._node.loop.create_task(self.manager._lost.run()))
        for owner in self._node.wanted.keys() | self._node.containers.keys():
            self.begin(owner)
            if owner not in self._node.wanted:
                self.end(owner)

    def kill(self) -> None:
        """Tasks are discarded; effects of their cleanup are ignored."""
        self.alive = False
        tasks = [*self._tasks, *(workload.task for workload in self.workloads.values())]
        for task in tasks:
            task.cancel()

    async def pause(self) -> None:
        await pause(self.paused)

    def time_passed(self) -> None:
        self.manager._changed(self.manager.node.expire(self._node.loop.now))
        self.manager._reporter.retry_failed()

    def discover(self, configuration: str) -> None:
        shared, _ = self._node.devices[configuration]
        devices = tuple(map(DiscoveredDevice, self._node.visible[configuration]))
        now = asyncio.get_running_loop().time()
        self.manager._changed(self.manager.node.observe(configuration, "s", devices, shared, now))

    def begin(self, owner: str) -> None:
        self.workloads[owner] = Workload(self._node, self, owner)

    def end(self, owner: str) -> None:
        self.workloads[owner].stopping = True
        self.workloads[owner].changed.set()

    def _send(self, message: grpc.ToServer) -> None:
        if self.alive and self._node.connected:
            self._node.outbox.append(message)

    def _wake(self, owner: str) -> None:
        if owner in self.workloads:
            self.workloads[owner].changed.set()

    def _restart(self, owner: str) -> None:
        if self.alive and owner in self.workloads:
            self.workloads[owner].restarting = True
            self.workloads[owner].changed.set()


class Workload:
    """The agent's task for a workload: it acquires devices, starts the container, and waits for changes."""

    def __init__(self, node: Node, process: Process, owner: str) -> None:
        self._node = node
        self._process = process
        self._owner = owner
        self.changed = asyncio.Event()
        self.stopping = self.restarting = False
        self.waits: str | None = None
        self.task = node.loop.create_task(self._run())

    async def _run(self) -> None:
        manager, owner = self._process.manager, self._owner
        if owner in self._node.containers:
            await manager.adopt(owner, self._requests())
        while not self.stopping:
            self.changed.clear()
            if self.restarting:
                self.restarting = False
                self._stop()
            if owner not in self._node.containers:
                await self._start()
            if not (self.stopping or self.restarting):
                await self.changed.wait()
        self._stop()
        self._process.workloads.pop(owner, None)

    def _requests(self) -> list[ResourceRequest]:
        configuration, quantity = self._node.wanted.get(self._owner, ("cam", 1))
        return [ResourceRequest(configuration, quantity)]

    async def _start(self) -> None:
        self.waits = None
        answer = await self._process.manager.acquire(self._owner, self._requests())
        if isinstance(answer, WaitingForDevices):
            self.waits = answer.reason
            return
        await self._process.pause()
        names = [name for grant in answer for name in grant.annotations]
        self._node.containers[self._owner] = {name.removeprefix(ANNOTATION_PREFIX) for name in names}

    def _stop(self) -> None:
        if self._process.alive:
            self._node.containers.pop(self._owner, None)
            self._process.manager.release(self._owner)
