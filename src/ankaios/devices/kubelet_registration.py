"""Makes our device plugins known to a kubelet, or to our own device manager, which looks the same from here.

In: which resources there are. Out: one socket for each in the plugin folder, registered, and registered again on a
fresh socket whenever the kubelet restarts, since it then deletes all sockets in the folder.

[impl->akri~kubelet-device-plugin-api~1]
"""

import asyncio
import logging
import resource as resource_limits
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path

from ankaios.common.errors import Unavailable
from ankaios.common.supervision import Supervisor
from ankaios.devices.folder_watch import FolderWatch
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.devices.plugin_folder import KUBELET_SOCKET
from ankaios.devices.plugin_service import API_VERSION, DevicePluginBehaviour, DevicePluginService, options
from ankaios.devices.unix_rpc import UnixServer, unix_channel
from ankaios.grpc.wire_format import CallFailed

REGISTER = f"/{API_VERSION}.Registration/Register"
REGISTER_SECONDS = 15.0  # the kubelet gives itself ten to call back
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 10.0
WATCH_PAUSE = 1.0
REGISTRATIONS_AT_ONCE = 16
DESCRIPTORS_PER_PLUGIN = 4
FAREWELL_SECONDS = 1.0

log = logging.getLogger(__name__)


class PluginHost:
    """Keeps one registered plugin for each resource, as long as `run` runs."""

    def __init__(self, folder: Path, *, watches: bool) -> None:
        """`watches`: the other side may restart on its own, as a kubelet does and our device manager does not."""
        self._folder = folder
        self._watches = watches
        self._services: dict[str, DevicePluginService] = {}
        self._restarts: dict[str, asyncio.Event] = {}
        self._sockets: dict[str, str] = {}  # file name -> resource
        self._numbers = count()
        self._turn = asyncio.Semaphore(REGISTRATIONS_AT_ONCE)
        self._group: Supervisor | None = None

    async def run(self) -> None:
        """Own the plugins until cancelled."""
        async with Supervisor() as group:
            self._group = group
            try:
                for service in self._services.values():
                    self._start(service)
                await (self._watch() if self._watches else asyncio.Event().wait())
            finally:
                self._group = None

    def add(self, behaviour: DevicePluginBehaviour) -> None:
        service = DevicePluginService(behaviour)
        self._services[behaviour.resource] = service
        ensure_descriptors(len(self._services) * DESCRIPTORS_PER_PLUGIN)
        if self._group is not None:
            self._start(service)

    def remove(self, resource: str) -> None:
        service = self._services.pop(resource, None)
        if service is not None:
            service.end()
            self._restarts.pop(resource, asyncio.Event()).set()

    def register_again(self, resource: str) -> None:
        """The other side lost the plugin, though it is there. Not at once: the reason may last."""
        if resource in self._restarts:
            loop = asyncio.get_running_loop()
            loop.call_later(WATCH_PAUSE, self._restarts[resource].set)

    def __contains__(self, resource: str) -> bool:
        return resource in self._services

    def refresh(self, resource: str) -> None:
        if service := self._services.get(resource):
            service.refresh()

    def resources(self) -> Mapping[str, DevicePluginService]:
        return self._services

    # --- one plugin ---

    def _start(self, service: DevicePluginService) -> None:
        assert self._group is not None
        resource = service.behaviour.resource
        self._group.keep_running(f"the device plugin '{resource}'", lambda: self._keep(service))

    async def _keep(self, service: DevicePluginService) -> None:
        resource = service.behaviour.resource
        while self._services.get(resource) is service:
            restart = self._restarts[resource] = asyncio.Event()
            server = UnixServer(self._folder / self._socket_name(resource), service.handlers())
            try:
                await server.start()
                await self._register(service, server.path.name, restart)
                await restart.wait()
                if service.ended:
                    await service.farewell(FAREWELL_SECONDS)
            except Unavailable as fault:
                log.warning("device plugin '%s' cannot be offered, trying again: %s", resource, fault)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LONGEST_PAUSE):
                        await restart.wait()
            finally:
                self._sockets.pop(server.path.name, None)
                await server.close()

    def _socket_name(self, resource: str) -> str:
        """Fresh for each registration, and short: the whole path has at most 107 bytes."""
        digest = blake2b(resource.encode(), digest_size=6).hexdigest()
        name = f"akri-{digest}-{next(self._numbers)}.sock"
        self._sockets[name] = resource
        return name

    async def _register(self, service: DevicePluginService, endpoint: str, restart: asyncio.Event) -> None:
        """Until it works, or the plugin is to begin anew."""
        pause = FIRST_PAUSE
        request = pb.RegisterRequest(
            version=API_VERSION, endpoint=endpoint, resource_name=service.behaviour.resource, options=options()
        )
        while not restart.is_set():
            if (self._folder / KUBELET_SOCKET).exists():
                try:
                    async with self._turn:
                        await call_register(self._folder / KUBELET_SOCKET, request)
                    return
                except CallFailed as failure:
                    text = "cannot register '%s' at '%s', trying again: %s"
                    log.info(text, request.resource_name, self._folder, failure.reason)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await restart.wait()
            pause = min(2 * pause, LONGEST_PAUSE)

    # --- restarts of the other side ---

    async def _watch(self) -> None:
        complaint = ""
        while True:
            try:
                async with FolderWatch(self._folder) as watch:
                    if complaint:
                        self._restart_all()
                    complaint = ""
                    while True:
                        self._noticed(*await watch.next())
            except OSError as error:
                if str(error) != complaint:
                    log.warning("cannot watch '%s', waiting for it: %s", self._folder, error)
                complaint = str(error)
            await asyncio.sleep(WATCH_PAUSE)

    def _noticed(self, name: str, exists: bool) -> None:
        """The kubelet is back, or somebody deleted a socket of ours."""
        if exists and name in (KUBELET_SOCKET, ""):
            self._restart_all()
        elif not exists and (restart := self._restarts.get(self._sockets.get(name, ""))) is not None:
            restart.set()

    def _restart_all(self) -> None:
        for event in self._restarts.values():
            event.set()


def ensure_descriptors(number: int) -> None:
    """Each plugin has a socket and connections of its own; the usual limit is enough for some hundred of them."""
    soft, hard = resource_limits.getrlimit(resource_limits.RLIMIT_NOFILE)
    wanted = 2 * number + 256
    if soft < wanted and (soft < hard or hard == resource_limits.RLIM_INFINITY):
        higher = max(2 * soft, wanted)
        higher = higher if hard == resource_limits.RLIM_INFINITY else min(higher, hard)
        resource_limits.setrlimit(resource_limits.RLIMIT_NOFILE, (higher, hard))


async def call_register(socket: Path, request: pb.RegisterRequest) -> None:
    channel = unix_channel(socket)
    try:
        await channel.unary(REGISTER, request, pb.Empty, time_limit=REGISTER_SECONDS)
    finally:
        channel.close()
