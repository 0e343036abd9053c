"""The devices that this node sees, as instances that appear, go offline, return and vanish.

Input: the complete lists of discovery handlers, and the time. Output: what changed. Owns which devices of which
configuration this node sees, their names, and since when a device is missing. The devices of a handler that stops
reporting stay as they are.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

from msgspec import Struct, field
from msgspec.structs import replace

from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.configuration import Configuration, is_variable
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.slot_ledger import Claim, Slot

LONGEST_DEVICE_ID = 4096
MOST_DEVICES = 4096
REGISTRATION_SECONDS = 30.0  # handlers of other processes register every ten seconds


def instance_hash(device_id: str, node: str | None) -> str:
    """`node` is None for a shared device, which is the same device on every node.

    [impl->akri~instance-hash-inputs~1]
    """
    return blake2b((device_id + (node or "")).encode(), digest_size=3).hexdigest()


def configuration_of(instance: str) -> str:
    """The configuration in the name of an instance."""
    return instance.rpartition("-")[0]


def claimed_through(slot: Slot, claim: Claim) -> tuple[str, str]:
    """The resource and the id through which the slot was claimed."""
    if claim.virtual_id is None:
        return DEFAULT_RESOURCE_PREFIX + slot.instance, str(slot)
    return DEFAULT_RESOURCE_PREFIX + configuration_of(slot.instance), claim.virtual_id


class Instance(Struct, frozen=True):
    """A device under its name in the cluster. [impl->akri~instance-level-resource~1]"""

    name: str
    configuration: str
    shared: bool
    device: DiscoveredDevice

    @property
    def hash(self) -> str:
        return self.name.rpartition("-")[2]

    @property
    def cdi_name(self) -> str:
        return f"akri.sh/{self.configuration}={self.hash}"

    @classmethod
    def of(cls, configuration: str, device: DiscoveredDevice, shared: bool, node: str) -> "Instance":
        name = f"{configuration}-{instance_hash(device.id, None if shared else node)}"
        return cls(name, configuration, shared, device)


class InventoryChanges(Struct):
    """Names of instances, in the order of the lists; `rejected` are messages for the log."""

    appeared: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    offline: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    vanished: list[Instance] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)


class _Record(Struct):
    instance: Instance
    sources: set[str] = field(default_factory=set)  # empty: it is missing, or no source has reported yet
    restored: bool = False  # from before a restart, and not seen since


class Inventory:
    def __init__(self, node: str) -> None:
        self._node = node
        self.configurations: Mapping[str, Configuration] = {}
        self._records: dict[str, dict[str, _Record]] = {}  # by configuration and name
        self._missing: dict[str, float] = {}  # name -> time of the first list without it

    def configure(self, configurations: Mapping[str, Configuration]) -> InventoryChanges:
        """Devices of other configurations, also restored ones, will never be discovered again."""
        self.configurations = dict(configurations)
        changes = InventoryChanges()
        for name in self._records.keys() - configurations.keys():
            changes.vanished += [record.instance for record in self._records.pop(name).values()]
        for instance in changes.vanished:
            self._missing.pop(instance.name, None)
        return changes

    def restore(self, instance: Instance) -> None:
        """Add an instance from before a restart. It exists until a list of a handler does not contain it."""
        records = self._records.setdefault(instance.configuration, {})
        records.setdefault(instance.name, _Record(instance, restored=True))

    def observe(
        self, configuration: str, source: str, devices: Iterable[DiscoveredDevice], shared: bool, now: float
    ) -> InventoryChanges:
        """Process the complete list of one source. An instance exists as long as any source reports it."""
        changes = InventoryChanges()
        if configuration not in self.configurations:
            return changes
        records = self._records.setdefault(configuration, {})
        seen = {instance.name: instance for instance in self._named(configuration, devices, shared, changes)}
        for instance in seen.values():
            self._see(records, source, instance, changes)
        for name, record in records.items():
            was_there = source in record.sources or (not record.sources and name not in self._missing)
            if name not in seen and was_there:
                record.sources.discard(source)
                if not record.sources:
                    self._missing[name] = now
                    changes.offline.append(name)
        self._expire(now, changes)
        return changes

    def _named(
        self, configuration: str, devices: Iterable[DiscoveredDevice], shared: bool, changes: InventoryChanges
    ) -> Iterator[Instance]:
        taken = {name: record.instance.device.id for name, record in self._records[configuration].items()}
        for number, device in enumerate(devices):
            instance = Instance.of(configuration, usable_device(device), shared, self._node)
            if number >= MOST_DEVICES:
                changes.rejected.append(f"more than {MOST_DEVICES} devices, the rest is ignored")
                return
            if not device.id or len(device.id) > LONGEST_DEVICE_ID:
                changes.rejected.append(f"the id of a device is empty or longer than {LONGEST_DEVICE_ID} characters")
            elif taken.setdefault(instance.name, device.id) != device.id:
                # Three bytes of hash can collide. The device that was first keeps its name and its users.
                other = taken[instance.name]
                changes.rejected.append(f"the device '{device.id}' would have the name '{instance.name}' of '{other}'")
            else:
                yield instance

    def _see(self, records: dict[str, _Record], source: str, instance: Instance, changes: InventoryChanges) -> None:
        record = records.get(instance.name)
        if record is None:
            records[instance.name] = _Record(instance, {source})
            changes.appeared.append(instance.name)
            return
        if not record.sources:
            self._missing.pop(instance.name, None)
            changes.returned.append(instance.name)
        if record.instance != instance:
            record.instance = instance
            changes.changed.append(instance.name)
        record.sources.add(source)
        record.restored = False

    def expire(self, now: float) -> InventoryChanges:
        """Remove the instances that were offline for longer than their configuration allows."""
        changes = InventoryChanges()
        self._expire(now, changes)
        return changes

    def _expire(self, now: float, changes: InventoryChanges) -> None:
        for name in [name for name in self._missing if self._deadline(name) <= now]:
            del self._missing[name]
            changes.vanished.append(self._records[configuration_of(name)].pop(name).instance)
            if name in changes.offline:
                changes.offline.remove(name)

    def _deadline(self, name: str) -> float:
        """After a restart, another handler of the same name may have the device and needs the time to register."""
        configuration = configuration_of(name)
        record = self._records[configuration][name]
        grace = self.configurations[configuration].grace(record.instance.shared)
        return self._missing[name] + (max(grace, REGISTRATION_SECONDS) if record.restored else grace)

    def next_deadline(self) -> float | None:
        """The earliest time at which `expire` has an effect."""
        return min(map(self._deadline, self._missing), default=None)

    def _record(self, name: str) -> _Record | None:
        return self._records.get(configuration_of(name), {}).get(name)

    def get(self, name: str) -> Instance | None:
        record = self._record(name)
        return record.instance if record else None

    def missing_since(self, name: str) -> float | None:
        """When the first list without the device arrived; None while a list contains it."""
        return self._missing.get(name)

    def is_online(self, name: str) -> bool:
        record = self._record(name)
        return record is not None and bool(record.sources)

    def instances(self) -> Iterator[Instance]:
        for records in self._records.values():
            for record in records.values():
                yield record.instance


def usable_device(device: DiscoveredDevice) -> DiscoveredDevice:
    """Remove properties that cannot become environment variables."""
    kept = {name: value for name, value in device.properties.items() if is_variable(name, value)}
    return device if len(kept) == len(device.properties) else replace(device, properties=kept)
