"""Passes on what changed: to the plugins that advertise it, to the server, and to those who wait for devices.

In: what was touched. Out: plugins started, refreshed and ended; one report and one wake-up for all changes of a moment.
"""

import asyncio
from collections.abc import Callable, Iterable

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.node_devices import NodeDevices, Touched
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.kubelet_registration import PluginHost
from ankaios.devices.plugin_service import ConfigurationDevicePlugin, Devices, InstanceDevicePlugin


class DeviceNews:
    def __init__(self, node: NodeDevices, manager: DeviceManager, plugins: PluginHost, devices: Devices) -> None:
        self.send: Callable[[grpc.ToServer], None] = lambda message: None
        self.wake: Callable[[], None] = lambda: None
        self._node = node
        self._manager = manager
        self._plugins = plugins
        self._devices = devices
        self._touched = Touched()
        self._foreign: set[str] = set()
        self._wakes = False
        self._planned = False

    def begin(self) -> None:
        """Plugins for what is known from before a restart."""
        known = self._node.known()
        self._sync_plugins(known)

    def note(self, touched: Touched) -> None:
        if not touched:
            return
        self._sync_plugins(touched)
        self._touched.instances |= touched.instances
        self._touched.configurations |= touched.configurations
        self._wakes |= not touched.quiet
        self._plan()

    def plugin_changed(self, resource: str) -> None:
        if resource not in self._plugins:
            self._foreign.add(resource)
        elif self._manager.has_lost(resource):
            self._plugins.register_again(resource)
        self.wake_soon()

    def resources_used(self, resources: Iterable[str]) -> None:
        """Counts of devices that belong to plugins of others are known only here."""
        foreign = {resource for resource in resources if resource not in self._plugins}
        if foreign:
            self._foreign |= foreign
            self.wake_soon()

    def wake_soon(self) -> None:
        self._wakes = True
        self._plan()

    # --- plugins ---

    def _sync_plugins(self, touched: Touched) -> None:
        """Each device and each configuration has its plugin, and a plugin whose slots were touched has news.

        [impl->akri~instance-level-resource~1]
        [impl->akri~configuration-level-resource~1]
        """
        for name in touched.instances:
            self._sync(InstanceDevicePlugin(self._devices, name), name in self._node.ledger)
        for name in touched.configurations:
            self._sync(ConfigurationDevicePlugin(self._devices, name), name in self._node.configurations)

    def _sync(self, behaviour: InstanceDevicePlugin | ConfigurationDevicePlugin, exists: bool) -> None:
        resource = behaviour.resource
        if not exists:
            self._plugins.remove(resource)
        elif resource in self._plugins:
            self._plugins.refresh(resource)
        else:
            self._plugins.add(behaviour)

    # --- reports ---

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._planned = False
        touched, self._touched = self._touched, Touched()
        foreign, self._foreign = self._foreign, set()
        report = self._node.report(touched) or grpc.DeviceReport()
        self._add_foreign(report, foreign)
        if touched or foreign:
            self.send(grpc.ToServer(deviceReport=report))
        if self._wakes:
            self._wakes = False
            self.wake()

    def report_all(self) -> None:
        """For a server that knows nothing of this node."""
        self._touched, self._foreign = Touched(), set()
        report = self._node.complete_report()
        self._add_foreign(report, (name for name in self._manager.resources() if name not in self._plugins))
        self.send(grpc.ToServer(deviceReport=report))
        self.wake_soon()

    def _add_foreign(self, report: grpc.DeviceReport, resources: Iterable[str]) -> None:
        known = set(self._manager.resources())
        for name in sorted(resources):
            if name.startswith(DEFAULT_RESOURCE_PREFIX) and name not in known:
                continue  # one of ours that is gone, and reported so
            if name not in known:
                report.goneResources.append(name)
                continue
            count = self._manager.count(name)
            report.resources.append(
                base.NodeResource(
                    name=name, capacity=count.capacity, allocatable=count.allocatable, allocated=count.allocated
                )
            )
