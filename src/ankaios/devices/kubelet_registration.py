"""Registers device plugins with a kubelet.

Input: the resources to offer. Output: one socket for each in the plugin folder, registered, and registered again on a
fresh socket whenever the kubelet restarts, because it then deletes all sockets in the folder.

[impl->akri~kubelet-device-plugin-api~1]
"""

import asyncio
import logging
import resource as resource_limits
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path

from ankaios.common.errors import Unavailable
from ankaios.common.supervision import Supervisor
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.devices.plugin_api import API_VERSION, REGISTER
from ankaios.devices.plugin_folder import KUBELET_SOCKET
from ankaios.devices.plugin_service import DevicePluginBehaviour, DevicePluginService, options
from ankaios.devices.unix_rpc import UnixServer, unix_channel
from ankaios.grpc.wire_format import CallFailed

REGISTER_SECONDS = 15.0  # the kubelet gives itself ten to call back
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 10.0
POLL_SECONDS = 1.0
REGISTRATIONS_AT_ONCE = 16
DESCRIPTORS_PER_PLUGIN = 4
LAST_LIST_SECONDS = 1.0
SOCKET_PREFIX = "akri-"

log = logging.getLogger(__name__)


class _Offer:
    """One plugin that is offered. `restart` is set when it has to register again on a fresh socket, or to end."""

    def __init__(self, service: DevicePluginService) -> None:
        self.service = service
        self.resource = service.behaviour.resource
        self.restart = asyncio.Event()
        self.socket: Path | None = None


class PluginHost:
    """Keeps one registered plugin for each resource, as long as `run` runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offers: dict[str, _Offer] = {}
        # A kubelet refuses a known socket, so those of an earlier agent must have other names.
        self._names = (f"{time.time_ns() % 2**40:x}-{number}" for number in count())
        self._turn = asyncio.Semaphore(REGISTRATIONS_AT_ONCE)
        self._group: Supervisor | None = None

    async def run(self) -> None:
        """Own the plugins until cancelled."""
        remove_dead_sockets(self._folder)
        async with Supervisor() as group:
            self._group = group
            try:
                for offer in self._offers.values():
                    self._start(offer)
                await self._watch()
            finally:
                self._group = None

    def add(self, behaviour: DevicePluginBehaviour) -> None:
        offer = self._offers[behaviour.resource] = _Offer(DevicePluginService(behaviour))
        ensure_descriptors(len(self._offers) * DESCRIPTORS_PER_PLUGIN)
        if self._group is not None:
            self._start(offer)

    def remove(self, resource: str) -> None:
        if (offer := self._offers.pop(resource, None)) is not None:
            offer.service.end()
            offer.restart.set()

    def __contains__(self, resource: str) -> bool:
        return resource in self._offers

    def resources(self) -> Iterable[str]:
        return self._offers

    def refresh(self, resource: str, even_if_same: bool = False) -> None:
        if offer := self._offers.get(resource):
            offer.service.refresh(even_if_same)

    # --- one plugin ---

    def _start(self, offer: _Offer) -> None:
        assert self._group is not None
        self._group.keep_running(f"the device plugin '{offer.resource}'", lambda: self._keep(offer))

    async def _keep(self, offer: _Offer) -> None:
        while self._offers.get(offer.resource) is offer:
            offer.restart.clear()
            offer.socket = self._folder / self._socket_name(offer.resource)
            server = UnixServer(offer.socket, offer.service.handlers())
            try:
                await server.start()
                await self._register(offer, server.path.name)
                await offer.restart.wait()
                if offer.service.ended:
                    await offer.service.wait_until_ended(LAST_LIST_SECONDS)
            except Unavailable as fault:
                log.warning("device plugin '%s' cannot be offered, trying again: %s", offer.resource, fault)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LONGEST_PAUSE):
                        await offer.restart.wait()
            finally:
                offer.socket = None
                await server.close()

    def _socket_name(self, resource: str) -> str:
        """Fresh for each registration, and short: the whole path has at most 107 bytes."""
        digest = blake2b(resource.encode(), digest_size=6).hexdigest()
        return f"{SOCKET_PREFIX}{digest}-{next(self._names)}.sock"

    async def _register(self, offer: _Offer, endpoint: str) -> None:
        """Retry until it succeeds, or until the plugin has to start again."""
        pause = FIRST_PAUSE
        request = pb.RegisterRequest(
            version=API_VERSION, endpoint=endpoint, resource_name=offer.resource, options=options()
        )
        while not offer.restart.is_set():
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
                    await offer.restart.wait()
            pause = min(2 * pause, LONGEST_PAUSE)

    # --- restarts of the kubelet ---

    async def _watch(self) -> None:
        """A restarted kubelet has another registration socket, and has deleted those of the plugins."""
        kubelet = created(self._folder / KUBELET_SOCKET)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            before, kubelet = kubelet, created(self._folder / KUBELET_SOCKET)
            for offer in self._offers.values():
                if offer.socket is not None and (kubelet != before or not created(offer.socket)):
                    offer.restart.set()


def remove_dead_sockets(folder: Path) -> None:
    """Remove the sockets that an earlier agent left behind, which are not served any more."""
    for path in filter(Path.is_socket, folder.glob(f"{SOCKET_PREFIX}*.sock")):
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        except OSError:
            pass  # it is served
        finally:
            probe.close()


def created(path: Path) -> int:
    """When the file was made, in nanoseconds; 0 if it does not exist. An inode number may be used again."""
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0


def ensure_descriptors(number: int) -> None:
    """Each plugin has a socket and connections; the usual limit is enough for some hundred of them."""
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
