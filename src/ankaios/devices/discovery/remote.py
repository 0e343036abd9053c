"""A discovery handler in another process, used through the Akri discovery API.

Input: the endpoint that it registered. Output: the same lists as those of a built-in handler. There is one stream for
each discovery. Received devices are checked like all external input, and an invalid device is left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from urllib.parse import urlsplit

from msgspec import Struct

from ankaios.common.device_grant import DeviceMount, DeviceNode
from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.core.grants import check_places
from ankaios.devices.discovery.base import HandlerLost, InvalidDetails, Properties
from ankaios.devices.pb import discovery_pb2 as pb
from ankaios.grpc.addresses import TcpAddress, UnixAddress
from ankaios.grpc.async_call import MAX_MESSAGE_SIZE
from ankaios.grpc.channel import ClientCall, GrpcChannel
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, Status

DISCOVER = "/v0.DiscoveryHandler/Discover"
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0
FORGET_SECONDS = 300.0
MAX_DEVICES = 10_000

log = logging.getLogger(__name__)


class Endpoint(Struct, frozen=True):
    """Where a handler listens: a socket path, or a host with a port."""

    path: str | None = None
    host: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"

    @property
    def address(self) -> TcpAddress | UnixAddress:
        return TcpAddress(self.host or "", self.port or 0) if self.path is None else UnixAddress(self.path)


def parse_endpoint(text: str, is_network: bool) -> Endpoint:
    """Read the endpoint of a registration; ValueError states the expected form."""
    if not is_network:
        if not text.startswith("/") or "\0" in text:
            raise ValueError(f"'{text}' is not the absolute path of a socket")
        return Endpoint(path=text)
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise ValueError(f"'{text}' is not a URL such as http://10.0.0.7:10000")
    return Endpoint(host=parts.hostname, port=parts.port)


class RemoteHandler:
    """One registered endpoint. It stays the same object while the handler comes and goes."""

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        shared: bool,
        on_gone: Callable[[RemoteHandler], None] = lambda handler: None,
        silence_seconds: float = SILENCE_SECONDS,
        forget_seconds: float = FORGET_SECONDS,
    ) -> None:
        self.name = name
        self.shared = shared
        self.endpoint = endpoint
        self._on_gone = on_gone
        self._silence_seconds = silence_seconds
        self._forget_seconds = forget_seconds
        self._lost_since: float | None = None

    def __repr__(self) -> str:
        return f"RemoteHandler({self.name!r} at {self.endpoint})"

    def registered_again(self) -> None:
        self._lost_since = None

    async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        request = to_request(details, properties)
        channel = GrpcChannel(self.endpoint.address, connect_timeout=CONNECT_SECONDS)
        try:
            await self._connect(channel)
            async with channel.call(DISCOVER) as call:
                await call.send(request)
                call.half_close()
                async with aclosing(self._lists(call)) as lists:
                    async for devices in lists:
                        yield devices
            raise self._lost("it ended the stream")
        except CallFailed as failure:
            if failure.status is Status.INVALID_ARGUMENT:
                raise InvalidDetails(f"handler '{self.name}' refused the details: {failure.text}") from failure
            raise self._lost(str(failure)) from failure
        finally:
            channel.close()

    async def _connect(self, channel: GrpcChannel) -> None:
        try:
            await channel.connect()
        except ConnectionBroken:
            self._note_absence()
            raise
        self._lost_since = None

    def _note_absence(self) -> None:
        """A handler that cannot be reached for long has moved or is gone for good; if it returns, it registers."""
        now = asyncio.get_running_loop().time()
        if self._lost_since is None:
            self._lost_since = now
        elif now - self._lost_since >= self._forget_seconds:
            self._on_gone(self)

    def _lost(self, why: str) -> HandlerLost:
        return HandlerLost(f"cannot follow discovery handler '{self.name}' at '{self.endpoint}': {why}")

    async def _lists(self, call: ClientCall) -> AsyncGenerator[Devices, None]:
        await call.response_headers()
        reported: Devices | None = None
        while True:
            receiving = asyncio.create_task(
                call.receive(pb.DiscoverResponse, MAX_MESSAGE_SIZE), name=f"discovery {self.name}"
            )
            try:
                # Akri's handlers send nothing when they find nothing. One that accepted the request and is silent for
                # longer than a search takes is understood so.
                done, _ = await asyncio.wait({receiving}, timeout=self._silence_seconds if reported is None else None)
                if not done and reported is None:
                    reported = ()
                    yield reported
                message = await receiving
            finally:
                receiving.cancel()
            if message is None:
                return
            if (devices := self._devices(message)) != reported:
                reported = devices
                yield devices

    def _devices(self, message: pb.DiscoverResponse) -> Devices:
        if len(message.devices) > MAX_DEVICES:
            raise self._lost(f"it reports more than {MAX_DEVICES} devices")
        devices = []
        for device in message.devices:
            try:
                devices.append(from_message(device))
            except ValueError as error:
                log.warning("left out device %.100r of discovery handler '%s': %s", device.id, self.name, error)
        return tuple(devices)


def to_request(details: str, properties: Properties) -> pb.DiscoverRequest:
    """A property without a value travels as an entry without bytes, which is not the same as an empty one."""
    return pb.DiscoverRequest(
        discovery_details=details,
        discovery_properties={name: pb.ByteData(vec=value) for name, value in properties.items()},
    )


def from_message(device: pb.Device) -> DiscoveredDevice:
    """Check and convert one device; ValueError states what makes it unusable."""
    if not device.id:
        raise ValueError("it has no id")
    for name, value in device.properties.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"property {name[:100]!r} cannot become an environment variable")
    mounts = tuple(DeviceMount(it.container_path, it.host_path, it.read_only) for it in device.mounts)
    nodes = tuple(DeviceNode(it.container_path, it.host_path, it.permissions or "rwm") for it in device.device_specs)
    check_places(mounts, nodes)
    return DiscoveredDevice(device.id, dict(device.properties), mounts, nodes)
