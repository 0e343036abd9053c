"""The slots of devices and the claims on them.

Input: devices with their capacity, and changes of slots. Output: usage, owners and free slots. A device has `capacity`
slots named `<instance>-<index>`, so at most that many containers use it at a time. Owns the claims: the server keeps
one ledger for shared devices, each agent one for the devices it sees. All lists are computed from it.

[impl->akri~capacity-limits-users-per-device~1]
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from ankaios.common.errors import Rejected, Unavailable

FREE = ""
LONGEST_INDEX = 9


class SlotConflict(Unavailable):
    """Another claim was first, or the device is offline: nothing changed, read the ledger again."""


class Slot(Struct, frozen=True, order=True):
    instance: str
    index: int

    def __str__(self) -> str:
        return f"{self.instance}-{self.index}"

    @classmethod
    def parse(cls, text: str) -> "Slot":
        instance, _, index = text.rpartition("-")
        if not instance or not (index.isascii() and index.isdecimal()) or len(index) > LONGEST_INDEX:
            raise Rejected(f"cannot use the slot '{text}': expected <instance>-<index>")
        return cls(instance, int(index))


class Claim(Struct, frozen=True):
    """`virtual_id` is set if the slot was claimed through the configuration-level plugin of the node.

    `owner` is the workload that uses the slot; it is empty for a claim of a kubelet, which does not name the user.
    """

    node: str
    virtual_id: str | None = None
    owner: str = ""

    @property
    def usage(self) -> str:
        """The text in deviceUsage. [impl->akri~device-usage-format~1]"""
        return self.node if self.virtual_id is None else f"C:{self.virtual_id}:{self.node}"

    def admits(self, other: "Claim") -> bool:
        """Whether the other claim repeats this one. A kubelet repeats claims and names no owner."""
        return self.usage == other.usage and other.owner in ("", self.owner)


def parse_usage(text: str, owner: str = "") -> Claim | None:
    """Parse a text of deviceUsage; None means that the slot is free. [impl->akri~device-usage-format~1]"""
    match text.split(":"):
        case [""]:
            return None
        case [node]:
            return Claim(node, owner=owner)
        case ["C", virtual_id, node] if virtual_id and node:
            return Claim(node, virtual_id, owner)
        case _:
            raise Rejected(f"cannot use the device usage '{text}': expected '', '<node>' or 'C:<virtual id>:<node>'")


class SlotChange(Struct, frozen=True):
    """A claim on a slot begins, or it ends."""

    slot: Slot
    claim: Claim
    takes: bool = True

    def reversed(self) -> "SlotChange":
        return SlotChange(self.slot, self.claim, not self.takes)


class _Device(Struct):
    configuration: str
    capacity: int
    online: bool
    gone: bool = False
    claims: dict[int, Claim] = field(default_factory=dict)
    rank: int = 0  # the free count under which it is listed

    @property
    def free(self) -> int:
        """Claims beyond a reduced capacity count too: while they exist, new claims have to wait."""
        if self.gone or not self.online:
            return 0
        return max(0, self.capacity - len(self.claims))


class SlotLedger:
    """Claims change only in `apply`, `restore` and `release`, all or nothing."""

    def __init__(self) -> None:
        self._devices: dict[str, _Device] = {}
        self._instances: dict[str, dict[str, None]] = {}
        self._ranking: dict[str, list[tuple[int, str]]] = {}
        self._virtual: dict[tuple[str, str], dict[str, Slot]] = {}
        self._owned: dict[str, dict[Slot, Claim]] = {}
        self._on_node: dict[str, dict[Slot, Claim]] = {}

    # --- devices ---

    def open(self, instance: str, configuration: str, capacity: int, online: bool = True) -> None:
        """Add a device, or update its capacity and whether it is online. Claims beyond a smaller capacity stay."""
        device = self._devices.get(instance)
        if device is None:
            device = self._devices[instance] = _Device(configuration, capacity, online)
            self._instances.setdefault(configuration, {})[instance] = None
        device.capacity, device.online, device.gone = capacity, online, False
        self._rank(instance, device)

    def set_online(self, instance: str, online: bool) -> None:
        """The claims of an offline device stay, but it accepts no new ones."""
        if (device := self._devices.get(instance)) is not None:
            device.online = online
            self._rank(instance, device)

    def close(self, instance: str) -> None:
        """Remove a device. Its claims stay recorded until they are released or the device returns."""
        if (device := self._devices.get(instance)) is not None:
            device.gone = True
            self._rank(instance, device)
            self._drop_if_unused(instance, device)

    # --- claims ---

    def apply(self, changes: Iterable[SlotChange]) -> list[SlotChange]:
        """Make all changes or none, and return those that had an effect."""
        return self._apply(changes, restore=False)

    def restore(self, claims: Mapping[Slot, Claim]) -> None:
        """Record claims that were granted earlier, also if the device is offline or has a smaller capacity now."""
        self._apply((SlotChange(slot, claim) for slot, claim in claims.items()), restore=True)

    def release(self, claims: Mapping[Slot, Claim]) -> list[SlotChange]:
        """End the claims. A claim that the slot does not have is ignored."""
        return self.apply(SlotChange(slot, claim, takes=False) for slot, claim in claims.items())

    def _apply(self, changes: Iterable[SlotChange], restore: bool) -> list[SlotChange]:
        effective = [change for change in dict.fromkeys(changes) if self._is_new(change)]
        self._check(effective, restore)
        for change in effective:
            self._write(change)
        return effective

    def _is_new(self, change: SlotChange) -> bool:
        current = self.claim(change.slot)
        if change.takes:
            return current is None or not current.admits(change.claim)
        return current == change.claim

    def _check(self, changes: Sequence[SlotChange], restore: bool) -> None:
        slots: set[Slot] = set()
        virtual: set[tuple[str, str, str]] = set()
        for change in changes:
            slot, claim = change.slot, change.claim
            if slot in slots:
                raise SlotConflict(f"cannot change slot '{slot}': it is named twice")
            slots.add(slot)
            if not change.takes:
                continue
            device = self._check_free(slot, restore)
            if claim.virtual_id is None:
                continue
            key = (device.configuration, claim.node, claim.virtual_id)
            if key in virtual or claim.virtual_id in self._virtual.get(key[:2], ()):
                raise SlotConflict(f"cannot claim slot '{slot}': '{claim.usage}' already has another slot")
            virtual.add(key)
        if not restore:
            self._check_capacity(change.slot.instance for change in changes if change.takes)

    def _check_capacity(self, instances: Iterable[str]) -> None:
        """An unused slot is not free while claims beyond a reduced capacity exist."""
        for instance, number in Counter(instances).items():
            if number > (free := self._devices[instance].free):
                raise SlotConflict(f"cannot claim {number} slots of '{instance}': {free} are free")

    def _check_free(self, slot: Slot, restore: bool) -> _Device:
        device = self._devices.get(slot.instance)
        if device is None or (device.gone and not restore):
            raise SlotConflict(f"cannot claim slot '{slot}': no such device")
        if (holder := device.claims.get(slot.index)) is not None:
            raise SlotConflict(f"cannot claim slot '{slot}': it is held by '{holder.owner or holder.usage}'")
        if not restore and not device.online:
            raise SlotConflict(f"cannot claim slot '{slot}': the device is offline")
        if not restore and slot.index >= device.capacity:
            raise SlotConflict(f"cannot claim slot '{slot}': the device has {device.capacity} slots")
        return device

    def _write(self, change: SlotChange) -> None:
        slot, claim = change.slot, change.claim
        device = self._devices[slot.instance]
        ids = self._virtual.setdefault((device.configuration, claim.node), {})
        owned = self._owned.setdefault(claim.owner, {})
        on_node = self._on_node.setdefault(claim.node, {})
        if change.takes:
            device.claims[slot.index] = owned[slot] = on_node[slot] = claim
            if claim.virtual_id is not None:
                ids[claim.virtual_id] = slot
        else:
            del device.claims[slot.index], owned[slot], on_node[slot]
            if claim.virtual_id is not None:
                del ids[claim.virtual_id]
        if not owned:
            del self._owned[claim.owner]
        if not on_node:
            del self._on_node[claim.node]
        if not ids:
            del self._virtual[device.configuration, claim.node]
        self._rank(slot.instance, device)
        self._drop_if_unused(slot.instance, device)

    def _drop_if_unused(self, instance: str, device: _Device) -> None:
        if device.gone and not device.claims:
            del self._devices[instance]
            siblings = self._instances[device.configuration]
            del siblings[instance]
            if not siblings:
                del self._instances[device.configuration]

    def _rank(self, instance: str, device: _Device) -> None:
        """Keep the instances of a configuration ordered by free slots, so that a claim does not have to visit all."""
        ranking = self._ranking.setdefault(device.configuration, [])
        if device.rank:
            del ranking[bisect_left(ranking, (-device.rank, instance))]
        device.rank = device.free
        if device.rank:
            insort(ranking, (-device.rank, instance))
        if not ranking:
            del self._ranking[device.configuration]

    # --- queries ---

    def __contains__(self, instance: str) -> bool:
        return instance in self._devices and not self._devices[instance].gone

    def configuration(self, instance: str) -> str:
        return self._devices[instance].configuration

    def capacity(self, instance: str) -> int:
        return self._devices[instance].capacity

    def is_online(self, instance: str) -> bool:
        device = self._devices.get(instance)
        return device is not None and device.online and not device.gone

    def instances(self, configuration: str) -> list[str]:
        return [name for name in self._instances.get(configuration, ()) if not self._devices[name].gone]

    def visible(self, configuration: str) -> int:
        return sum(self._devices[name].online for name in self.instances(configuration))

    def most_free_first(self, configuration: str) -> Iterator[tuple[str, int]]:
        """Instances that have free slots, with their number; equal ones are ordered by name."""
        for free, instance in self._ranking.get(configuration, ()):
            yield instance, -free

    def free_instances(self, configuration: str) -> int:
        return len(self._ranking.get(configuration, ()))

    def free_slots(self, instance: str) -> list[int]:
        device = self._devices.get(instance)
        if device is None or not device.free:
            return []
        return [index for index in range(device.capacity) if index not in device.claims][: device.free]

    def claim(self, slot: Slot) -> Claim | None:
        device = self._devices.get(slot.instance)
        return device.claims.get(slot.index) if device else None

    def claims(self, instance: str) -> dict[Slot, Claim]:
        device = self._devices.get(instance)
        return {Slot(instance, index): device.claims[index] for index in sorted(device.claims)} if device else {}

    def claims_of(self, owner: str) -> dict[Slot, Claim]:
        return dict(self._owned.get(owner, {}))

    def claims_on(self, node: str) -> dict[Slot, Claim]:
        """All claims of a node."""
        return dict(self._on_node.get(node, {}))

    def nodes(self) -> tuple[str, ...]:
        """The nodes that have claims."""
        return tuple(self._on_node)

    def virtual_ids(self, configuration: str, node: str) -> dict[str, Slot]:
        return dict(self._virtual.get((configuration, node), {}))

    def virtual_slot(self, configuration: str, node: str, virtual_id: str) -> Slot | None:
        return self._virtual.get((configuration, node), {}).get(virtual_id)

    def usage(self, instance: str) -> dict[str, str]:
        """deviceUsage of an instance, with an empty text for free slots. [impl->akri~device-usage-format~1]"""
        device = self._devices[instance]
        slots = sorted({*range(device.capacity), *device.claims})
        return {str(Slot(instance, i)): device.claims[i].usage if i in device.claims else FREE for i in slots}

    def owners(self, instance: str) -> dict[str, str]:
        return {str(slot): claim.owner for slot, claim in self.claims(instance).items() if claim.owner}
