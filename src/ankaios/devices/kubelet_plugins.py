"""Offers the devices of this node to a kubelet, as one device plugin for each device and each configuration.

Input: changes of devices, and calls of the kubelet. Output: plugins that are started, refreshed and ended, and claims
in the ledger. Loaded only if the agent runs beside a kubelet, which then allocates all devices of the node.
"""

import asyncio
from collections.abc import Sequence
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
from ankaios.devices.core.extended_resource import pick_ids
from ankaios.devices.core.node_devices import DeviceChanges, NodeDevices
from ankaios.devices.core.resource_views import AdvertisedList, configuration_devices, instance_devices
from ankaios.devices.core.slot_ledger import SlotConflict
from ankaios.devices.kubelet_registration import PluginHost
from ankaios.devices.plugin_service import ConfigurationDevicePlugin, InstanceDevicePlugin, Requests
from ankaios.devices.slot_allocator import ServerUnreachable, SlotAllocator

ATTEMPTS = 5
ALLOCATE_SECONDS = 10.0  # the kubelet admits no other pod in the meantime
PLUGIN_FOLDER = "device-plugins"


class AllocationDenied(Unavailable):
    """The requested ids cannot be allocated now."""


class KubeletPlugins:
    def __init__(self, node: NodeDevices, allocator: SlotAllocator, kubelet_dir: Path) -> None:
        self._node = node
        self._allocator = allocator
        self._host = PluginHost(kubelet_dir / PLUGIN_FOLDER)

    async def run(self) -> None:
        """Own the plugins until cancelled."""
        self.changed(self._node.known())
        await self._host.run()

    def changed(self, changes: DeviceChanges) -> None:
        """Start, refresh or end the plugins of these devices and configurations.

        [impl->akri~instance-level-resource~1]
        [impl->akri~configuration-level-resource~1]
        """
        for name in changes.instances:
            self._sync(InstanceDevicePlugin(self, name), name in self._node.ledger)
        for name in changes.configurations:
            self._sync(ConfigurationDevicePlugin(self, name), name in self._node.configurations)

    def _sync(self, behaviour: InstanceDevicePlugin | ConfigurationDevicePlugin, exists: bool) -> None:
        if not exists:
            self._host.remove(behaviour.resource)
        elif behaviour.resource in self._host:
            self._host.refresh(behaviour.resource)
        else:
            self._host.add(behaviour)

    # --- calls of the kubelet; `target` is an instance or a configuration ---

    def advertised(self, target: str, by_configuration: bool) -> AdvertisedList:
        ledger, node = self._node.ledger, self._node.node
        if not by_configuration:
            return instance_devices(ledger, target, node)
        if target not in self._node.configurations:
            return ()
        return configuration_devices(ledger, target, node, self._is_distinct(target))

    def preferred(
        self, target: str, by_configuration: bool, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> list[str]:
        if not by_configuration:
            return pick_ids(available, must_include, size)
        ledger, node = self._node.ledger, self._node.node
        distinct = self._is_distinct(target)
        return preferred_ids(ledger, target, node, available, must_include, size, distinct=distinct)

    async def allocate(self, target: str, by_configuration: bool, requests: Requests) -> list[DeviceGrant]:
        """Claim the slots behind these ids; ids that are claimed already only get their grant."""
        try:
            async with asyncio.timeout(ALLOCATE_SECONDS):
                found = await self._claim(target, by_configuration, requests)
        except TimeoutError as error:
            raise AllocationDenied(f"not settled with the server within {ALLOCATE_SECONDS:.0f} s") from error
        except ServerUnreachable as fault:
            raise AllocationDenied(str(fault)) from fault
        return [self._node.grant(DEFAULT_RESOURCE_PREFIX + target, assignment) for assignment in found]

    async def _claim(self, target: str, by_configuration: bool, requests: Requests) -> Sequence[Assignment]:
        """After a conflict the ledger is up to date, and other slots may be free."""
        reason = ""
        for _ in range(ATTEMPTS):
            found = self._assign(target, by_configuration, requests)
            if isinstance(found, Denied):
                raise AllocationDenied(found.reason)
            try:
                await self._allocator.claim(changes_of(found, self._node.node, by_configuration=by_configuration))
                return found
            except SlotConflict as conflict:
                reason = str(conflict)
        raise AllocationDenied(f"other claims were first {ATTEMPTS} times, the last time: {reason}")

    def _assign(self, target: str, by_configuration: bool, requests: Requests) -> list[Assignment] | Denied:
        ledger, node = self._node.ledger, self._node.node
        if not by_configuration:
            return allocate_instance(ledger, target, node, requests)
        return allocate_configuration(ledger, target, node, requests, distinct=self._is_distinct(target))

    def _is_distinct(self, configuration: str) -> bool:
        known = self._node.configurations.get(configuration)
        return known is None or known.distinct
