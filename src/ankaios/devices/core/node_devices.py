"""The devices of one node and their slots.

Input: configurations, lists of discovery handlers, and updates of the server. Output: what changed, from which reports
and wake-ups follow; plans and grants for workloads. Owns the ledger of the node: it decides about local devices, and is
a copy of the server's ledger for shared devices.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from ankaios.common.errors import AnkaiosError
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.allocation import Denied
from ankaios.devices.core.claim_plan import DeviceTarget, ResourceNeed, SlotNeed, SlotPlan, plan_slots
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.device_messages import claims_from_pb
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.grants import GrantedDevice, broker_properties
from ankaios.devices.core.inventory import Instance, Inventory, InventoryChanges, configuration_of
from ankaios.devices.core.shared_slots import SharedSlots
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotConflict, SlotLedger

NOT_CONNECTED = "the server, which accounts for shared devices, is not connected"
NOT_RECEIVED = "the server has not yet sent who uses its shared devices"


class DeviceChanges(Struct):
    """The effect of one step. `vanished` are devices that are removed, `altered` are devices that have other properties
    now, `removed` are configurations that do not exist any more, `revoked` are claims of this node that the server does
    not have, `warnings` are messages for the log.
    """

    instances: set[str] = field(default_factory=set)
    configurations: set[str] = field(default_factory=set)
    vanished: list[Instance] = field(default_factory=list)
    altered: list[Instance] = field(default_factory=list)
    removed: dict[str, Configuration] = field(default_factory=dict)
    revoked: dict[Slot, Claim] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.instances or self.configurations)

    def add(self, instance: Instance) -> None:
        self.instances.add(instance.name)
        self.configurations.add(instance.configuration)

    @classmethod
    def of_slots(cls, slots: Iterable[Slot]) -> "DeviceChanges":
        instances = {slot.instance for slot in slots}
        return cls(instances, {configuration_of(name) for name in instances})


class HeldSlot(Struct, frozen=True):
    """A claim with all that is needed to restore it before its device is discovered again."""

    slot: Slot
    claim: Claim
    instance: Instance
    capacity: int


class NodeDevices:
    def __init__(self, node: str) -> None:
        self.node = node
        self.ledger = SlotLedger()
        self.shared = SharedSlots(node, self.ledger)
        self._inventory = Inventory(node)
        # By configuration and source: why it discovers nothing; None after a list.
        self._outcomes: dict[str, dict[str, str | None]] = {}
        self._lost: dict[str, tuple[Instance, float | None]] = {}  # held by workloads though gone, since when

    # --- configurations and devices ---

    @property
    def configurations(self) -> Mapping[str, Configuration]:
        return self._inventory.configurations

    def configure(self, configurations: Mapping[str, Configuration]) -> DeviceChanges:
        """These and no others are to be discovered."""
        changes = DeviceChanges()
        for name in self.configurations.keys() - configurations.keys():
            changes.configurations.add(name)
            changes.removed[name] = self.configurations[name]
            self._outcomes.pop(name, None)
        for name, configuration in configurations.items():
            before = self.configurations.get(name)
            if before != configuration:
                changes.configurations.add(name)
            if before is None or not before.discovers_like(configuration):
                self._outcomes[name] = {}
        self._apply(changes, self._inventory.configure(configurations))
        for instance in self._inventory.instances():
            if instance.configuration in changes.configurations:
                self._open(instance)
                changes.instances.add(instance.name)
        return changes

    def observe(
        self, configuration: str, source: str, devices: Iterable[DiscoveredDevice], shared: bool, now: float
    ) -> DeviceChanges:
        changes = DeviceChanges()
        if configuration in self._outcomes and self._outcomes[configuration].get(source, "") is not None:
            self._outcomes[configuration][source] = None
            changes.configurations.add(configuration)
        return self._apply(changes, self._inventory.observe(configuration, source, devices, shared, now), now)

    def discovery_failed(self, configuration: str, source: str, reason: str) -> DeviceChanges:
        """The source discovers nothing for this reason, which waiting workloads report."""
        if configuration not in self._outcomes:
            return DeviceChanges()
        self._outcomes[configuration][source] = reason
        return DeviceChanges(configurations={configuration})

    def discovery_possible(self, configuration: str, source: str) -> DeviceChanges:
        """The failure of the source is over, though it has not sent a list yet."""
        if self._outcomes.get(configuration, {}).pop(source, None) is None:
            return DeviceChanges()
        return DeviceChanges(configurations={configuration})

    def expire(self, now: float) -> DeviceChanges:
        return self._apply(DeviceChanges(), self._inventory.expire(now), now)

    def next_deadline(self) -> float | None:
        return self._inventory.next_deadline()

    def restore(self, held: HeldSlot) -> None:
        """Add a device with a claim from before a restart; it exists until a handler reports a list without it."""
        instance = held.instance
        self._inventory.restore(instance)
        if instance.shared:
            self.shared.add(instance.name)
        self.ledger.open(instance.name, instance.configuration, held.capacity, online=False)
        self.ledger.restore({held.slot: held.claim})

    def held_slot(self, slot: Slot, claim: Claim) -> HeldSlot | None:
        """None if the device is gone."""
        instance = self._inventory.get(slot.instance)
        return HeldSlot(slot, claim, instance, self.ledger.capacity(slot.instance)) if instance else None

    def _apply(self, changes: DeviceChanges, inventory: InventoryChanges, now: float | None = None) -> DeviceChanges:
        names = (*inventory.appeared, *inventory.changed, *inventory.returned, *inventory.offline)
        for instance in filter(None, map(self._inventory.get, names)):
            self._lost.pop(instance.name, None)
            self._open(instance)
            changes.add(instance)
        for instance in inventory.vanished:
            self.ledger.close(instance.name)
            self.shared.remove(instance.name)
            if self.ledger.claims(instance.name):
                self._lost[instance.name] = instance, now
            changes.add(instance)
        changes.vanished += inventory.vanished
        changes.altered += filter(None, map(self._inventory.get, inventory.changed))
        changes.warnings += [f"a discovered device is ignored: {text}" for text in inventory.rejected]
        return changes

    def _open(self, instance: Instance) -> None:
        """A shared device accepts no claims before the server has sent its slots."""
        if instance.shared:
            self.shared.add(instance.name)
        configuration = self.configurations[instance.configuration]
        online = self.shared.is_known(instance.name) and self._inventory.is_online(instance.name)
        self.ledger.open(instance.name, instance.configuration, configuration.capacity, online)

    # --- the server ---

    def session_began(self) -> DeviceChanges:
        """Shared devices accept no claims before the server has sent their slots again."""
        self.shared.session_began()
        return self._all_shared()

    def session_ended(self) -> DeviceChanges:
        """Claims on shared devices stay, but no new ones are possible before the next session."""
        self.shared.connected = False
        return self._all_shared()

    def _all_shared(self) -> DeviceChanges:
        changes = DeviceChanges()
        for instance in self._inventory.instances():
            if instance.shared:
                changes.add(instance)
        return changes

    def update_shared(self, instances: Mapping[str, base.DeviceInstance]) -> DeviceChanges:
        """Take over the slots that the server sent; an invalid entry is ignored alone."""
        changes = DeviceChanges()
        for name, message in instances.items():
            instance = self._inventory.get(name)
            if instance is None or not instance.shared or instance.configuration not in self.configurations:
                continue
            try:
                claims = claims_from_pb(name, message)
                self.shared.received(name)
                self._open(instance)
                changes.revoked |= self.shared.overwrite(name, claims)
            except AnkaiosError as fault:
                changes.warnings.append(f"the server's update of device '{name}' is ignored: {fault}")
            changes.add(instance)
        return changes

    # --- claims ---

    def target(self, resource: str) -> DeviceTarget | None:
        """None if the resource is not one of this node's own devices."""
        if not resource.startswith(DEFAULT_RESOURCE_PREFIX):
            return None
        name = resource.removeprefix(DEFAULT_RESOURCE_PREFIX)
        is_instance = name in self.ledger
        return DeviceTarget(name, not is_instance) if is_instance or name in self.configurations else None

    def is_own(self, resource: str) -> bool:
        return self.target(resource) is not None

    def _slot_need(self, need: ResourceNeed) -> SlotNeed | None:
        if (target := self.target(need.resource)) is None:
            return None
        distinct = not target.by_configuration or self.configurations[target.name].distinct
        if not need.where:
            return SlotNeed(need, target, distinct)
        names = self.ledger.instances(target.name) if target.by_configuration else [target.name]
        matching = frozenset(name for name in names if self.has_properties(name, need.where))
        return SlotNeed(need, target, distinct, matching)

    def has_properties(self, name: str, where: Iterable[tuple[str, str]]) -> bool:
        """Whether the device has these properties, its own ones or those of its configuration."""
        if (instance := self._inventory.get(name)) is None:
            return False
        properties = broker_properties(instance, self.configured_properties(instance))
        return all(properties.get(key) == value for key, value in where)

    def configured_properties(self, instance: Instance) -> Mapping[str, str]:
        """The properties that the configuration of the device sets."""
        configuration = self.configurations.get(instance.configuration)
        return configuration.broker_properties if configuration else {}

    def plan(self, wanted: Iterable[ResourceNeed], owner: str) -> SlotPlan | Denied:
        """The slots for all these needs of own resources, or all reasons why there are none."""
        needs = list(filter(None, map(self._slot_need, wanted)))
        found = plan_slots(self.ledger, needs, self.node, owner)
        if isinstance(found, Denied):
            return Denied("; ".join([found.reason, *self.reasons(it.need.resource for it in needs)]))
        if not self.shared.connected and any(change.slot.instance in self.shared for change in found.changes):
            return Denied(f"waits for {', '.join(it.need.resource for it in needs)}: {NOT_CONNECTED}")
        return found

    def reasons(self, resources: Iterable[str]) -> Iterable[str]:
        """Why there may be fewer devices of these resources than expected."""
        targets = filter(None, map(self.target, resources))
        for configuration in sorted({target.configuration for target in targets}):
            shared = [name for name in self.ledger.instances(configuration) if name in self.shared]
            if shared and not self.shared.connected:
                yield NOT_CONNECTED
            elif any(self._inventory.is_online(name) and not self.shared.is_known(name) for name in shared):
                yield NOT_RECEIVED
            outcomes = self._outcomes.get(configuration, {}).values()
            yield from filter(None, outcomes)
            is_any_seen = any(map(self._inventory.is_online, self.ledger.instances(configuration)))
            if outcomes and not any(outcomes) and not is_any_seen:
                handler = self.configurations[configuration].handler
                yield f"the discovery handler '{handler}' finds no device that matches its discoveryDetails"

    def slots(self, resource: str, ids: Iterable[str]) -> dict[str, Slot | None]:
        """The slots behind the ids of an own resource; None for an id without a claim."""
        if (target := self.target(resource)) is None:
            return {}
        if not target.by_configuration:
            return {id_: Slot.parse(id_) for id_ in ids}
        return {id_: self.ledger.virtual_slot(target.name, self.node, id_) for id_ in ids}

    def granted_devices(self, resource: str, ids: Collection[str]) -> tuple[GrantedDevice, ...]:
        """The devices behind claimed ids of an own resource. Raises `SlotConflict` if one is gone."""
        is_slot_name = resource.removeprefix(DEFAULT_RESOURCE_PREFIX) in self.ledger
        devices = tuple(
            GrantedDevice(instance, slot, None if is_slot_name else id_, self.configured_properties(instance))
            for id_, slot in self.slots(resource, ids).items()
            if slot is not None and (instance := self._inventory.get(slot.instance)) is not None
        )
        if len(devices) < len(ids):
            raise SlotConflict(f"a device of '{resource}' vanished while it was allocated")
        return devices

    # --- queries ---

    def instance(self, name: str) -> Instance | None:
        return self._inventory.get(name)

    def is_usable(self, name: str) -> bool:
        """Whether a workload that has claimed the device can start. Without a server the claims of this node count."""
        without_server = name in self.shared and not self.shared.connected and self._inventory.is_online(name)
        return self.ledger.is_online(name) or without_server

    def lost(self, name: str) -> Instance | None:
        """A device that is gone, as long as a workload of this node holds one of its slots."""
        instance, _ = self._lost.get(name, (None, None))
        if instance is not None and not self.ledger.claims(name):
            del self._lost[name]
            return None
        return instance

    def offline_since(self, name: str) -> float | None:
        """When the device was missed for the first time; None while it is seen, or if that is not known."""
        return self._lost[name][1] if name in self._lost else self._inventory.missing_since(name)

    def is_seen(self, name: str) -> bool:
        """Whether a discovery handler reports the device now."""
        return self._inventory.is_online(name)

    def known(self) -> DeviceChanges:
        """Everything that exists, restored devices included."""
        names = {instance.name for instance in self._inventory.instances()}
        return DeviceChanges(names | set(filter(self.lost, list(self._lost))), set(self.configurations))

    def unseen_claims(self) -> dict[Slot, Claim]:
        """Claims of this node on shared devices that are gone."""
        return self.shared.unseen_claims(instance.name for instance in self._inventory.instances())
