"""One device plugin: the kubelet's device plugin API for one resource, over its own socket.

In: calls of a kubelet or of our device manager. Out: lists of virtual devices, and what a container receives. One
service serves both kinds of resource; they differ in a behaviour. Nothing is kept here: lists are computed from the
ledger each time, and sent when they differ from what the listener has.

[impl->akri~one-service-two-behaviours~1]
[impl->akri~kubelet-device-plugin-api~1]
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import AnkaiosError, Unavailable
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.resource_views import Advertised, AdvertisedList, with_departed
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.grpc.server import Handler, server_streaming, unary
from ankaios.grpc.wire_format import CallFailed, Status

API_VERSION = "v1beta1"
SERVICE = f"/{API_VERSION}.DevicePlugin"
OPTIONS, LIST_AND_WATCH = f"{SERVICE}/GetDevicePluginOptions", f"{SERVICE}/ListAndWatch"
PREFERRED, ALLOCATE = f"{SERVICE}/GetPreferredAllocation", f"{SERVICE}/Allocate"
PRE_START = f"{SERVICE}/PreStartContainer"
OWNER_HEADER = "ankaios-owner"  # our device manager says for which workload it asks; a kubelet does not
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

Requests = Sequence[Sequence[str]]


class AllocationDenied(Unavailable):
    """There is no way to give these devices now."""


class Devices(Protocol):
    """What a plugin asks of those who own the slots. `target` is an instance or a configuration."""

    def advertised(self, target: str, by_configuration: bool) -> AdvertisedList: ...

    def preferred(
        self, target: str, by_configuration: bool, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> list[str]: ...

    async def allocate(
        self, target: str, by_configuration: bool, requests: Requests, owner: str
    ) -> list[DeviceGrant]: ...


class DevicePluginBehaviour:
    """What a resource advertises and gives."""

    by_configuration: bool

    def __init__(self, devices: Devices, target: str) -> None:
        self._devices = devices
        self.target = target

    @property
    def resource(self) -> str:
        return DEFAULT_RESOURCE_PREFIX + self.target

    def advertised(self) -> AdvertisedList:
        return self._devices.advertised(self.target, self.by_configuration)

    def preferred(self, available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
        return self._devices.preferred(self.target, self.by_configuration, available, must_include, size)

    async def allocate(self, requests: Requests, owner: str) -> list[DeviceGrant]:
        return await self._devices.allocate(self.target, self.by_configuration, requests, owner)


class InstanceDevicePlugin(DevicePluginBehaviour):
    """One device: its ids are its slots. [impl->akri~instance-level-resource~1]"""

    by_configuration = False


class ConfigurationDevicePlugin(DevicePluginBehaviour):
    """Any device of a configuration: its ids stand for slots that are chosen when they are allocated.

    [impl->akri~configuration-level-resource~1]
    """

    by_configuration = True


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
        """The slots changed: listeners get a new list, if it is another one.

        After a failed allocation they get it in any case, since the one they went by was wrong.
        [impl->akri~il-notification-rules~1]
        [impl->akri~cl-notification-rules~1]
        """
        for listener in self._listeners:
            listener.repeat |= even_if_same
            listener.news.set()

    def end(self) -> None:
        """The resource is gone: every listener hears that nothing is usable, and its stream ends."""
        self.ended = True
        self.refresh()

    async def farewell(self, limit: float) -> None:
        """Wait until the listeners had their last list."""
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
                    await listener.news.wait()
                    listener.news.clear()
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

    async def _allocate(self, request: pb.AllocateRequest, metadata: Mapping[str, str]) -> pb.AllocateResponse:
        wanted = [list(each.devices_ids) for each in request.container_requests]
        try:
            grants = await self.behaviour.allocate(wanted, metadata.get(OWNER_HEADER, ""))
        except AnkaiosError as fault:
            self.refresh(even_if_same=True)
            raise CallFailed(Status.UNKNOWN, str(fault)) from fault
        return pb.AllocateResponse(container_responses=map(grant_to_pb, grants))

    async def _pre_start(
        self, _request: pb.PreStartContainerRequest, _metadata: Mapping[str, str]
    ) -> pb.PreStartContainerResponse:
        return pb.PreStartContainerResponse()


class _Listener:
    """What one listener was told last, so that it is told only news."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.repeat = False
        self._told: AdvertisedList | None = None

    def next_list(self, current: AdvertisedList) -> AdvertisedList | None:
        """The list to send now, or None. Ids that left are unhealthy once, then omitted."""
        listed = with_departed(self._told or (), current)
        if listed == self._told and not self.repeat:
            return None
        self.repeat = False
        self._told = listed
        return listed


def options() -> pb.DevicePluginOptions:
    """A hint is offered, so that ids on the same device are not picked together."""
    return pb.DevicePluginOptions(get_preferred_allocation_available=True)


def to_response(listed: Sequence[Advertised]) -> pb.ListAndWatchResponse:
    return pb.ListAndWatchResponse(
        devices=[pb.Device(ID=device.id, health=HEALTHY if device.healthy else UNHEALTHY) for device in listed]
    )


def grant_to_pb(grant: DeviceGrant) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(
        envs=grant.envs,
        mounts=[
            pb.Mount(container_path=it.container_path, host_path=it.host_path, read_only=it.read_only)
            for it in grant.mounts
        ],
        devices=[
            pb.DeviceSpec(container_path=it.container_path, host_path=it.host_path, permissions=it.permissions)
            for it in grant.devices
        ],
        annotations=grant.annotations,
        cdi_devices=[pb.CDIDevice(name=name) for name in grant.cdi_devices],
    )
