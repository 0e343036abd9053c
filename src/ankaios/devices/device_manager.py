"""What a kubelet does with devices: it chooses them for workloads and asks their plugins to allocate.

In: the wishes of workloads, and the plugins that registered, ours and those of others. Out: what each plugin gives for
a container. Owned: which device id is used by which workload.
"""

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message
from msgspec import Struct

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.common.errors import Unavailable
from ankaios.devices.core.extended_resource import pick
from ankaios.devices.core.grants import checked
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.devices.plugin_service import ALLOCATE, OWNER_HEADER, PRE_START, PREFERRED
from ankaios.devices.registered_plugins import ENDPOINT_GRACE_SECONDS, Changed, Plugin, RegisteredPlugins
from ankaios.grpc.wire_format import CallFailed

ALLOCATE_SECONDS = 30.0
PRE_START_SECONDS = 30.0

A = TypeVar("A", bound=Message)

log = logging.getLogger(__name__)


class PluginFailed(Unavailable):
    """A plugin refused or did not answer; the text says which and why."""


class Count(Struct, frozen=True):
    """What a node says of a resource."""

    capacity: int
    allocatable: int
    allocated: int


class DeviceManager:
    """`changed` is called when a plugin comes or goes, tells another list, or its devices are used otherwise."""

    def __init__(
        self,
        folder: Path,
        changed: Changed,
        grace: float = ENDPOINT_GRACE_SECONDS,
        listener: socket.socket | None = None,
    ) -> None:
        """`listener`: the plugin folder is open already."""
        self.folder = folder
        self._changed = changed
        self._plugins = RegisteredPlugins(folder, changed, grace, listener)
        self._used: dict[str, dict[str, str]] = {}  # resource -> id -> owner

    async def run(self, ready: asyncio.Event) -> None:
        """Serve registrations until cancelled."""
        await self._plugins.run(ready)

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
        return self._plugins.resources()

    def count(self, resource: str) -> Count:
        plugin = self._plugins.get(resource)
        devices = plugin.devices if plugin else {}
        return Count(len(devices), sum(devices.values()), len(self._used.get(resource, {})))

    def free(self, resource: str) -> int:
        return len(self._free(resource))

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

    async def _preferred(self, plugin: Plugin, free: Sequence[str], quantity: int) -> Sequence[str]:
        wanted = pb.ContainerPreferredAllocationRequest(available_deviceIDs=free, allocation_size=quantity)
        request = pb.PreferredAllocationRequest(container_requests=[wanted])
        try:
            response = await plugin.channel.unary(
                PREFERRED, request, pb.PreferredAllocationResponse, time_limit=ALLOCATE_SECONDS
            )
            return list(response.container_responses[0].deviceIDs)
        except (CallFailed, IndexError) as error:
            log.info("the device plugin for '%s' has no preference: %s", plugin.resource, error)
            return ()

    def mark(self, resource: str, ids: Sequence[str], owner: str) -> None:
        self._used.setdefault(resource, {}).update(dict.fromkeys(ids, owner))
        self._changed(resource, False)

    def unmark(self, resource: str, ids: Sequence[str], owner: str) -> None:
        used = self._used.get(resource, {})
        for id_ in ids:
            if used.get(id_) == owner:
                del used[id_]
        if not used:
            self._used.pop(resource, None)
        self._changed(resource, False)

    async def allocate(self, resource: str, ids: Sequence[str], owner: str) -> DeviceGrant:
        """One call for one container, as a kubelet does it; the first answer counts."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        about = {OWNER_HEADER: owner}
        response = await self._ask(resource, ALLOCATE, request, pb.AllocateResponse, ALLOCATE_SECONDS, about)
        if not response.container_responses:
            raise PluginFailed(f"cannot allocate '{resource}': the plugin gave no answer for the container")
        try:
            return checked(grant_from_pb(response.container_responses[0]))
        except ValueError as error:
            raise PluginFailed(f"cannot use what the plugin of '{resource}' gives: {error}") from error

    async def pre_start(self, resource: str, ids: Sequence[str]) -> None:
        """Before every start of a container, for plugins that want it."""
        if self._connected(resource).options.pre_start_required:
            request = pb.PreStartContainerRequest(devices_ids=ids)
            await self._ask(resource, PRE_START, request, pb.PreStartContainerResponse, PRE_START_SECONDS)

    async def _ask(
        self,
        resource: str,
        method: str,
        request: Message,
        answer: type[A],
        seconds: float,
        about: Mapping[str, str] = {},
    ) -> A:
        try:
            channel = self._connected(resource).channel
            return await channel.unary(method, request, answer, time_limit=seconds, metadata=about)
        except CallFailed as failure:
            raise PluginFailed(f"cannot allocate '{resource}': {failure.reason}") from failure

    def _connected(self, resource: str) -> Plugin:
        plugin = self._plugins.get(resource)
        if plugin is None or not plugin.connected:
            raise PluginFailed(f"cannot allocate '{resource}': its device plugin is away")
        return plugin


def grant_from_pb(message: pb.ContainerAllocateResponse) -> DeviceGrant:
    return DeviceGrant(
        envs=dict(sorted(message.envs.items())),
        mounts=tuple(DeviceMount(it.container_path, it.host_path, it.read_only) for it in message.mounts),
        devices=tuple(DeviceNode(it.container_path, it.host_path, it.permissions or "rwm") for it in message.devices),
        annotations=dict(sorted(message.annotations.items())),
        cdi_devices=tuple(it.name for it in message.cdi_devices),
    )
