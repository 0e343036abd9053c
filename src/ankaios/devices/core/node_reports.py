"""The reports of a node about its devices.

Input: what changed. Output: a report of exactly that, or of everything for a new session. Owns which devices were
reported, so that a device that is gone is reported as gone once.
"""

from collections.abc import Callable, Iterable

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.device_messages import change_to_pb, instance_to_pb
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.node_devices import DeviceChanges, NodeDevices
from ankaios.devices.core.resource_views import configuration_counts, instance_devices
from ankaios.devices.core.slot_ledger import SlotChange


class NodeReports:
    """`wall_clock` converts a time of the node's clock to seconds since 1970."""

    def __init__(self, node: NodeDevices, wall_clock: Callable[[float], float] = lambda time: time) -> None:
        self._node = node
        self._wall_clock = wall_clock
        self._reported: set[str] = set()
        # By name: since when it is offline, on both clocks. Converted once, because a report with another time would be
        # a change, and the server would inform all nodes about it.
        self._offline: dict[str, tuple[float, int]] = {}

    def report(self, changes: DeviceChanges) -> grpc.DeviceReport:
        report = grpc.DeviceReport()
        self._add_instances(report, sorted(changes.instances))
        for name in sorted(changes.instances):
            self._add_resource(report, name, by_configuration=False)
        for name in sorted(changes.configurations):
            self._add_resource(report, name, by_configuration=True)
        return report

    def complete_report(self) -> grpc.DeviceReport:
        self._reported.clear()
        report = self.report(self._node.known())
        report.complete = True
        report.held.extend(change_to_pb(SlotChange(*item)) for item in self._node.unseen_claims().items())
        return report

    def _add_instances(self, report: grpc.DeviceReport, names: Iterable[str]) -> None:
        for name in names:
            instance = self._node.instance(name)
            if instance is not None and name in self._node.ledger:
                report.seen[name].CopyFrom(self._message(instance))
                self._reported.add(name)
            elif (instance := self._node.lost(name)) is not None:
                report.seen[name].CopyFrom(self._message(instance))
                report.seen[name].lost = True
                self._reported.add(name)
            elif name in self._reported:
                report.gone.append(name)
                self._reported.discard(name)
                self._offline.pop(name, None)

    def _message(self, instance: Instance) -> base.DeviceInstance:
        """A claim that the server has not granted yet is not reported."""
        node, ledger = self._node, self._node.ledger
        properties = node.configured_properties(instance)
        message = instance_to_pb(instance, node.node, properties, node.is_seen(instance.name))
        message.capacity = ledger.capacity(instance.name)
        if (since := node.offline_since(instance.name)) is not None:
            message.offlineSinceMs = self._offline_since_ms(instance.name, since)
        usage, owners = ledger.usage(instance.name), ledger.owners(instance.name)
        for slot in map(str, node.shared.requested):
            usage.pop(slot, None)
            owners.pop(slot, None)
        message.deviceUsage.values.update(usage)
        message.slotOwners.values.update(owners)
        return message

    def _offline_since_ms(self, name: str, since: float) -> int:
        if (known := self._offline.get(name)) is None or known[0] != since:
            known = self._offline[name] = (since, int(self._wall_clock(since) * 1000))
        return known[1]

    def _add_resource(self, report: grpc.DeviceReport, target: str, by_configuration: bool) -> None:
        resource = node_resource(self._node, target, by_configuration)
        if resource is not None:
            report.resources.append(resource)
        else:
            report.goneResources.append(DEFAULT_RESOURCE_PREFIX + target)


def node_resource(node: NodeDevices, target: str, by_configuration: bool) -> base.NodeResource | None:
    """The resource as it appears in the state of the node; None if it does not exist any more."""
    if target not in (node.configurations if by_configuration else node.ledger):
        return None
    if by_configuration:
        distinct = node.configurations[target].distinct
        capacity, healthy, used = configuration_counts(node.ledger, target, node.node, distinct)
    else:
        listed = instance_devices(node.ledger, target, node.node)
        capacity, healthy = len(listed), sum(device.healthy for device in listed)
        claims = node.ledger.claims(target).values()
        used = sum(claim.node == node.node and claim.virtual_id is None for claim in claims)
    return base.NodeResource(
        name=DEFAULT_RESOURCE_PREFIX + target, capacity=capacity, allocatable=healthy, allocated=used
    )
