"""The devices of one node: what it sees, what of it is in use, and what it offers.

In come configurations and truths of the server, lists of discovery handlers, claims and releases; out goes what was
touched by them, from which lists, reports and wake-ups follow. Owned: the node's ledger. It is the truth for local
devices, and a copy of the server's for shared ones.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from ankaios.common.errors import AnkaiosError
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.allocation import Denied
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.device_messages import claims_from_pb
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.inventory import Changes, Instance, Inventory
from ankaios.devices.core.resource_views import AdvertisedList, configuration_devices, instance_devices
from ankaios.devices.core.shared_slots import SharedSlots
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotLedger
from ankaios.devices.core.workload_plan import Plan, Wish, plan

NOT_CONNECTED = "the server, which accounts for shared devices, is not connected"
NOT_TOLD = "the server has not yet said who uses its shared devices"


class Touched(Struct):
    """What a step changed. `vanished` are devices gone for good, `taken_away` are claims of this node that the server
    gave to somebody else or forgot, `refused` are texts for people."""

    instances: set[str] = field(default_factory=set)
    configurations: set[str] = field(default_factory=set)
    vanished: list[Instance] = field(default_factory=list)
    taken_away: dict[Slot, Claim] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.instances or self.configurations)

    def add(self, instance: Instance) -> None:
        self.instances.add(instance.name)
        self.configurations.add(instance.configuration)


class NodeDevices:
    def __init__(self, node: str) -> None:
        self.node = node
        self.ledger = SlotLedger()
        self.configurations: dict[str, Configuration] = {}
        self._inventory = Inventory(node)
        self._complaints: dict[str, dict[str, str]] = {}  # configuration -> source -> why it finds nothing
        self._shared = SharedSlots(node, self.ledger)

    # --- configurations and devices ---

    def configure(self, configurations: Mapping[str, Configuration]) -> Touched:
        """These and no others are to be discovered."""
        touched = Touched()
        for name in self.configurations.keys() - configurations.keys():
            self._note(touched, self._inventory.remove(name))
            touched.configurations.add(name)
            self._complaints.pop(name, None)
        for name, configuration in configurations.items():
            before = self.configurations.get(name)
            if before != configuration:
                self._inventory.configure(configuration)
                touched.configurations.add(name)
            if before is None or not before.discovers_like(configuration):
                self._complaints.pop(name, None)
        self._note(touched, self._inventory.forget_homeless())
        self.configurations = dict(configurations)
        for instance in self._inventory.instances():
            if instance.configuration in touched.configurations:
                self._open(instance)
                touched.instances.add(instance.name)
        return touched

    def observe(
        self, configuration: str, source: str, devices: Iterable[DiscoveredDevice], shared: bool, now: float
    ) -> Touched:
        touched = Touched()
        if self._complaints.get(configuration, {}).pop(source, None):
            touched.configurations.add(configuration)
        return self._note(touched, self._inventory.observe(configuration, source, devices, shared, now))

    def complain(self, configuration: str, source: str, why: str) -> Touched:
        """The source finds nothing before its question changes; those who wait are told why."""
        if configuration not in self.configurations:
            return Touched()
        self._complaints.setdefault(configuration, {})[source] = why
        return Touched(configurations={configuration})

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
        names = (*changes.appeared, *changes.changed, *changes.returned, *changes.offline)
        for instance in filter(None, map(self._inventory.get, names)):
            self._open(instance)
            touched.add(instance)
        for instance in changes.vanished:
            self.ledger.close(instance.name)
            self._shared.vanished(instance.name)
            touched.add(instance)
        touched.vanished += changes.vanished
        touched.refused += [f"a discovered device is left out: {text}" for text in changes.refused]
        return touched

    def _open(self, instance: Instance) -> None:
        """A shared device cannot be given out before the server said who uses it."""
        if instance.shared:
            self._shared.add(instance.name)
        configuration = self.configurations[instance.configuration]
        online = self._shared.is_told(instance.name) and self._inventory.is_online(instance.name)
        self.ledger.open(instance.name, instance.configuration, configuration.capacity, online)

    # --- the server's truth about shared devices ---

    def session_began(self) -> Touched:
        """Nothing of shared devices is given out before the server told it anew."""
        self._shared.session_began()
        return self._all_shared()

    def session_ended(self) -> Touched:
        """What is known of shared devices stays, but nothing of them can be had before the server is back."""
        self._shared.connected = False
        return self._all_shared()

    def _all_shared(self) -> Touched:
        touched = Touched()
        for instance in self._inventory.instances():
            if instance.shared:
                touched.add(instance)
        return touched

    def learn(self, instances: Mapping[str, base.DeviceInstance]) -> Touched:
        """The server tells who uses a shared device. What makes no sense is left out alone."""
        touched = Touched()
        for name, message in instances.items():
            instance = self._inventory.get(name)
            if instance is None or not instance.shared or instance.configuration not in self.configurations:
                continue
            try:
                truth = claims_from_pb(name, message)
                self._shared.told(name)
                self._open(instance)
                touched.taken_away |= self._shared.overwrite(name, truth)
            except AnkaiosError as fault:
                touched.refused.append(f"what the server said of device '{name}' is ignored: {fault}")
            touched.add(instance)
        return touched

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
        """The slots for all wishes, or all that people should know of why there are none."""
        found = plan(self.ledger, wishes, self.node, owner)
        if isinstance(found, Denied):
            reasons = [found.reason, *self.reasons({wish.configuration for wish in wishes})]
            return Denied("; ".join(reasons))
        if not self._shared.connected and any(change.slot.instance in self._shared for change in found.changes):
            return Denied(f"waits for {', '.join(wish.resource for wish in wishes)}: {NOT_CONNECTED}")
        return found

    def reasons(self, configurations: Iterable[str]) -> Iterable[str]:
        for configuration in sorted(configurations):
            shared = [name for name in self.ledger.instances(configuration) if name in self._shared]
            if shared and not self._shared.connected:
                yield NOT_CONNECTED
            elif any(self._inventory.is_online(name) and not self._shared.is_told(name) for name in shared):
                yield NOT_TOLD
            yield from self._complaints.get(configuration, {}).values()

    def begin(self, changes: Sequence[SlotChange]) -> tuple[list[SlotChange], list[SlotChange]]:
        """Take the slots here. Returns what is settled with that, and what the server has to be asked for."""
        return self._shared.begin(changes)

    def settle(self, asked: Sequence[SlotChange], granted: bool) -> bool:
        """The server answered, or never will. Returns whether the slots are ours now."""
        return self._shared.settle(asked, granted)

    def undo(self, changes: Iterable[SlotChange]) -> None:
        self._shared.undo(changes)

    def end(self, claims: Mapping[Slot, Claim]) -> list[SlotChange]:
        """Let go. Returns what the server has to be told."""
        return self._shared.end(claims)

    def touched_by(self, slots: Iterable[Slot]) -> Touched:
        touched = Touched(instances={slot.instance for slot in slots})
        touched.configurations = {name.rpartition("-")[0] for name in touched.instances}
        return touched

    # --- what is so ---

    def instance(self, name: str) -> Instance | None:
        return self._inventory.get(name)

    def is_seen(self, name: str) -> bool:
        """Whether somebody sees the device at the moment."""
        return self._inventory.is_online(name)

    def known(self) -> Touched:
        """Everything there is, remembered devices included."""
        return Touched({instance.name for instance in self._inventory.instances()}, set(self.configurations))

    def unseen_claims(self) -> dict[Slot, Claim]:
        """Slots of shared devices that this node uses though the devices are gone."""
        return self._shared.unseen_claims(instance.name for instance in self._inventory.instances())

    def pending(self) -> Iterable[Slot]:
        return self._shared.pending

    def advertised(self, target: str, by_configuration: bool) -> AdvertisedList:
        if not by_configuration:
            return instance_devices(self.ledger, target, self.node)
        configuration = self.configurations.get(target)
        if configuration is None:
            return ()
        return configuration_devices(self.ledger, target, self.node, configuration.distinct)
