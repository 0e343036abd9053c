"""The devices of one node: what it sees, what of it is in use, and what it offers.

In come configurations and truths of the server, lists of discovery handlers, claims and releases; out goes what was
touched by them, from which lists, reports and wake-ups follow. Owned: the node's ledger. It is the truth for local
devices, and a copy of the server's for shared ones.
"""

from collections.abc import Iterable, Mapping, Sequence

from ankaios.common.dataclass import dataclass, field
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.allocation import Denied
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.device_messages import change_to_pb, claims_from_pb, instance_to_pb
from ankaios.devices.core.inventory import Changes, Instance, Inventory
from ankaios.devices.core.resource_views import (
    AdvertisedList,
    configuration_counts,
    configuration_devices,
    instance_devices,
)
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotLedger
from ankaios.devices.core.workload_plan import Plan, Wish, plan
from ankaios.devices.discovery.base import DiscoveredDevice


@dataclass(slots=True)
class Touched:
    """What a step changed. `vanished` are devices gone for good, `taken_away` are claims of this node that the server
    gave to somebody else or forgot, `refused` are texts for people."""

    instances: set[str] = field(default_factory=set)
    configurations: set[str] = field(default_factory=set)
    vanished: list[Instance] = field(default_factory=list)
    taken_away: dict[Slot, Claim] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    quiet: bool = False  # an attempt was undone: nobody need try again because of it

    def __bool__(self) -> bool:
        return bool(self.instances or self.configurations)


class NodeDevices:
    def __init__(self, node: str) -> None:
        self.node = node
        self.ledger = SlotLedger()
        self.configurations: dict[str, Configuration] = {}
        self._inventory = Inventory(node)
        self._shared: set[str] = set()
        self._told: set[str] = set()  # shared devices of which the server told the slots
        self._pending: dict[Slot, Claim] = {}  # claims the server has not yet granted
        self._reported: set[str] = set()

    # --- configurations and devices ---

    def configure(self, configurations: Mapping[str, Configuration]) -> Touched:
        """These and no others are to be discovered."""
        touched = Touched()
        for name in self.configurations.keys() - configurations.keys():
            self._note(touched, self._inventory.remove(name))
            touched.configurations.add(name)
        for name, configuration in configurations.items():
            if self.configurations.get(name) != configuration:
                self._inventory.configure(configuration)
                touched.configurations.add(name)
        self.configurations = dict(configurations)
        for instance in self._inventory.instances():
            if instance.configuration in touched.configurations:
                self._open(instance)
                touched.instances.add(instance.name)
        return touched

    def observe(
        self, configuration: str, source: str, devices: Iterable[DiscoveredDevice], shared: bool, now: float
    ) -> Touched:
        return self._note(Touched(), self._inventory.observe(configuration, source, devices, shared, now))

    def expire(self, now: float) -> Touched:
        return self._note(Touched(), self._inventory.expire(now))

    def next_deadline(self) -> float | None:
        return self._inventory.next_deadline()

    def remember(self, instance: Instance, capacity: int, claims: Mapping[Slot, Claim]) -> None:
        """A device in use from before a restart: it is there until somebody looked and did not see it."""
        self._inventory.remember(instance)
        if instance.shared:
            self._shared.add(instance.name)
        self.ledger.open(instance.name, instance.configuration, capacity, online=False)
        self.ledger.apply([SlotChange(slot, claim) for slot, claim in claims.items()], restore=True)

    def _note(self, touched: Touched, changes: Changes) -> Touched:
        for name in (*changes.appeared, *changes.changed, *changes.returned, *changes.offline):
            if instance := self._inventory.get(name):
                self._open(instance)
                touched.instances.add(name)
                touched.configurations.add(instance.configuration)
        for instance in changes.vanished:
            self._told.discard(instance.name)
            self._forget_others(instance.name)
            self.ledger.close(instance.name)
            touched.instances.add(instance.name)
            touched.configurations.add(instance.configuration)
        touched.vanished += changes.vanished
        touched.refused += changes.refused
        return touched

    def _forget_others(self, name: str) -> None:
        """What other nodes do with a device that is not seen here is not told any more."""
        claims = self.ledger.claims(name).items()
        self.ledger.apply([SlotChange(slot, it, takes=False) for slot, it in claims if it.node != self.node])

    def _open(self, instance: Instance) -> None:
        """A shared device cannot be given out before the server said who uses it."""
        if instance.shared:
            self._shared.add(instance.name)
        configuration = self.configurations[instance.configuration]
        known = not instance.shared or instance.name in self._told
        online = known and self._inventory.is_online(instance.name)
        self.ledger.open(instance.name, instance.configuration, configuration.capacity, online)

    # --- the server's truth about shared devices ---

    def session_began(self) -> Touched:
        """What is known of shared devices may be old: nothing of them is given out before the server told it anew."""
        touched = Touched()
        self._told.clear()
        for instance in self._inventory.instances():
            if instance.shared and self.ledger.is_online(instance.name):
                self.ledger.set_online(instance.name, False)
                touched.instances.add(instance.name)
                touched.configurations.add(instance.configuration)
        return touched

    def awaits_server(self, configuration: str) -> bool:
        """Whether devices are there of which the server has not yet said who uses them."""
        names = (name for name in self.ledger.instances(configuration) if self._inventory.is_online(name))
        return any(name in self._shared and name not in self._told for name in names)

    def learn(self, instances: Mapping[str, base.DeviceInstance]) -> Touched:
        """The server tells who uses a shared device."""
        touched = Touched()
        for name, message in instances.items():
            instance = self._inventory.get(name)
            if instance is None or not instance.shared or instance.configuration not in self.configurations:
                continue
            truth = claims_from_pb(name, message)
            self._told.add(name)
            self._open(instance)
            self._overwrite(name, truth, touched)
            touched.instances.add(name)
            touched.configurations.add(instance.configuration)
        return touched

    def _overwrite(self, name: str, truth: Mapping[Slot, Claim], touched: Touched) -> None:
        held = self.ledger.claims(name)
        ended = {slot: claim for slot, claim in held.items() if truth.get(slot) != claim}
        ended |= self._moved(name, truth)
        self.ledger.apply([SlotChange(slot, claim, takes=False) for slot, claim in ended.items()])
        self.ledger.apply([SlotChange(slot, claim) for slot, claim in truth.items()], restore=True)
        touched.taken_away |= {
            slot: claim for slot, claim in ended.items() if claim.node == self.node and self._pending.get(slot) != claim
        }

    def _moved(self, name: str, truth: Mapping[Slot, Claim]) -> dict[Slot, Claim]:
        """A virtual id has one slot; if it turns up here, what was told of it elsewhere is history."""
        configuration = self.ledger.configuration(name)
        moved: dict[Slot, Claim] = {}
        for slot, claim in truth.items():
            other = self.ledger.virtual_slot(configuration, claim.node, claim.virtual_id or "")
            if other is not None and other != slot and (known := self.ledger.claim(other)) is not None:
                moved[other] = known
        return moved

    # --- claims ---

    def wish(self, resource: str, quantity: int) -> Wish | None:
        """None if the resource is none of ours."""
        if not resource.startswith(DEFAULT_RESOURCE_PREFIX):
            return None
        target = resource.removeprefix(DEFAULT_RESOURCE_PREFIX)
        if target in self.ledger:
            return Wish(resource, target, quantity, by_configuration=False)
        if target in self.configurations:
            return Wish(resource, target, quantity, True, self.configurations[target].distinct)
        return None

    def plan(self, wishes: Sequence[Wish], owner: str) -> Plan | Denied:
        return plan(self.ledger, wishes, self.node, owner)

    def begin(self, changes: Sequence[SlotChange]) -> tuple[list[SlotChange], list[SlotChange]]:
        """Take the slots here. Returns what is settled with that, and what the server has to be asked for."""
        applied = self.ledger.apply(changes)
        asked = [change for change in applied if change.slot.instance in self._shared]
        self._pending |= {change.slot: change.claim for change in asked if change.takes}
        return [change for change in applied if change not in asked], asked

    def settle(self, changes: Iterable[SlotChange], granted: bool) -> None:
        """The server answered, or never will."""
        done = list(changes)
        for change in done:
            self._pending.pop(change.slot, None)
        if granted:
            self.ledger.apply(done, restore=True)
        else:
            self.undo(done)

    def undo(self, changes: Iterable[SlotChange]) -> None:
        self.ledger.apply([change.reversed() for change in changes])

    def end(self, claims: Mapping[Slot, Claim]) -> list[SlotChange]:
        """Let go. Returns what the server has to be told."""
        ended = self.ledger.apply([SlotChange(slot, claim, takes=False) for slot, claim in claims.items()])
        return [change for change in ended if change.slot.instance in self._shared]

    def touched_by(self, slots: Iterable[Slot]) -> Touched:
        touched = Touched(instances={slot.instance for slot in slots})
        touched.configurations = {name.rpartition("-")[0] for name in touched.instances}
        return touched

    # --- what is so ---

    def instance(self, name: str) -> Instance | None:
        return self._inventory.get(name)

    def known(self) -> Touched:
        """Everything there is, remembered devices included."""
        return Touched({instance.name for instance in self._inventory.instances()}, set(self.configurations))

    def advertised(self, target: str, by_configuration: bool) -> AdvertisedList:
        if not by_configuration:
            return instance_devices(self.ledger, target, self.node)
        configuration = self.configurations.get(target)
        if configuration is None:
            return ()
        return configuration_devices(self.ledger, target, self.node, configuration.distinct)

    def resource(self, target: str, by_configuration: bool) -> base.NodeResource | None:
        """What stands in the state of the node; None if there is no such resource any more."""
        if target not in (self.configurations if by_configuration else self.ledger):
            return None
        if by_configuration:
            distinct = self.configurations[target].distinct
            capacity, healthy, used = configuration_counts(self.ledger, target, self.node, distinct)
        else:
            listed = self.advertised(target, by_configuration)
            capacity, healthy = len(listed), sum(device.healthy for device in listed)
            used = len(self._own_claims(target))
        return base.NodeResource(
            name=DEFAULT_RESOURCE_PREFIX + target, capacity=capacity, allocatable=healthy, allocated=used
        )

    def _own_claims(self, instance: str) -> list[Slot]:
        claims = self.ledger.claims(instance).items()
        return [slot for slot, claim in claims if claim.node == self.node and claim.virtual_id is None]

    # --- reports ---

    def report(self, touched: Touched) -> grpc.DeviceReport | None:
        """What of the touched things the server should know."""
        report = grpc.DeviceReport()
        self._add_instances(report, sorted(touched.instances))
        for name in sorted(touched.instances):
            self._add_resource(report, name, by_configuration=False)
        for name in sorted(touched.configurations):
            self._add_resource(report, name, by_configuration=True)
        return report if touched else None

    def complete_report(self) -> grpc.DeviceReport:
        """Everything, for a server that knows nothing of this node."""
        self._reported.clear()
        known = self.known()
        report = self.report(known) or grpc.DeviceReport()
        report.complete = True
        for slot, claim in self.ledger.claims_on(self.node).items():
            if slot.instance in self._shared - known.instances:
                report.held.append(change_to_pb(SlotChange(slot, claim)))
        return report

    def _add_instances(self, report: grpc.DeviceReport, names: Iterable[str]) -> None:
        for name in names:
            instance = self._inventory.get(name)
            if instance is not None and name in self.ledger:
                report.seen[name].CopyFrom(self._message(instance))
                self._reported.add(name)
            elif name in self._reported:
                report.gone.append(name)
                self._reported.discard(name)

    def _message(self, instance: Instance) -> base.DeviceInstance:
        configuration = self.configurations.get(instance.configuration)
        online = self._inventory.is_online(instance.name)
        message = instance_to_pb(instance, self.node, configuration.broker_properties if configuration else {}, online)
        message.capacity = self.ledger.capacity(instance.name)
        usage, owners = self.ledger.usage(instance.name), self.ledger.owners(instance.name)
        for slot in map(str, self._pending):
            usage.pop(slot, None)
            owners.pop(slot, None)
        message.deviceUsage.values.update(usage)
        message.slotOwners.values.update(owners)
        return message

    def _add_resource(self, report: grpc.DeviceReport, target: str, by_configuration: bool) -> None:
        resource = self.resource(target, by_configuration)
        if resource is not None:
            report.resources.append(resource)
        else:
            report.goneResources.append(DEFAULT_RESOURCE_PREFIX + target)
