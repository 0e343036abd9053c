"""The devices of an agent: everything of this package joined together.

In: what the server says of configurations and shared devices, and workloads that ask for devices or let go. Out: what
they receive, reports to the server, and a word to those who wait whenever there may be enough. Owned: the tasks of
discovery, plugins, device manager and reconciler.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ankaios.common.dataclass import dataclass
from ankaios.common.errors import AnkaiosError, Rejected, Unavailable
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import ResourceRequest
from ankaios.devices.acquisition import Acquisition, Waiting
from ankaios.devices.claim_store import ClaimStore
from ankaios.devices.core.configuration import Configuration, configuration_from_pb
from ankaios.devices.core.grants import Grant
from ankaios.devices.core.node_devices import NodeDevices, Touched
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.device_news import DeviceNews
from ankaios.devices.discovery.base import Devices
from ankaios.devices.discovery.registration_server import RegistrationServer
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.discovery_runner import DiscoveryRunner
from ankaios.devices.kubelet_registration import PluginHost
from ankaios.devices.lost_devices import LostDevices
from ankaios.devices.plugin_folder import short_folder
from ankaios.devices.reconciler import PodReconciler, Reconciler, every_round
from ankaios.devices.server_slots import ServerSlots
from ankaios.devices.slot_office import SlotOffice

KUBELET_PLUGINS = "device-plugins"
POD_RESOURCES = "pod-resources/kubelet.sock"
KUBELET_GIVES = "the devices of this node are given out by its kubelet"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Host:
    """What the agent offers. None of these waits.

    `wake`: whoever waits for devices should ask again. `restart`: this workload must not go on with the devices it
    has. `living`: the workloads that exist, or None as long as that is not known.
    """

    send: Callable[[grpc.ToServer], None]
    wake: Callable[[], None]
    restart: Callable[[str], None]
    living: Callable[[], Collection[str] | None]


class DeviceService:
    """Workloads are called by the text of their instance name."""

    def __init__(
        self,
        node: str,
        folder: Path,
        registry: HandlerRegistry | None = None,
        kubelet_dir: Path | None = None,
        handlers_dir: Path | None = None,
        plugin_folder: tuple[Path, socket.socket] | None = None,
    ) -> None:
        """`plugin_folder` with its listener, if it is open already."""
        self.node = NodeDevices(node)
        self._kubelet_dir = kubelet_dir
        self._registry = registry or HandlerRegistry()
        self._handlers_dir = handlers_dir
        self._server = ServerSlots()
        self._office = SlotOffice(self.node, self._server, self._note)
        sockets, listener = plugin_folder or (short_folder(folder / "plugins"), None)
        self.manager = DeviceManager(sockets, self._plugin_changed, listener=listener)
        offered_in = sockets if kubelet_dir is None else kubelet_dir / KUBELET_PLUGINS
        self.plugins = PluginHost(offered_in, watches=kubelet_dir is not None)
        self.acquisition = Acquisition(self._office, self.manager, ClaimStore(folder / "claims"), folder / "files")
        self._news = DeviceNews(self.node, self.manager, self.plugins, self._office)
        self._lost = LostDevices(self.node, self._office, self.acquisition)
        self._discovery = DiscoveryRunner(self._registry, self._observed)
        self._deadline_moved = asyncio.Event()
        self._has_configurations = asyncio.Event()
        self._connected = False
        self._restored = False  # before that a report would deny what workloads hold

    # --- life ---

    async def run(self, host: Host) -> None:
        """For ever. Without a place for its sockets the agent works on, but without devices."""
        self._server.send = self._news.send = host.send
        self._news.wake = host.wake
        try:
            async with asyncio.TaskGroup() as tasks:
                self.acquisition.restore()
                ready = asyncio.Event()
                tasks.create_task(self.manager.run(ready), name="device manager")
                await ready.wait()
                self._news.begin()
                self._restored = True
                if self._connected:
                    self._news.report_all()
                tasks.create_task(self.plugins.run(), name="device plugins")
                tasks.create_task(self._discovery.run(), name="discovery")
                tasks.create_task(self._serve_handlers(), name="discovery handlers")
                tasks.create_task(self._let_vanish(), name="vanished devices")
                tasks.create_task(self._lost.run(host.restart), name="lost devices")
                tasks.create_task(every_round(self._reconciler(host).review), name="device reconciler")
                tasks.create_task(every_round(self._retry), name="devices to be tried again")
        except* (Unavailable, OSError) as faults:
            log.error("devices are not available: %s", "; ".join(map(str, faults.exceptions)))

    def _reconciler(self, host: Host) -> Reconciler | PodReconciler:
        if self._kubelet_dir is not None:
            return PodReconciler(self._office, self._kubelet_dir / POD_RESOURCES)
        return Reconciler(self.acquisition, self._office, host.living)

    async def _serve_handlers(self) -> None:
        """Handlers in other processes can register once there is something to discover."""
        await self._has_configurations.wait()
        server = RegistrationServer(self._registry, self._handlers_dir)
        try:
            await server.start()
        except Unavailable as fault:
            log.warning("only built-in discovery handlers can be used: %s", fault)
            return
        try:
            await asyncio.Event().wait()
        finally:
            await server.close()

    async def _let_vanish(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._deadline_moved.clear()
            deadline = self.node.next_deadline()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._deadline_moved.wait()
            except TimeoutError:
                self._note(self.node.expire(clock()))

    async def _retry(self, now: float) -> None:
        """What failed for a reason that sends no word when it is over."""
        del now
        if self.acquisition.failed:
            self.acquisition.failed = False
            self._news.wake()

    # --- the server ---

    def connected(self) -> None:
        """A new session begins: the server knows nothing of this node's devices."""
        self._connected = True
        self._server.session_began()
        if self._restored:
            self._note(self.node.session_began())
            self._news.report_all()

    def handle(self, message: grpc.DeviceUpdate | grpc.SlotResponse) -> None:
        if isinstance(message, grpc.SlotResponse):
            self._server.answered(message)
            return
        if message.complete:
            self._configure(message)
        if message.instances:
            try:
                self._note(self.node.learn(message.instances))
            except AnkaiosError as fault:
                log.warning("ignored what the server said of devices: %s", fault)
        self._news.wake_soon()

    def _configure(self, message: grpc.DeviceUpdate) -> None:
        configurations: dict[str, Configuration] = {}
        for name, configuration in sorted(message.configurations.deviceConfigurations.items()):
            try:
                configurations[name] = configuration_from_pb(name, configuration)
            except Rejected as fault:
                log.warning("%s", fault)
        touched = self.node.configure(configurations)
        self._discovery.configure(configurations)
        if configurations:
            self._has_configurations.set()
        self._note(touched)

    # --- devices ---

    def _observed(self, configuration: str, source: str, devices: Devices, shared: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._note(self.node.observe(configuration, source, devices, shared, now))

    def _plugin_changed(self, resource: str) -> None:
        self._news.plugin_changed(resource)

    def _note(self, touched: Touched) -> None:
        """Everything that changes passes here once."""
        for text in touched.refused:
            log.warning("a discovered device is left out: %s", text)
        for instance in touched.vanished:
            log.info("device '%s' is gone", instance.name)
        self._deadline_moved.set()
        self._news.note(touched)
        self._lost.note(touched)

    # --- workloads ---

    async def acquire(self, owner: str, requests: Sequence[ResourceRequest]) -> tuple[Grant, ...] | Waiting:
        """All the devices, or what the workload waits for. What it holds already it keeps."""
        if self._kubelet_dir is not None:
            return Waiting(KUBELET_GIVES)
        if reason := self._lost.stopped_because(owner):
            return Waiting(reason)
        answer = await self.acquisition.acquire(owner, requests)
        if not isinstance(answer, Waiting):
            self._news.resources_used(request.resource for request in requests)
        return answer

    async def adopt(self, owner: str, requests: Sequence[ResourceRequest]) -> None:
        """A workload was found running. If nothing is known of its devices, they are claimed as far as possible."""
        if owner not in self.acquisition.records:
            answer = await self.acquire(owner, requests)
            if isinstance(answer, Waiting):
                log.warning("'%s' runs, but its devices are not recorded: %s", owner, answer.reason)

    def release(self, owner: str) -> None:
        record = self.acquisition.records.get(owner)
        self._lost.released(owner)
        self.acquisition.release(owner)
        if record is not None:
            self._news.resources_used(allocation.resource for allocation in record.allocations)
