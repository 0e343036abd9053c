"""Devices of foreign plugins, which register with this agent as they would with a kubelet.

Input: requests of workloads, and the plugins that registered. Output: the grants of the plugins. Owns which device id
of a plugin is used by which workload.
"""

import asyncio
import logging
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Unavailable
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.devices.core.claim_plan import ResourceNeed, shortage
from ankaios.devices.core.extended_resource import pick_ids
from ankaios.devices.core.grants import check_grant
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.devices.plugin_api import ALLOCATE, PRE_START, PREFERRED, grant_from_pb
from ankaios.devices.registered_plugins import ENDPOINT_GRACE_SECONDS, Changed, Plugin, RegisteredPlugins
from ankaios.grpc.wire_format import CallFailed

ALLOCATE_SECONDS = 30.0
PRE_START_SECONDS = 30.0

A = TypeVar("A", bound=Message)

log = logging.getLogger(__name__)


class ForeignDevices:
    """`changed` is called when a plugin registers, is lost or sends another list, and when its devices are claimed."""

    def __init__(
        self,
        folder: Path,
        changed: Changed,
        grace: float = ENDPOINT_GRACE_SECONDS,
        listener: socket.socket | None = None,
    ) -> None:
        """`listener`: the registration socket of the folder, if it is open already."""
        self.folder = folder
        self._changed = changed
        self._plugins = RegisteredPlugins(folder, changed, grace, listener)
        self._used: dict[str, dict[str, str]] = {}  # resource -> id -> owner

    async def run(self, ready: asyncio.Event | None = None) -> None:
        """Serve registrations until cancelled."""
        await self._plugins.run(ready or asyncio.Event())

    # --- queries ---

    def resources(self) -> list[str]:
        return self._plugins.resources()

    def resource(self, name: str) -> base.NodeResource:
        """The resource as it appears in the state of the node."""
        plugin = self._plugins.get(name)
        devices = plugin.devices if plugin else {}
        allocated = len(self._used.get(name, {}))
        return base.NodeResource(
            name=name, capacity=len(devices), allocatable=sum(devices.values()), allocated=allocated
        )

    def are_healthy(self, resource: str, ids: Sequence[str]) -> bool:
        plugin = self._plugins.get(resource)
        return plugin is not None and plugin.connected and all(plugin.devices.get(id_, False) for id_ in ids)

    def shortage(self, needs: Iterable[ResourceNeed]) -> str | None:
        """What is missing for these needs."""
        wanted: dict[str, int] = {}
        for need in needs:
            if need.where:
                return f"waits for {need.description}: devices of a device plugin have no properties to select by"
            wanted[need.resource] = wanted.get(need.resource, 0) + need.quantity
        for resource, quantity in wanted.items():
            free = len(self._free(resource))
            if free < quantity:
                text = shortage(resource, quantity, self.resource(resource).allocatable, free)
                return "; ".join(filter(None, [text, self.outage(resource)]))
        return None

    def outage(self, resource: str) -> str | None:
        """Why the plugin of the resource cannot be used; None if it can."""
        plugin = self._plugins.get(resource)
        if plugin is None:
            return f"no device plugin for it is registered in '{self.folder}'"
        if not plugin.connected:
            return f"the device plugin '{plugin.endpoint}' is lost"
        return None if plugin.listed else f"the device plugin '{plugin.endpoint}' has not sent its list"

    def _free(self, resource: str) -> list[str]:
        used = self._used.get(resource, {})
        plugin = self._plugins.get(resource)
        return [id_ for id_, healthy in plugin.devices.items() if healthy and id_ not in used] if plugin else []

    # --- claims ---

    async def claim(self, resource: str, quantity: int, owner: str) -> list[str]:
        """Choose devices of a plugin and record them as used; [] if there are not enough.

        The preference of the plugin is a hint; only usable devices are chosen.
        """
        plugin = self._plugins.get(resource)
        free = self._free(resource)
        if plugin is None or len(free) < quantity:
            return []
        preferred: Sequence[str] = ()
        if plugin.options.get_preferred_allocation_available:
            preferred = await self._preferred(plugin, free, quantity)
        chosen = pick_ids(self._free(resource), preferred, quantity)
        self.restore(resource, chosen, owner)
        self._changed(resource, False)
        return chosen

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

    def restore(self, resource: str, ids: Sequence[str], owner: str) -> None:
        """Record that the workload uses these devices."""
        self._used.setdefault(resource, {}).update(dict.fromkeys(ids, owner))

    def holds(self, resource: str, ids: Sequence[str], owner: str) -> bool:
        """Whether the workload uses these devices."""
        used = self._used.get(resource, {})
        return all(used.get(id_) == owner for id_ in ids)

    def release(self, resource: str, ids: Sequence[str], owner: str) -> None:
        used = self._used.get(resource, {})
        released = [id_ for id_ in ids if used.get(id_) == owner]
        for id_ in released:
            del used[id_]
        if not used:
            self._used.pop(resource, None)
        if released:
            self._changed(resource, False)

    async def allocate(self, resource: str, ids: Sequence[str]) -> DeviceGrant:
        """One call for one container, as a kubelet does it; the first response is used."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        response = await self._call(resource, ALLOCATE, request, pb.AllocateResponse, ALLOCATE_SECONDS)
        if not response.container_responses:
            raise Unavailable(f"cannot allocate '{resource}': the plugin gave no answer for the container")
        grant = grant_from_pb(response.container_responses[0])
        try:
            check_grant(grant)
        except ValueError as error:
            raise Unavailable(f"cannot use what the plugin of '{resource}' gives: {error}") from error
        return grant

    async def pre_start(self, resource: str, ids: Sequence[str]) -> None:
        """Call PreStartContainer before each start of a container, if the plugin requires it."""
        if self._connected(resource).options.pre_start_required:
            request = pb.PreStartContainerRequest(devices_ids=ids)
            await self._call(resource, PRE_START, request, pb.PreStartContainerResponse, PRE_START_SECONDS)

    async def _call(self, resource: str, method: str, request: Message, answer: type[A], seconds: float) -> A:
        plugin = self._connected(resource)
        try:
            return await plugin.channel.unary(method, request, answer, time_limit=seconds)
        except CallFailed as failure:
            text = f"cannot allocate '{resource}': the device plugin '{plugin.endpoint}' answers: {failure.reason}"
            raise Unavailable(text) from failure

    def _connected(self, resource: str) -> Plugin:
        plugin = self._plugins.get(resource)
        if plugin is None or not plugin.connected:
            raise Unavailable(f"cannot allocate '{resource}': {self.outage(resource)}")
        return plugin
