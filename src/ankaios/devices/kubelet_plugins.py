"""Offers the devices of this node to a kubelet, as one device plugin for each device and each configuration.

Input: changes of devices, and calls of the kubelet. Output: plugins that are started, refreshed and ended, and claims
in the ledger. Loaded only if the agent runs beside a kubelet, which then allocates all devices of the node.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Unavailable
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.allocation import (
    Assignment,
    Denied,
    allocate_configuration,
    allocate_instance,
    changes_of,
    preferred_ids,
)
from ankaios.devices.core.grants import grants_for, merge_grants
from ankaios.devices.core.node_devices import DeviceChanges, NodeDevices
from ankaios.devices.core.resource_views import AdvertisedList, configuration_devices, instance_devices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotConflict
from ankaios.devices.kubelet_registration import PluginHost
from ankaios.devices.plugin_service import DevicePluginBehaviour, Requests
from ankaios.devices.pod_claims import PodClaims
from ankaios.devices.slot_allocator import ServerUnreachable, SlotAllocator

ATTEMPTS = 5
ALLOCATE_SECONDS = 10.0  # the kubelet admits no other pod in the meantime
PLUGIN_FOLDER = "device-plugins"


class AllocationDenied(Unavailable):
    """The requested ids cannot be allocated now."""


class NodeDevicePlugin(DevicePluginBehaviour, ABC):
    """The part that both kinds of plugin share; `target` is an instance or a configuration."""

    by_configuration: bool

    def __init__(self, node: NodeDevices, allocator: SlotAllocator, claims: PodClaims, target: str) -> None:
        self._node = node
        self._allocator = allocator
        self._claims = claims
        self._target = target

    @property
    def resource(self) -> str:
        return DEFAULT_RESOURCE_PREFIX + self._target

    @abstractmethod
    def exists(self) -> bool: ...

    @abstractmethod
    def _assign(self, requests: Requests) -> list[Assignment] | Denied: ...

    async def allocate(self, requests: Requests) -> list[DeviceGrant]:
        """Claim the slots behind these ids, and write the claims to disk before they are used.

        Ids that are claimed already only get their grant.
        """
        try:
            async with asyncio.timeout(ALLOCATE_SECONDS):
                found = await self._claim(requests)
        except TimeoutError as error:
            raise AllocationDenied(f"not settled with the server within {ALLOCATE_SECONDS:.0f} s") from error
        except ServerUnreachable as fault:
            raise AllocationDenied(str(fault)) from fault
        granted = [self._node.granted_devices(self.resource, assignment) for assignment in found]
        return [merge_grants(grants_for(devices), None)[0] for devices in granted]

    async def _claim(self, requests: Requests) -> Sequence[Assignment]:
        """After a conflict the ledger is up to date, and other slots may be free."""
        reason = ""
        for _ in range(ATTEMPTS):
            found = self._assign(requests)
            if isinstance(found, Denied):
                raise AllocationDenied(found.reason)
            changes = changes_of(found, self._node.node, by_configuration=self.by_configuration)
            self._claims.note_allocated(it.slot for it in changes)
            new = {it.slot: it.claim for it in changes if self._node.ledger.claim(it.slot) is None}
            try:
                await self._allocator.claim(changes)
                await self._record(new)
                return found
            except SlotConflict as conflict:
                reason = str(conflict)
        raise AllocationDenied(f"other claims were first {ATTEMPTS} times, the last time: {reason}")

    async def _record(self, new: Mapping[Slot, Claim]) -> None:
        """A claim that cannot be written, or whose caller does not wait any longer, is released."""
        try:
            await self._claims.save()
        except BaseException as error:
            self._allocator.release(new)
            if isinstance(error, Unavailable):
                raise AllocationDenied(str(error)) from error
            raise


class InstanceDevicePlugin(NodeDevicePlugin):
    """One device: its ids are its slots. [impl->akri~instance-level-resource~1]"""

    by_configuration = False

    def exists(self) -> bool:
        return self._target in self._node.ledger

    def advertised(self) -> AdvertisedList:
        return instance_devices(self._node.ledger, self._target, self._node.node)

    def preferred(self, available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
        """Free slots first; then slots of this node that the kubelet considers free, because their pod has ended."""
        usable = [device.id for device in self.advertised() if device.healthy and device.id in set(available)]
        taken = {str(slot) for slot in self._node.ledger.claims(self._target)}
        ids = dict.fromkeys([*must_include, *sorted(usable, key=lambda id_: id_ in taken)])
        return list(ids)[:size]

    def _assign(self, requests: Requests) -> list[Assignment] | Denied:
        return allocate_instance(self._node.ledger, self._target, self._node.node, requests)


class ConfigurationDevicePlugin(NodeDevicePlugin):
    """Any device of a configuration: the slots behind its ids are chosen when they are allocated.

    [impl->akri~configuration-level-resource~1]
    """

    by_configuration = True

    def exists(self) -> bool:
        return self._target in self._node.configurations

    def advertised(self) -> AdvertisedList:
        if not self.exists():
            return ()
        return configuration_devices(self._node.ledger, self._target, self._node.node, self._is_distinct())

    def preferred(self, available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
        ledger, node, distinct = self._node.ledger, self._node.node, self._is_distinct()
        return preferred_ids(ledger, self._target, node, available, must_include, size, distinct=distinct)

    def _assign(self, requests: Requests) -> list[Assignment] | Denied:
        ledger, node, distinct = self._node.ledger, self._node.node, self._is_distinct()
        return allocate_configuration(ledger, self._target, node, requests, distinct=distinct)

    def _is_distinct(self) -> bool:
        configuration = self._node.configurations.get(self._target)
        return configuration is None or configuration.distinct


class KubeletPlugins:
    def __init__(self, node: NodeDevices, allocator: SlotAllocator, claims: PodClaims, kubelet_dir: Path) -> None:
        self._node = node
        self._allocator = allocator
        self._claims = claims
        self._host = PluginHost(kubelet_dir / PLUGIN_FOLDER)

    async def run(self) -> None:
        """Own the plugins until cancelled."""
        self.changed(self._node.known())
        await self._host.run()

    def changed(self, changes: DeviceChanges) -> None:
        """Start, refresh or end the plugins of these devices and configurations."""
        for name in changes.instances:
            self._sync(InstanceDevicePlugin(self._node, self._allocator, self._claims, name))
        for name in changes.configurations:
            self._sync(ConfigurationDevicePlugin(self._node, self._allocator, self._claims, name))

    def send_list(self, resource: str) -> None:
        """Send the list of a resource though it is the same, upon which the kubelet writes its whole checkpoint.

        If the resource is gone with its device, the list of another one has the same effect.
        """
        offered = resource if resource in self._host else next(iter(self._host.resources()), resource)
        self._host.refresh(offered, even_if_same=True)

    def _sync(self, plugin: NodeDevicePlugin) -> None:
        if not plugin.exists():
            self._host.remove(plugin.resource)
        elif plugin.resource in self._host:
            self._host.refresh(plugin.resource)
        else:
            self._host.add(plugin)
