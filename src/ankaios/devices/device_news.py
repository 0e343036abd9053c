"""Passes on what changed: to the plugins that advertise it, to the server, and to those who wait for devices.

In: what was touched. Out: plugins started, refreshed and ended; one report for all changes of a moment, and a word to
those who wait and for whom they make a difference. Before `begin` nothing is passed on.
"""

import asyncio
from collections.abc import Callable, Iterable

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.node_devices import NodeDevices, Touched
from ankaios.devices.core.node_reports import NodeReports
from ankaios.devices.core.waiting_room import WaitingRoom
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.kubelet_registration import PluginHost
from ankaios.devices.plugin_service import ConfigurationDevicePlugin, Devices, InstanceDevicePlugin


class DeviceNews:
    """`send` and `wake` reach the server and a workload that should ask again."""

    def __init__(
        self,
        node: NodeDevices,
        manager: DeviceManager,
        plugins: PluginHost,
        devices: Devices,
        room: WaitingRoom,
        send: Callable[[grpc.ToServer], None],
        wake: Callable[[str], None],
    ) -> None:
        self._node = node
        self._reports = NodeReports(node)
        self._manager = manager
        self._plugins = plugins
        self._devices = devices
        self._room = room
        self._send = send
        self._wake = wake
        self._touched = Touched()  # not reported yet
        self._foreign: set[str] = set()  # likewise, resources of others
        self._changed: set[str] = set()  # resources of which those who wait are not told yet
        self._came: set[str] = set()
        self._began = False
        self._planned = False

    def begin(self) -> None:
        """With plugins for what is known from before a restart."""
        self._began = True
        self.note(self._node.known())

    def note(self, touched: Touched) -> None:
        if touched and self._began:
            self._sync_plugins(touched)
            self._touched.instances |= touched.instances
            self._touched.configurations |= touched.configurations
            names = touched.instances | touched.configurations
            self._plan(DEFAULT_RESOURCE_PREFIX + name for name in names)

    def plugin_changed(self, resource: str, came: bool) -> None:
        """Lists of our own plugins are computed from what passes through `note`; of them only the plugin is news."""
        if not self._began:
            return
        if resource not in self._plugins:
            self._foreign.add(resource)
        elif self._manager.has_lost(resource):
            self._plugins.register_again(resource)
        elif not came:
            return
        if came:
            self._came.add(resource)
        self._plan([resource])

    def try_again(self) -> None:
        """For those whose try failed for a reason that sends no word when it is over."""
        for owner in self._room.failed():
            self._wake(owner)

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

    # --- reports and wake-ups ---

    def _plan(self, resources: Iterable[str]) -> None:
        self._changed.update(resources)
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._planned = False
        if self._touched or self._foreign:
            report = self._reports.report(self._touched)
            self._add_foreign(report, self._foreign)
            self._touched, self._foreign = Touched(), set()
            self._send(grpc.ToServer(deviceReport=report))
        changed, came = self._changed, self._came
        self._changed, self._came = set(), set()
        for owner in self._room.changed(changed, came):
            self._wake(owner)

    def report_all(self) -> None:
        """For a server that knows nothing of this node."""
        self._touched, self._foreign = Touched(), set()
        report = self._reports.complete_report()
        self._add_foreign(report, (name for name in self._manager.resources() if name not in self._plugins))
        self._send(grpc.ToServer(deviceReport=report))

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
