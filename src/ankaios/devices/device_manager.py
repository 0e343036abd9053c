"""The device manager of an agent: discovery, claims of workloads, plugins, and reports to the server.

Input: messages of the server, lists of discovery handlers, and workloads that acquire or release devices. Output:
grants, reports, and calls of the host. Owns the tasks of all parts. Each change of devices passes `_changed` once.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Fatal, Rejected, Unavailable
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import ResourceRequest
from ankaios.devices.claim_store import ClaimStore
from ankaios.devices.core.allocation import Denied
from ankaios.devices.core.claim_plan import ResourceNeed, needs_of
from ankaios.devices.core.configuration import Configuration, configuration_from_pb
from ankaios.devices.core.node_devices import DeviceChanges, NodeDevices
from ankaios.devices.core.pending_claims import PendingClaims
from ankaios.devices.device_reporter import DeviceReporter
from ankaios.devices.discovery.registration_server import RegistrationServer
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.discovery_runner import DiscoveryRunner
from ankaios.devices.foreign_devices import ForeignDevices
from ankaios.devices.host import DeviceHost, WaitingForDevices
from ankaios.devices.lost_devices import LostDevices
from ankaios.devices.plugin_folder import short_folder
from ankaios.devices.pod_claims import PodClaims
from ankaios.devices.pod_reconciler import PodReconciler
from ankaios.devices.reconciler import Reconciler, every_round
from ankaios.devices.slot_allocator import SlotAllocator
from ankaios.devices.workload_claims import WorkloadClaims

if TYPE_CHECKING:
    from ankaios.devices.kubelet_plugins import KubeletPlugins

HANDLERS_PAUSE = 10.0
KUBELET_ALLOCATES = "the devices of this node are allocated by its kubelet"

log = logging.getLogger(__name__)


class NoPluginFolder(Fatal):
    """Ends the device manager, and nothing else."""


class DeviceManager:
    """Workloads are identified by the text of their instance name."""

    def __init__(
        self,
        node: str,
        folder: Path,
        host: DeviceHost,
        registry: HandlerRegistry | None = None,
        kubelet_dir: Path | None = None,
        handlers_dir: Path | None = None,
        plugin_folder: tuple[Path, socket.socket] | None = None,
        claims: Path | None = None,
    ) -> None:
        """`plugin_folder` with its registration socket, if it is open already. `claims`: where claims are stored."""
        self.node = NodeDevices(node)
        self._host = host
        self._folder = folder
        self._registry = registry or HandlerRegistry()
        self._handlers_dir = handlers_dir
        sockets, listener = plugin_folder or (short_folder(folder / "plugins"), None)
        self.foreign = ForeignDevices(sockets, self._plugin_changed, listener=listener)
        self.allocator = SlotAllocator(self.node, host.send, self._changed)
        self.claims = WorkloadClaims(self.node, self.allocator, self.foreign, ClaimStore(folder, claims))
        self._lost = LostDevices(self.node, self.allocator, self.claims, host.restart, folder / "stopped.json")
        self._pending = PendingClaims(self._obstacle)
        self._reporter = DeviceReporter(self.node, self.foreign, self._pending, host.send, host.wake)
        self._discovery = DiscoveryRunner(self._registry, self.node, self._changed)
        self._kubelet_dir = kubelet_dir
        self._pods = PodClaims(self.node, folder)
        self._remembered: grpc.DeviceUpdate | None = None  # until the server sends the present configurations
        self._kubelet = None if kubelet_dir is None else self._kubelet_plugins(kubelet_dir)
        self._deadline_changed = asyncio.Event()
        self._has_configurations = asyncio.Event()

    def _kubelet_plugins(self, kubelet_dir: Path) -> "KubeletPlugins":
        from ankaios.devices.kubelet_plugins import KubeletPlugins  # most agents run without a kubelet

        return KubeletPlugins(self.node, self.allocator, self._pods, kubelet_dir)

    # --- life cycle ---

    def restore(self) -> None:
        """Take over the claims from before a restart, before the first report to the server.

        Reads files; raises OSError if their folder cannot be used.
        """
        self.claims.restore()
        self._lost.restore()
        if self._kubelet is not None:
            self._pods.restore()
            self._remembered = self._pods.remembered()

    async def run(self) -> None:
        """Run all parts until cancelled. If the plugin folder cannot be used, the agent continues without devices."""
        reconcile = self._reconciler()
        if self._remembered is not None:
            self._configure(self._remembered)
        try:
            async with Supervisor() as tasks:
                tasks.keep_running("the foreign device plugins", self._serve_plugins)
                tasks.keep_running("the discovery", self._discovery.run)
                tasks.keep_running("the registration of discovery handlers", self._serve_handlers)
                tasks.keep_running("the end of vanished devices", self._expire_devices)
                tasks.keep_running("the lost devices", self._lost.run)
                tasks.keep_running("the device reconciler", reconcile)
                tasks.keep_running("the retry of failed claims", lambda: every_round(self._retry_failed))
                if self._kubelet is not None:
                    tasks.keep_running("the plugins for the kubelet", self._kubelet.run)
        except* NoPluginFolder as faults:
            log.error("devices are not available: %s", "; ".join(map(str, faults.exceptions)))

    async def _serve_plugins(self) -> None:
        try:
            await self.foreign.run()
        except (Unavailable, OSError) as fault:
            raise NoPluginFolder(str(fault)) from fault

    def _reconciler(self) -> Callable[[], Coroutine[Any, Any, None]]:
        if self._kubelet is not None and self._kubelet_dir is not None:
            pods = PodReconciler(self.node, self.allocator, self._pods, self._kubelet_dir, self._kubelet.send_list)
            return lambda: every_round(pods.review)
        return Reconciler(self.node, self.allocator, self.claims, self._host.living).run

    async def _serve_handlers(self) -> None:
        """Handlers of other processes can register as soon as there is a configuration."""
        await self._has_configurations.wait()
        server = RegistrationServer(self._registry, self._handlers_dir, self._folder / "handlers.json")
        await self._start(server)
        try:
            await asyncio.Event().wait()
        finally:
            await server.close()

    async def _start(self, server: RegistrationServer) -> None:
        """Another agent on this machine may serve the registrations as long as it runs."""
        reported = ""
        while True:
            try:
                return await server.start()
            except Unavailable as fault:
                if str(fault) != reported:
                    log.warning("only built-in discovery handlers can be used for now: %s", fault)
                reported = str(fault)
            await asyncio.sleep(HANDLERS_PAUSE)

    async def _expire_devices(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._deadline_changed.clear()
            try:
                async with asyncio.timeout_at(self.node.next_deadline()):
                    await self._deadline_changed.wait()
            except TimeoutError:
                self._changed(self.node.expire(clock()))

    async def _retry_failed(self, now: float) -> None:
        del now
        self._reporter.retry_failed()

    # --- the server ---

    def connected(self) -> None:
        """A new session begins: the server has no information about the devices of this node."""
        self.allocator.session_changed()
        self._changed(self.node.session_began())
        self._reporter.report_all()
        self._reporter.retry_failed()

    def disconnected(self) -> None:
        """Local devices can still be claimed, shared ones in the next session."""
        self.allocator.session_changed()
        self._changed(self.node.session_ended())
        self._reporter.retry_failed()

    def handle(self, message: grpc.DeviceUpdate | grpc.SlotResponse) -> None:
        if isinstance(message, grpc.SlotResponse):
            self.allocator.answered(message)
            return
        if message.complete:
            if self._kubelet is not None:
                self._pods.remember(message)
                self._remembered = None
            self._configure(message)
        if message.instances:
            self._changed(self.node.update_shared(message.instances))

    def _configure(self, message: grpc.DeviceUpdate) -> None:
        configurations: dict[str, Configuration] = {}
        for name, configuration in sorted(message.configurations.deviceConfigurations.items()):
            try:
                configurations[name] = configuration_from_pb(name, configuration)
            except Rejected as fault:
                log.warning("%s", fault)
        changes = self.node.configure(configurations)
        self._discovery.configure(configurations)
        if configurations:
            self._has_configurations.set()
        self._changed(changes)

    # --- devices ---

    def _plugin_changed(self, resource: str, registered: bool) -> None:
        self._reporter.plugin_changed(resource, registered)

    def _changed(self, changes: DeviceChanges) -> None:
        for text in changes.warnings:
            log.warning("%s", text)
        for instance in changes.vanished:
            log.info("device '%s' is gone", instance.name)
        self._deadline_changed.set()
        if self._kubelet is not None:
            self._kubelet.changed(changes)
        self._reporter.changed(changes)
        self._lost.changed(changes)

    # --- workloads ---

    async def acquire(
        self, owner: str, requests: Sequence[ResourceRequest]
    ) -> tuple[DeviceGrant, ...] | WaitingForDevices:
        """Claim all requested devices, or return why the workload has to wait. Present claims are kept.

        The host wakes a waiting workload when it should try again.
        """
        self._pending.remove(owner)
        if self._kubelet is not None:
            return WaitingForDevices(KUBELET_ALLOCATES)
        needs = needs_of(requests)
        if reason := self._lost.stop_reason(owner):
            answer: tuple[DeviceGrant, ...] | WaitingForDevices = WaitingForDevices(reason)
        else:
            answer = await self.claims.acquire(owner, needs)
        if isinstance(answer, WaitingForDevices):
            self._pending.add(owner, needs, answer.reason, answer.failed)
        return answer

    def _obstacle(self, owner: str, needs: tuple[ResourceNeed, ...]) -> str | None:
        if reason := self._lost.stop_reason(owner):
            return reason
        plan = self.claims.plan(owner, needs)
        return plan.reason if isinstance(plan, Denied) else None

    async def adopt(self, owner: str, requests: Sequence[ResourceRequest]) -> None:
        """A workload was found running. If it has no record, its devices are claimed as far as possible."""
        if owner not in self.claims.records and self._kubelet is None:
            answer = await self.claims.acquire(owner, needs_of(requests))
            if isinstance(answer, WaitingForDevices):
                log.warning("'%s' runs, but its devices are not recorded: %s", owner, answer.reason)

    def release(self, owner: str) -> None:
        self._pending.remove(owner)
        self._lost.released(owner)
        self.claims.release(owner)
