"""A small cluster for tests: the server's device coordinator, and agents with the real device manager.

Messages arrive in order after a short delay, as over a network. An agent can be disconnected, stopped and restarted.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from pathlib import Path

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import ResourceRequest
from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.discovery.base import HandlerLost, InvalidDetails, Properties
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.host import DeviceHost, WaitingForDevices
from ankaios.server.core.device_directory import DeviceDirectory, DirectoryChanges


class FakeHandler:
    """Discovers the devices that the test sets."""

    name = "fake"

    def __init__(self, shared: bool, devices: Iterable[DiscoveredDevice] = ()) -> None:
        self.shared = shared
        self.refuses: InvalidDetails | HandlerLost | None = None
        self.calls = 0
        self._devices = tuple(devices)
        self._changed = asyncio.Event()

    def show(self, *devices: DiscoveredDevice) -> None:
        self._devices = devices
        self._changed.set()

    def fail(self, fault: InvalidDetails | HandlerLost | None) -> None:
        self.refuses = fault
        self._changed.set()

    async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        self.calls += 1
        while True:
            if self.refuses is not None:
                raise self.refuses
            self._changed.clear()
            yield self._devices
            await self._changed.wait()


class Agent:
    """One agent process with the functions that its device manager needs."""

    def __init__(self, cluster: "Cluster", name: str, handler: FakeHandler) -> None:
        self.name = name
        self.handler = handler
        self.cluster = cluster
        registry = HandlerRegistry({"fake": lambda: handler})
        folder = cluster.folder / name
        self.restarted: list[str] = []
        self.wake_ups: list[str] = []
        self.woken = asyncio.Event()
        self.living: set[str] | None = None
        host = DeviceHost(self._send, self._record_wake_up, self.restarted.append, lambda: self.living)
        self.manager = DeviceManager(name, folder, host, registry, handlers_dir=cluster.folder / f"{name}-handlers")
        self._task: asyncio.Task[None] | None = None
        self.connected = False

    async def start(self) -> None:
        self.manager.restore()
        self._task = asyncio.create_task(self.manager.run(), name=f"agent {self.name}")
        self.connect()

    def connect(self, knows_devices: bool = True) -> None:
        self.connected = True
        self.cluster.to_server(self.name, grpc.ToServer(agentHello=grpc.AgentHello(devices=knows_devices)))
        self.manager.connected()

    def disconnect(self) -> None:
        self.connected = False
        self.manager.disconnected()
        self.cluster.perform(self.cluster.directory.gone(self.name))

    async def stop(self) -> None:
        """As after a kill: nothing is released."""
        self.connected = False
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self.cluster.perform(self.cluster.directory.gone(self.name))

    def _record_wake_up(self, owner: str) -> None:
        self.wake_ups.append(owner)
        self.woken.set()

    def _send(self, message: grpc.ToServer) -> None:
        if self.connected:
            self.cluster.to_server(self.name, message)

    async def acquire(
        self, owner: str, name: str = "cam", quantity: int = 1
    ) -> tuple[DeviceGrant, ...] | WaitingForDevices:
        return await self.manager.acquire(owner, [ResourceRequest(name, quantity)])

    async def acquire_when_possible(self, owner: str, name: str = "cam", quantity: int = 1) -> tuple[DeviceGrant, ...]:
        while True:
            self.woken.clear()
            answer = await self.acquire(owner, name, quantity)
            if not isinstance(answer, WaitingForDevices):
                return answer
            await self.woken.wait()

    def holds(self, owner: str) -> set[str]:
        return {str(slot) for slot in self.manager.node.ledger.claims_of(owner)}


class Cluster:
    def __init__(self, folder: Path, settled: bool = True) -> None:
        self.folder = folder
        self.directory = DeviceDirectory(settled)
        self.agents: dict[str, Agent] = {}
        self.tree: dict[str, base.DeviceInstance] = {}
        self.changed = asyncio.Event()
        self._to_server: deque[tuple[str, grpc.ToServer]] = deque()
        self.configurations: dict[str, base.DeviceConfiguration] = {}

    async def agent(self, name: str, shared: bool, *devices: str) -> Agent:
        return await self.restarted(name, FakeHandler(shared, map(DiscoveredDevice, devices)))

    async def restarted(self, name: str, handler: FakeHandler) -> Agent:
        agent = self.agents[name] = Agent(self, name, handler)
        await agent.start()
        return agent

    def configure(self, name: str = "cam", details: str = "", **fields: object) -> None:
        handler = base.DiscoveryHandler(name="fake", discoveryDetails=details)
        configuration = base.DeviceConfiguration(discoveryHandler=handler, **fields)  # type: ignore[arg-type]
        self.configurations[name] = configuration
        self.perform(self.directory.configure({name: configuration}))

    def restart_server(self) -> None:
        """The server loses its state; agents connect again."""
        self.directory = DeviceDirectory(settled=False)
        self.tree.clear()
        self.directory.configure(self.configurations)

    def to_server(self, agent: str, message: grpc.ToServer) -> None:
        self._to_server.append((agent, message))
        asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        agent, message = self._to_server.popleft()
        match message.WhichOneof("ToServerEnum"):
            case "agentHello":
                self.perform(self.directory.hello(agent, {}, message.agentHello.devices))
            case "deviceReport":
                self.perform(self.directory.report(agent, message.deviceReport))
            case "slotRequest":
                self.perform(self.directory.slot_request(agent, message.slotRequest))

    def perform(self, changes: DirectoryChanges) -> None:
        for message in changes.messages:
            asyncio.get_running_loop().call_soon(self._deliver, self.agents[message.agent], message.message)
        for name, instance in changes.instances.items():
            if instance is not None:
                self.tree[name] = instance
            else:
                self.tree.pop(name, None)
        self.changed.set()

    def _deliver(self, agent: Agent, message: grpc.FromServer) -> None:
        if agent.connected and self.agents[agent.name] is agent:
            if message.HasField("deviceUpdate"):
                agent.manager.handle(message.deviceUpdate)
            else:
                agent.manager.handle(message.slotResponse)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until the state of the server has this part."""
        while not reached():
            self.changed.clear()
            await self.changed.wait()

    def usage(self) -> dict[str, str]:
        return {slot: text for it in self.tree.values() for slot, text in it.deviceUsage.values.items()}

    async def stop(self) -> None:
        for agent in self.agents.values():
            await agent.stop()
