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

from msgspec import Struct

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Fatal, Rejected, Unavailable
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import ResourceRequest
from ankaios.devices.acquisition import Acquisition, Waiting
from ankaios.devices.claim_store import ClaimStore
from ankaios.devices.core.configuration import Configuration, configuration_from_pb
from ankaios.devices.core.node_devices import NodeDevices, Touched
from ankaios.devices.core.waiting_room import WaitingRoom
from ankaios.devices.core.workload_plan import Need, needs_of
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.device_news import DeviceNews
from ankaios.devices.discovery.base import Devices
from ankaios.devices.discovery.registration_server import RegistrationServer
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.discovery_runner import DiscoveryRunner
from ankaios.devices.holdings import Holdings
from ankaios.devices.kubelet_registration import PluginHost
from ankaios.devices.lost_devices import LostDevices
from ankaios.devices.plugin_folder import short_folder
from ankaios.devices.reconciler import PodReconciler, Reconciler, every_round
from ankaios.devices.server_slots import ServerSlots
from ankaios.devices.slot_office import SlotOffice

KUBELET_PLUGINS = "device-plugins"
POD_RESOURCES = "pod-resources/kubelet.sock"
HANDLERS_PAUSE = 10.0
KUBELET_GIVES = "the devices of this node are given out by its kubelet"

log = logging.getLogger(__name__)


class Host(Struct, frozen=True):
    """What the agent offers. None of these waits.

    `wake`: this workload waits for devices and should ask again. `restart`: this workload must not go on with the
    devices it has. `living`: the workloads that exist, or None as long as that is not known.
    """

    send: Callable[[grpc.ToServer], None]
    wake: Callable[[str], None]
    restart: Callable[[str], None]
    living: Callable[[], Collection[str] | None]


class NoPlaceForDevices(Fatal):
    """Ends the device service, and nothing else."""


class DeviceService:
    """Workloads are called by the text of their instance name."""

    def __init__(
        self,
        node: str,
        folder: Path,
        host: Host,
        registry: HandlerRegistry | None = None,
        kubelet_dir: Path | None = None,
        handlers_dir: Path | None = None,
        plugin_folder: tuple[Path, socket.socket] | None = None,
    ) -> None:
        """`plugin_folder` with its listener, if it is open already."""
        self.node = NodeDevices(node)
        self._host = host
        self._kubelet_dir = kubelet_dir
        self._registry = registry or HandlerRegistry()
        self._handlers_dir = handlers_dir
        self._server = ServerSlots(host.send)
        self._office = SlotOffice(self.node, self._server, self._note)
        sockets, listener = plugin_folder or (short_folder(folder / "plugins"), None)
        self.manager = DeviceManager(sockets, self._plugin_changed, listener=listener)
        offered_in = sockets if kubelet_dir is None else kubelet_dir / KUBELET_PLUGINS
        self.plugins = PluginHost(offered_in, watches=kubelet_dir is not None)
        self.holdings = Holdings(self._office, self.manager, ClaimStore(folder / "claims"), folder / "files")
        self._acquisition = Acquisition(self._office, self.manager, self.holdings)
        self._lost = LostDevices(self.node, self._office, self.holdings, host.restart)
        self._room = WaitingRoom(self._obstacle)
        self._news = DeviceNews(self.node, self.manager, self.plugins, self._office, self._room, host.send, host.wake)
        self._discovery = DiscoveryRunner(self._registry, self)
        self._deadline_moved = asyncio.Event()
        self._has_configurations = asyncio.Event()

    # --- life ---

    def restore(self) -> None:
        """What workloads hold from before a restart: before anything is said to the server, which would believe it.

        Reads files; raises OSError if there is no place for them.
        """
        self.holdings.restore()

    async def run(self) -> None:
        """For ever. Without a place for its sockets the agent works on, but without devices."""
        try:
            async with Supervisor() as tasks:
                ready = asyncio.Event()
                tasks.keep_running("the device manager", lambda: self._manage(ready))
                await ready.wait()
                self._news.begin()
                reconciler = self._reconciler()
                tasks.keep_running("the device plugins", self.plugins.run)
                tasks.keep_running("the discovery", self._discovery.run)
                tasks.keep_running("the registration of discovery handlers", self._serve_handlers)
                tasks.keep_running("the end of vanished devices", self._let_vanish)
                tasks.keep_running("the lost devices", self._lost.run)
                tasks.keep_running("the device reconciler", lambda: every_round(reconciler.review))
                tasks.keep_running("the devices to be tried again", lambda: every_round(self._try_again))
        except* NoPlaceForDevices as faults:
            log.error("devices are not available: %s", "; ".join(map(str, faults.exceptions)))

    async def _manage(self, ready: asyncio.Event) -> None:
        try:
            await self.manager.run(ready)
        except (Unavailable, OSError) as fault:
            raise NoPlaceForDevices(str(fault)) from fault

    def _reconciler(self) -> Reconciler | PodReconciler:
        if self._kubelet_dir is not None:
            return PodReconciler(self._office, self._kubelet_dir / POD_RESOURCES)
        return Reconciler(self.holdings, self._office, self._host.living)

    async def _serve_handlers(self) -> None:
        """Handlers in other processes can register once there is something to discover."""
        await self._has_configurations.wait()
        server = RegistrationServer(self._registry, self._handlers_dir)
        await self._until_started(server)
        try:
            await asyncio.Event().wait()
        finally:
            await server.close()

    async def _until_started(self, server: RegistrationServer) -> None:
        """Another agent of this machine may serve them as long as it runs."""
        complaint = ""
        while True:
            try:
                return await server.start()
            except Unavailable as fault:
                if str(fault) != complaint:
                    log.warning("only built-in discovery handlers can be used for now: %s", fault)
                complaint = str(fault)
            await asyncio.sleep(HANDLERS_PAUSE)

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

    async def _try_again(self, now: float) -> None:
        del now
        self._news.try_again()

    # --- the server ---

    def connected(self) -> None:
        """A new session begins: the server knows nothing of this node's devices."""
        self._server.session_began()
        self._note(self.node.session_began())
        self._news.report_all()
        self._news.try_again()

    def disconnected(self) -> None:
        """Local devices are given out as before, shared ones when the server is back."""
        self._server.session_ended()
        self._note(self.node.session_ended())
        self._news.try_again()

    def handle(self, message: grpc.DeviceUpdate | grpc.SlotResponse) -> None:
        if isinstance(message, grpc.SlotResponse):
            self._server.answered(message)
            return
        if message.complete:
            self._configure(message)
        if message.instances:
            self._note(self.node.learn(message.instances))

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

    def observed(self, configuration: str, source: str, devices: Devices, shared: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._note(self.node.observe(configuration, source, devices, shared, now))

    def refused(self, configuration: str, source: str, why: str) -> None:
        self._note(self.node.complain(configuration, source, why))

    def _plugin_changed(self, resource: str, came: bool) -> None:
        self._news.plugin_changed(resource, came)

    def _note(self, touched: Touched) -> None:
        """Everything that changes passes here once."""
        for text in touched.refused:
            log.warning("%s", text)
        for instance in touched.vanished:
            log.info("device '%s' is gone", instance.name)
        self._deadline_moved.set()
        self._news.note(touched)
        self._lost.note(touched)

    # --- workloads ---

    async def acquire(self, owner: str, requests: Sequence[ResourceRequest]) -> tuple[DeviceGrant, ...] | Waiting:
        """All the devices, or what the workload waits for. What it holds already it keeps.

        One that waits is woken when it should ask again.
        """
        self._room.leave(owner)
        if self._kubelet_dir is not None:
            return Waiting(KUBELET_GIVES)
        if reason := self._lost.stopped_because(owner):
            answer: tuple[DeviceGrant, ...] | Waiting = Waiting(reason)
        else:
            answer = await self._acquisition.acquire(owner, requests)
        if isinstance(answer, Waiting):
            self._room.enter(owner, needs_of(requests), answer.reason, answer.failed)
        return answer

    def _obstacle(self, owner: str, needs: tuple[Need, ...]) -> str | None:
        return self._lost.stopped_because(owner) or self._acquisition.obstacle(owner, needs)

    async def adopt(self, owner: str, requests: Sequence[ResourceRequest]) -> None:
        """A workload was found running. If nothing is known of its devices, they are claimed as far as possible."""
        if owner not in self.holdings.records and self._kubelet_dir is None:
            answer = await self._acquisition.acquire(owner, requests)
            if isinstance(answer, Waiting):
                log.warning("'%s' runs, but its devices are not recorded: %s", owner, answer.reason)

    def release(self, owner: str) -> None:
        self._room.leave(owner)
        self._lost.released(owner)
        self.holdings.release(owner)
