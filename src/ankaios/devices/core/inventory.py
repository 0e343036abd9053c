"""Seen devices become instances that appear, go offline, return and vanish.

In: the complete lists of discovery handlers, one after the other, and the time. Out: what changed. Owned: which devices
of which configuration this node sees, under which name, and since when one is missing. A handler that fell silent says
nothing about its devices, so they stay.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from msgspec import Struct, field
from msgspec.structs import replace

from ankaios.devices.core.configuration import Configuration, is_variable
from ankaios.devices.core.discovered_device import DiscoveredDevice

LONGEST_DEVICE_ID = 4096
MOST_DEVICES = 4096


def instance_hash(device_id: str, node: str | None) -> str:
    """`node` is None for a shared device: it is the same one from wherever it is seen.

    [impl->akri~instance-hash-inputs~1]
    """
    return blake2b((device_id + (node or "")).encode(), digest_size=3).hexdigest()


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


class Changes(Struct):
    """Names of instances, each in the order seen; `refused` are texts for people."""

    appeared: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    offline: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    vanished: list[Instance] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class _Record(Struct):
    instance: Instance
    sources: set[str] = field(default_factory=set)  # who sees it; nobody: it is missing or nobody has looked yet


class _Known(Struct):
    configuration: Configuration
    records: dict[str, _Record] = field(default_factory=dict)
    missing: dict[str, float] = field(default_factory=dict)  # name -> since when


class Inventory:
    """What this node sees."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._known: dict[str, _Known] = {}
        self._homeless: dict[str, Instance] = {}  # remembered, of configurations that are not known yet

    def configure(self, configuration: Configuration) -> None:
        known = self._known.setdefault(configuration.name, _Known(configuration))
        known.configuration = configuration
        for name, instance in list(self._homeless.items()):
            if instance.configuration == configuration.name:
                known.records[name] = _Record(self._homeless.pop(name))

    def remove(self, configuration: str) -> Changes:
        known = self._known.pop(configuration, None)
        return Changes(vanished=[record.instance for record in known.records.values()] if known else [])

    def forget_homeless(self) -> Changes:
        """All configurations are known now: nobody will ever look for what belongs to none of them."""
        vanished, self._homeless = list(self._homeless.values()), {}
        return Changes(vanished=vanished)

    def remember(self, instance: Instance) -> None:
        """Known from before a restart. It is there until somebody looked and did not see it."""
        known = self._known.get(instance.configuration)
        if known is None:
            self._homeless[instance.name] = instance
        else:
            known.records.setdefault(instance.name, _Record(instance))

    def observe(
        self, configuration: str, source: str, devices: Iterable[DiscoveredDevice], shared: bool, now: float
    ) -> Changes:
        """One source told its complete list; an instance is there as long as any source sees it."""
        changes = Changes()
        known = self._known.get(configuration)
        if known is None:
            return changes
        seen = {instance.name: instance for instance in self._named(known, devices, shared, changes)}
        for instance in seen.values():
            self._see(known, source, instance, changes)
        for name, record in known.records.items():
            was_there = source in record.sources or (not record.sources and name not in known.missing)
            if name not in seen and was_there:
                record.sources.discard(source)
                if not record.sources:
                    known.missing[name] = now
                    changes.offline.append(name)
        self._expire(known, now, changes)
        return changes

    def _named(
        self, known: _Known, devices: Iterable[DiscoveredDevice], shared: bool, changes: Changes
    ) -> Iterator[Instance]:
        taken = {name: record.instance.device.id for name, record in known.records.items()}
        for number, device in enumerate(devices):
            instance = Instance.of(known.configuration.name, usable(device), shared, self._node)
            if number >= MOST_DEVICES:
                changes.refused.append(f"more than {MOST_DEVICES} devices, the rest is left out")
                return
            if not device.id or len(device.id) > LONGEST_DEVICE_ID:
                changes.refused.append(f"the id of a device is empty or longer than {LONGEST_DEVICE_ID} characters")
            elif taken.setdefault(instance.name, device.id) != device.id:
                # Three bytes of hash collide some day. The one that came first keeps name and users.
                other = taken[instance.name]
                changes.refused.append(f"the device '{device.id}' would have the name '{instance.name}' of '{other}'")
            else:
                yield instance

    def _see(self, known: _Known, source: str, instance: Instance, changes: Changes) -> None:
        record = known.records.get(instance.name)
        if record is None:
            known.records[instance.name] = _Record(instance, {source})
            changes.appeared.append(instance.name)
            return
        if not record.sources:
            known.missing.pop(instance.name, None)
            changes.returned.append(instance.name)
        if record.instance != instance:
            record.instance = instance
            changes.changed.append(instance.name)
        record.sources.add(source)

    def expire(self, now: float) -> Changes:
        """Let those vanish that were offline for longer than their configuration allows."""
        changes = Changes()
        for known in self._known.values():
            self._expire(known, now, changes)
        return changes

    def _expire(self, known: _Known, now: float, changes: Changes) -> None:
        for name in [name for name in known.missing if self._deadline(known, name) <= now]:
            del known.missing[name]
            changes.vanished.append(known.records.pop(name).instance)
            if name in changes.offline:
                changes.offline.remove(name)

    def _deadline(self, known: _Known, name: str) -> float:
        return known.missing[name] + known.configuration.grace(known.records[name].instance.shared)

    def next_deadline(self) -> float | None:
        """When `expire` has something to do again."""
        deadlines = (self._deadline(known, name) for known in self._known.values() for name in known.missing)
        return min(deadlines, default=None)

    def get(self, name: str) -> Instance | None:
        for known in self._known.values():
            if name in known.records:
                return known.records[name].instance
        return self._homeless.get(name)

    def is_online(self, name: str) -> bool:
        known = (known.records.get(name) for known in self._known.values())
        return any(record is not None and record.sources for record in known)

    def instances(self) -> Iterator[Instance]:
        for known in self._known.values():
            for record in known.records.values():
                yield record.instance
        yield from self._homeless.values()


def usable(device: DiscoveredDevice) -> DiscoveredDevice:
    """Properties become environment variables, so one that cannot be one is left out."""
    kept = {name: value for name, value in device.properties.items() if is_variable(name, value)}
    return device if len(kept) == len(device.properties) else replace(device, properties=kept)
