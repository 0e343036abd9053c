"""Reports changes of devices to the server, and wakes workloads that wait for devices.

Input: what changed. Output: one report for all changes of one turn of the event loop, and the workloads for which they
make a difference.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.node_devices import DeviceChanges, NodeDevices
from ankaios.devices.core.node_reports import NodeReports
from ankaios.devices.core.pending_claims import PendingClaims
from ankaios.devices.foreign_devices import ForeignDevices


class DeviceReporter:
    """`send` passes a message to the server, `wake` makes a workload claim its devices again."""

    def __init__(
        self,
        node: NodeDevices,
        foreign: ForeignDevices,
        pending: PendingClaims,
        send: Callable[[grpc.ToServer], None],
        wake: Callable[[str], None],
    ) -> None:
        self._node = node
        self._reports = NodeReports(node, _wall_clock)
        self._foreign = foreign
        self._pending = pending
        self._send = send
        self._wake = wake
        self._unreported = DeviceChanges()
        self._unreported_foreign: set[str] = set()
        self._changed: set[str] = set()  # resources whose waiting workloads are not checked yet
        self._registered: set[str] = set()
        self._scheduled = False

    def changed(self, changes: DeviceChanges) -> None:
        if changes:
            self._unreported.instances |= changes.instances
            self._unreported.configurations |= changes.configurations
            self._schedule(DEFAULT_RESOURCE_PREFIX + name for name in changes.instances | changes.configurations)

    def plugin_changed(self, resource: str, registered: bool) -> None:
        if not self._node.is_own(resource):
            self._unreported_foreign.add(resource)
        if registered:
            self._registered.add(resource)
        self._schedule([resource])

    def retry_failed(self) -> None:
        """Wake the workloads whose claims failed; nothing else signals that the cause is gone."""
        for owner in self._pending.take_failed():
            self._wake(owner)

    def _schedule(self, resources: Iterable[str]) -> None:
        self._changed.update(resources)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        self._scheduled = False
        if self._unreported or self._unreported_foreign:
            report = self._reports.report(self._unreported)
            self._add_foreign(report, self._unreported_foreign)
            self._unreported, self._unreported_foreign = DeviceChanges(), set()
            self._send(grpc.ToServer(deviceReport=report))
        changed, registered = self._changed, self._registered
        self._changed, self._registered = set(), set()
        for owner in self._pending.changed(changed, registered):
            self._wake(owner)

    def report_all(self) -> None:
        """The complete report at the start of a session."""
        self._unreported, self._unreported_foreign = DeviceChanges(), set()
        report = self._reports.complete_report()
        self._add_foreign(report, (name for name in self._foreign.resources() if not self._node.is_own(name)))
        self._send(grpc.ToServer(deviceReport=report))

    def _add_foreign(self, report: grpc.DeviceReport, resources: Iterable[str]) -> None:
        known = set(self._foreign.resources())
        for name in sorted(resources):
            if name in known:
                report.resources.append(self._foreign.resource(name))
            else:
                report.goneResources.append(name)


def _wall_clock(loop_time: float) -> float:
    return time.time() - asyncio.get_running_loop().time() + loop_time
