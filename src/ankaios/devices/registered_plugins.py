"""The foreign device plugins that registered with this agent.

Input: registrations and lists of devices. Output: the devices of each plugin, and a call of `changed` when they change.
Owns the connections. The devices of a plugin that disconnects become unhealthy, and are dropped after a grace period.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.supervision import Supervisor
from ankaios.devices.core.extended_resource import check_resource_name
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.devices.plugin_api import API_VERSION, HEALTHY, LIST_AND_WATCH, OPTIONS, REGISTER
from ankaios.devices.plugin_folder import KUBELET_SOCKET, open_plugin_folder
from ankaios.devices.unix_rpc import MAX_REGISTRATION_SIZE, UnixServer, unix_channel
from ankaios.grpc.channel import GrpcChannel
from ankaios.grpc.server import unary
from ankaios.grpc.wire_format import CallFailed, Status

DIAL_SECONDS = 10.0
ENDPOINT_GRACE_SECONDS = 300.0
MOST_DEVICES = 10_000

# The resource that changed, and whether its plugin has just registered.
Changed = Callable[[str, bool], None]

log = logging.getLogger(__name__)


class Plugin(Struct, eq=False):
    resource: str
    endpoint: str
    channel: GrpcChannel
    options: pb.DevicePluginOptions
    devices: dict[str, bool] = field(default_factory=dict)  # id -> healthy
    listed: bool = False
    connected: bool = True
    forgetting: asyncio.TimerHandle | None = None


class RegisteredPlugins:
    """`changed` is called when a plugin registers, disconnects, or sends another list."""

    def __init__(self, folder: Path, changed: Changed, grace: float, listener: socket.socket | None) -> None:
        """`listener`: the registration socket of the folder, if it is open already."""
        self._folder = folder
        self._listener = listener
        self._changed = changed
        self._grace = grace
        self._plugins: dict[str, Plugin] = {}
        self._group: Supervisor | None = None

    def get(self, resource: str) -> Plugin | None:
        return self._plugins.get(resource)

    def resources(self) -> list[str]:
        return sorted(self._plugins)

    async def run(self, ready: asyncio.Event) -> None:
        """Serve registrations until cancelled."""
        listener, self._listener = self._listener or open_plugin_folder(self._folder), None
        handler = unary(pb.RegisterRequest, self._register, MAX_REGISTRATION_SIZE)
        server = UnixServer(self._folder / KUBELET_SOCKET, {REGISTER: handler})
        try:
            async with Supervisor() as group:
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

    async def _register(self, request: pb.RegisterRequest, _metadata: Mapping[str, str]) -> pb.Empty:
        try:
            await self._accept(request)
        except (Rejected, Unavailable, CallFailed) as fault:
            reason = fault.reason if isinstance(fault, CallFailed) else str(fault)
            log.warning("refused the device plugin for '%s': %s", request.resource_name, reason)
            raise CallFailed(Status.INVALID_ARGUMENT, reason) from fault
        return pb.Empty()

    async def _accept(self, request: pb.RegisterRequest) -> None:
        """Check the version, then the name, then call the plugin before it gets its answer."""
        if request.version != API_VERSION:
            raise Rejected(f"version '{request.version}' is not supported, only '{API_VERSION}'")
        check_resource_name(request.resource_name)
        if not request.endpoint or "/" in request.endpoint:
            raise Rejected(f"the endpoint '{request.endpoint}' is not the name of a socket in the plugin folder")
        channel = unix_channel(self._folder / request.endpoint)
        try:
            options = await channel.unary(OPTIONS, pb.Empty(), pb.DevicePluginOptions, time_limit=DIAL_SECONDS)
        except BaseException:
            channel.close()
            raise
        if self._group is None:
            channel.close()
            raise Unavailable("the agent stops")
        self._connect(Plugin(request.resource_name, request.endpoint, channel, options), self._group)

    def _connect(self, plugin: Plugin, group: Supervisor) -> None:
        """The newest registration of a resource serves it."""
        if (older := self._plugins.get(plugin.resource)) is not None:
            plugin.devices = older.devices  # until it sends its list
            self._cancel_forgetting(older)
            older.channel.close()
        self._plugins[plugin.resource] = plugin
        group.run_once(f"the device plugin for '{plugin.resource}'", lambda: self._follow(plugin))

    async def _follow(self, plugin: Plugin) -> None:
        try:
            async with plugin.channel.call(LIST_AND_WATCH) as call:
                await call.send(pb.Empty())
                call.half_close()
                while (message := await call.receive(pb.ListAndWatchResponse)) is not None:
                    self._take_list(plugin, message)
        except CallFailed as failure:
            log.info("lost the device plugin for '%s': %s", plugin.resource, failure.reason)
        finally:
            plugin.channel.close()
            self._lost(plugin)

    def _take_list(self, plugin: Plugin, message: pb.ListAndWatchResponse) -> None:
        if len(message.devices) > MOST_DEVICES:
            raise CallFailed(Status.RESOURCE_EXHAUSTED, f"it lists more than {MOST_DEVICES} devices")
        devices = {device.ID: device.health == HEALTHY for device in message.devices}
        if devices != plugin.devices or not plugin.listed:
            registered, plugin.devices, plugin.listed = not plugin.listed, devices, True
            self._changed(plugin.resource, registered)

    def _lost(self, plugin: Plugin) -> None:
        plugin.connected = False
        if self._plugins.get(plugin.resource) is plugin:
            plugin.devices = dict.fromkeys(plugin.devices, False)
            loop = asyncio.get_running_loop()
            plugin.forgetting = loop.call_later(self._grace if plugin.devices else 0, self._forget_plugin, plugin)
            self._changed(plugin.resource, False)

    def _forget_plugin(self, plugin: Plugin) -> None:
        if self._plugins.get(plugin.resource) is plugin:
            del self._plugins[plugin.resource]
            self._changed(plugin.resource, False)

    def _cancel_forgetting(self, plugin: Plugin) -> None:
        if plugin.forgetting is not None:
            plugin.forgetting.cancel()
