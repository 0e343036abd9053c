"""What a kubelet does with devices: plugins register here, tell what they have, and are asked to allocate.

In: registrations of plugins, ours and those of others, and the wishes of workloads. Out: what each plugin gives for a
container. Owned: which device id is used by which workload. Nothing is dropped when a plugin goes: its devices are
unhealthy, and forgotten only when it stays away.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from grpclib.client import UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError

from ankaios.common.dataclass import dataclass, field
from ankaios.common.errors import Rejected, Unavailable
from ankaios.devices.core.extended_resource import check_resource_name, pick
from ankaios.devices.core.grants import Grant
from ankaios.devices.discovery.base import DeviceMount, DeviceNode
from ankaios.devices.kubelet_registration import REGISTER
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.devices.plugin_folder import KUBELET_SOCKET, open_plugin_folder
from ankaios.devices.plugin_service import (
    ALLOCATE,
    API_VERSION,
    HEALTHY,
    LIST_AND_WATCH,
    OPTIONS,
    OWNER_HEADER,
    PRE_START,
    PREFERRED,
)
from ankaios.devices.unix_rpc import CALL_FAILED, UnixChannel, UnixServer, failure, limit_messages

DIAL_SECONDS = 10.0
ALLOCATE_SECONDS = 30.0
PRE_START_SECONDS = 30.0
ENDPOINT_GRACE_SECONDS = 300.0
MOST_DEVICES = 10_000

log = logging.getLogger(__name__)


class PluginFailed(Unavailable):
    """A plugin refused or did not answer; the text says which and why."""


@dataclass(slots=True, eq=False)
class _Plugin:
    resource: str
    endpoint: str
    channel: UnixChannel
    options: pb.DevicePluginOptions
    devices: dict[str, bool] = field(default_factory=dict)  # id -> healthy
    listed: bool = False
    connected: bool = True
    forgetting: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """What a node says of a resource."""

    capacity: int
    allocatable: int
    allocated: int


class DeviceManager:
    """`changed` is called with a resource whose devices changed."""

    def __init__(
        self,
        folder: Path,
        changed: Callable[[str], None],
        grace: float = ENDPOINT_GRACE_SECONDS,
        listener: socket.socket | None = None,
    ) -> None:
        """`listener`: the plugin folder is open already."""
        self.folder = folder
        self._listener = listener
        self._changed = changed
        self._grace = grace
        self._plugins: dict[str, _Plugin] = {}
        self._used: dict[str, dict[str, str]] = {}  # resource -> id -> owner
        self._group: asyncio.TaskGroup | None = None

    async def run(self, ready: asyncio.Event) -> None:
        """Serve registrations until cancelled."""
        listener = self._listener or open_plugin_folder(self.folder)
        handler = Handler(self._register, Cardinality.UNARY_UNARY, pb.RegisterRequest, pb.Empty)
        server = UnixServer(self.folder / KUBELET_SOCKET, {REGISTER: handler})
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    await server.start(listener)
                    ready.set()
                    await asyncio.Event().wait()
                finally:
                    self._group = None
        finally:
            await server.close()
            for plugin in self._plugins.values():
                plugin.channel.close()

    # --- registration ---

    async def _register(self, stream: Any) -> None:
        limit_messages(stream, 64 * 1024)
        request = await stream.recv_message()
        try:
            await self._accept(request)
        except (Rejected, Unavailable, *CALL_FAILED) as fault:
            log.warning("refused the device plugin for '%s': %s", request.resource_name, failure(fault))
            raise GRPCError(Status.INVALID_ARGUMENT, failure(fault)) from fault
        await stream.send_message(pb.Empty())

    async def _accept(self, request: pb.RegisterRequest) -> None:
        """Version, then name, then the plugin is called back before it gets its answer."""
        if request.version != API_VERSION:
            raise Rejected(f"version '{request.version}' is not supported, only '{API_VERSION}'")
        check_resource_name(request.resource_name)
        if not request.endpoint or "/" in request.endpoint:
            raise Rejected(f"the endpoint '{request.endpoint}' is not the name of a socket in the plugin folder")
        known = self._plugins.get(request.resource_name)
        if known is not None and known.connected and known.endpoint == request.endpoint:
            raise Rejected(f"'{request.resource_name}' is already registered at '{request.endpoint}'")
        channel = UnixChannel(self.folder / request.endpoint)
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                options = await UnaryUnaryMethod(channel, OPTIONS, pb.Empty, pb.DevicePluginOptions)(pb.Empty())
        except BaseException:
            channel.close()
            raise
        if self._group is None:
            channel.close()
            raise Unavailable("the device manager ends")
        self._connect(_Plugin(request.resource_name, request.endpoint, channel, options), self._group)

    def _connect(self, plugin: _Plugin, group: asyncio.TaskGroup) -> None:
        """The newest registration of a resource serves it."""
        if (older := self._plugins.get(plugin.resource)) is not None:
            plugin.devices = older.devices  # until it said what it has
            self._cancel_forgetting(older)
            older.channel.close()
        self._plugins[plugin.resource] = plugin
        group.create_task(self._follow(plugin), name=f"devices of {plugin.resource}")

    async def _follow(self, plugin: _Plugin) -> None:
        method = UnaryStreamMethod(plugin.channel, LIST_AND_WATCH, pb.Empty, pb.ListAndWatchResponse)
        try:
            async with method.open() as stream:
                await stream.send_message(pb.Empty(), end=True)
                await stream.recv_initial_metadata()
                limit_messages(stream)
                while (message := await stream.recv_message()) is not None:
                    self._take_list(plugin, message)
        except CALL_FAILED as error:
            log.info("lost the device plugin for '%s': %s", plugin.resource, failure(error))
        finally:
            plugin.channel.close()
            self._lost(plugin)

    def _take_list(self, plugin: _Plugin, message: pb.ListAndWatchResponse) -> None:
        if len(message.devices) > MOST_DEVICES:
            raise ValueError(f"it tells more than {MOST_DEVICES} devices")
        plugin.devices = {device.ID: device.health == HEALTHY for device in message.devices}
        plugin.listed = True
        self._changed(plugin.resource)

    def _lost(self, plugin: _Plugin) -> None:
        plugin.connected = False
        if self._plugins.get(plugin.resource) is plugin:
            plugin.devices = dict.fromkeys(plugin.devices, False)
            loop = asyncio.get_running_loop()
            plugin.forgetting = loop.call_later(self._grace if plugin.devices else 0, self._forget_plugin, plugin)
            self._changed(plugin.resource)

    def _forget_plugin(self, plugin: _Plugin) -> None:
        if self._plugins.get(plugin.resource) is plugin:
            del self._plugins[plugin.resource]
            self._changed(plugin.resource)

    def _cancel_forgetting(self, plugin: _Plugin) -> None:
        if plugin.forgetting is not None:
            plugin.forgetting.cancel()

    # --- what is so ---

    def is_ready(self, resource: str) -> bool:
        """Whether a plugin is there that can be asked."""
        plugin = self._plugins.get(resource)
        return plugin is not None and plugin.connected and plugin.listed

    def has_lost(self, resource: str) -> bool:
        """Whether a plugin was there and broke off."""
        plugin = self._plugins.get(resource)
        return plugin is not None and not plugin.connected

    def resources(self) -> list[str]:
        return sorted(self._plugins)

    def count(self, resource: str) -> Count:
        plugin = self._plugins.get(resource)
        devices = plugin.devices if plugin else {}
        return Count(len(devices), sum(devices.values()), len(self._used.get(resource, {})))

    def are_healthy(self, resource: str, ids: Sequence[str]) -> bool:
        plugin = self._plugins.get(resource)
        return plugin is not None and plugin.connected and all(plugin.devices.get(id_, False) for id_ in ids)

    # --- allocation ---

    async def pick(self, resource: str, quantity: int, owner: str) -> list[str]:
        """Choose devices of a plugin and mark them as used; [] if there are not enough.

        The plugin's preference is a hint; whatever it says, only usable devices are taken.
        """
        plugin = self._plugins.get(resource)
        free = self._free(resource)
        if plugin is None or len(free) < quantity:
            return []
        wishes: Sequence[str] = ()
        if plugin.options.get_preferred_allocation_available:
            wishes = await self._preferred(plugin, free, quantity)
        chosen = pick(self._free(resource), wishes, quantity)
        self.mark(resource, chosen, owner)
        return chosen

    def _free(self, resource: str) -> list[str]:
        used = self._used.get(resource, {})
        plugin = self._plugins.get(resource)
        return [id_ for id_, healthy in plugin.devices.items() if healthy and id_ not in used] if plugin else []

    async def _preferred(self, plugin: _Plugin, free: Sequence[str], quantity: int) -> Sequence[str]:
        wanted = pb.ContainerPreferredAllocationRequest(available_deviceIDs=free, allocation_size=quantity)
        request = pb.PreferredAllocationRequest(container_requests=[wanted])
        method = UnaryUnaryMethod(
            plugin.channel, PREFERRED, pb.PreferredAllocationRequest, pb.PreferredAllocationResponse
        )
        try:
            response = await method(request, timeout=ALLOCATE_SECONDS)
            return list(response.container_responses[0].deviceIDs)
        except (*CALL_FAILED, IndexError) as error:
            log.info("the device plugin for '%s' has no preference: %s", plugin.resource, failure(error))
            return ()

    def mark(self, resource: str, ids: Sequence[str], owner: str) -> None:
        self._used.setdefault(resource, {}).update(dict.fromkeys(ids, owner))

    def unmark(self, resource: str, ids: Sequence[str], owner: str) -> None:
        used = self._used.get(resource, {})
        for id_ in ids:
            if used.get(id_) == owner:
                del used[id_]
        if not used:
            self._used.pop(resource, None)

    async def allocate(self, resource: str, ids: Sequence[str], owner: str) -> Grant:
        """One call for one container, as a kubelet does it; the first answer counts."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        plugin = self._connected(resource)
        method = UnaryUnaryMethod(plugin.channel, ALLOCATE, pb.AllocateRequest, pb.AllocateResponse)
        call = partial(method, request, timeout=ALLOCATE_SECONDS, metadata={OWNER_HEADER: owner})
        response = await self._call(resource, call)
        if not response.container_responses:
            raise PluginFailed(f"cannot allocate '{resource}': the plugin gave no answer for the container")
        return grant_from_pb(response.container_responses[0])

    async def pre_start(self, resource: str, ids: Sequence[str]) -> None:
        """Before every start of a container, for plugins that want it."""
        plugin = self._connected(resource)
        if plugin.options.pre_start_required:
            request = pb.PreStartContainerRequest(devices_ids=ids)
            method = UnaryUnaryMethod(
                plugin.channel, PRE_START, pb.PreStartContainerRequest, pb.PreStartContainerResponse
            )
            await self._call(resource, partial(method, request, timeout=PRE_START_SECONDS))

    def _connected(self, resource: str) -> _Plugin:
        plugin = self._plugins.get(resource)
        if plugin is None or not plugin.connected:
            raise PluginFailed(f"cannot allocate '{resource}': its device plugin is away")
        return plugin

    async def _call(self, resource: str, call: Callable[[], Any]) -> Any:
        try:
            return await call()
        except CALL_FAILED as error:
            raise PluginFailed(f"cannot allocate '{resource}': {failure(error)}") from error


def grant_from_pb(message: pb.ContainerAllocateResponse) -> Grant:
    return Grant(
        envs=dict(sorted(message.envs.items())),
        mounts=tuple(DeviceMount(it.container_path, it.host_path, it.read_only) for it in message.mounts),
        devices=tuple(DeviceNode(it.container_path, it.host_path, it.permissions) for it in message.devices),
        annotations=dict(sorted(message.annotations.items())),
        cdi_devices=tuple(it.name for it in message.cdi_devices),
    )
