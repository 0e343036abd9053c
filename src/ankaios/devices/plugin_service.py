"""One device plugin: the kubelet's device plugin API for one resource, over its own socket.

Input: calls of a kubelet. Output: lists of virtual devices, and what a container receives. One service serves both
kinds of resource; they differ in a behaviour. Lists are computed from the ledger, and sent when they differ from the
last list of the listener.

[impl->akri~one-service-two-behaviours~1]
[impl->akri~kubelet-device-plugin-api~1]
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import AnkaiosError
from ankaios.devices.core.resource_views import Advertised, AdvertisedList, with_departed
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.devices.plugin_api import (
    ALLOCATE,
    HEALTHY,
    LIST_AND_WATCH,
    OPTIONS,
    PRE_START,
    PREFERRED,
    UNHEALTHY,
    grant_to_pb,
)
from ankaios.grpc.server import Handler, server_streaming, unary
from ankaios.grpc.wire_format import CallFailed, Status

Requests = Sequence[Sequence[str]]


class DevicePluginBehaviour(Protocol):
    """What a resource advertises and allocates."""

    @property
    def resource(self) -> str: ...

    def advertised(self) -> AdvertisedList: ...

    def preferred(self, available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]: ...

    async def allocate(self, requests: Requests) -> list[DeviceGrant]: ...


class DevicePluginService:
    """Serves one behaviour to any number of listeners."""

    def __init__(self, behaviour: DevicePluginBehaviour) -> None:
        self.behaviour = behaviour
        self.ended = False
        self._listeners: set[_Listener] = set()
        self._idle = asyncio.Event()

    def handlers(self) -> dict[str, Handler]:
        return {
            OPTIONS: unary(pb.Empty, self._options),
            LIST_AND_WATCH: server_streaming(pb.Empty, self._list_and_watch),
            PREFERRED: unary(pb.PreferredAllocationRequest, self._preferred),
            ALLOCATE: unary(pb.AllocateRequest, self._allocate),
            PRE_START: unary(pb.PreStartContainerRequest, self._pre_start),
        }

    def refresh(self, even_if_same: bool = False) -> None:
        """Send a new list to the listeners, if it differs from the last one.

        After a failed allocation it is sent in any case, because the last one was outdated.
        [impl->akri~il-notification-rules~1]
        [impl->akri~cl-notification-rules~1]
        """
        for listener in self._listeners:
            listener.repeat |= even_if_same
            listener.changed.set()

    def end(self) -> None:
        """The resource is gone: report all ids as unhealthy, and end the streams."""
        self.ended = True
        self.refresh()

    async def wait_until_ended(self, limit: float) -> None:
        """Wait until the listeners have their last list."""
        self._idle.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit if self._listeners else 0):
                await self._idle.wait()

    async def _options(self, _request: pb.Empty, _metadata: Mapping[str, str]) -> pb.DevicePluginOptions:
        return options()

    async def _list_and_watch(
        self, _request: pb.Empty, _metadata: Mapping[str, str]
    ) -> AsyncGenerator[pb.ListAndWatchResponse, None]:
        listener = _Listener()
        self._listeners.add(listener)
        try:
            while (listed := listener.next_list(self._current())) is not None or not self.ended:
                if listed is None:
                    await listener.changed.wait()
                    listener.changed.clear()
                else:
                    yield to_response(listed)
        finally:
            self._listeners.discard(listener)
            if not self._listeners:
                self._idle.set()

    def _current(self) -> AdvertisedList:
        return () if self.ended else self.behaviour.advertised()

    async def _preferred(
        self, request: pb.PreferredAllocationRequest, _metadata: Mapping[str, str]
    ) -> pb.PreferredAllocationResponse:
        responses = [
            pb.ContainerPreferredAllocationResponse(
                deviceIDs=self.behaviour.preferred(
                    each.available_deviceIDs, each.must_include_deviceIDs, each.allocation_size
                )
            )
            for each in request.container_requests
        ]
        return pb.PreferredAllocationResponse(container_responses=responses)

    async def _allocate(self, request: pb.AllocateRequest, _metadata: Mapping[str, str]) -> pb.AllocateResponse:
        wanted = [list(each.devices_ids) for each in request.container_requests]
        try:
            grants = await self.behaviour.allocate(wanted)
        except AnkaiosError as fault:
            self.refresh(even_if_same=True)
            raise CallFailed(Status.UNKNOWN, str(fault)) from fault
        return pb.AllocateResponse(container_responses=map(grant_to_pb, grants))

    async def _pre_start(
        self, _request: pb.PreStartContainerRequest, _metadata: Mapping[str, str]
    ) -> pb.PreStartContainerResponse:
        return pb.PreStartContainerResponse()


class _Listener:
    """The last list of one listener, so that only changes are sent."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.repeat = False
        self._sent: AdvertisedList | None = None

    def next_list(self, current: AdvertisedList) -> AdvertisedList | None:
        """The list to send now, or None. Ids that are no longer advertised are unhealthy once, then omitted."""
        listed = with_departed(self._sent or (), current)
        if listed == self._sent and not self.repeat:
            return None
        self.repeat = False
        self._sent = listed
        return listed


def options() -> pb.DevicePluginOptions:
    """Preferred allocation keeps a kubelet from picking two ids on the same device."""
    return pb.DevicePluginOptions(get_preferred_allocation_available=True)


def to_response(listed: Sequence[Advertised]) -> pb.ListAndWatchResponse:
    return pb.ListAndWatchResponse(
        devices=[pb.Device(ID=device.id, health=HEALTHY if device.healthy else UNHEALTHY) for device in listed]
    )
