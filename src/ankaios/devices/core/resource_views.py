"""The lists that the device plugins of a node advertise.

Input: a ledger and a node. Output: complete lists of virtual device ids with their health, computed on each call.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import NamedTuple

from ankaios.devices.core.slot_ledger import Slot, SlotLedger


class Advertised(NamedTuple):
    id: str
    healthy: bool = True


AdvertisedList = tuple[Advertised, ...]


def instance_devices(ledger: SlotLedger, instance: str, node: str) -> AdvertisedList:
    """The fixed ids of one instance; healthy are those which this node may use through the instance-level plugin.

    While a device has more claims than its reduced capacity allows, none of its unused slots is healthy.
    [impl->akri~il-fixed-virtual-ids~1]
    """
    if instance not in ledger:
        return ()
    online, claims, free = ledger.is_online(instance), ledger.claims(instance), set(ledger.free_slots(instance))

    def is_healthy(slot: Slot) -> bool:
        claim = claims.get(slot)
        is_ours = claim is not None and claim.virtual_id is None and claim.node == node
        return slot.index in free or (online and is_ours)

    slots = [Slot(instance, index) for index in range(ledger.capacity(instance))]
    return tuple(Advertised(str(slot), is_healthy(slot)) for slot in slots)


def configuration_devices(ledger: SlotLedger, configuration: str, node: str, distinct: bool = True) -> AdvertisedList:
    """The ids this node claimed, plus one placeholder for each instance that has a free slot.

    A claimed id whose device is offline is unhealthy: containers that run with it continue, new ones do not start. If
    devices need not be distinct, there is one placeholder for each free slot instead.
    [impl->akri~cl-availability-rule~1]
    [impl->akri~cl-dynamic-virtual-ids~1]
    """
    ids = ledger.virtual_ids(configuration, node).items()
    claimed = {int(id_): slot for id_, slot in ids if id_.isdecimal()}
    listed = sorted([*claimed, *islice(_fresh(claimed), placeholders(ledger, configuration, distinct))])
    return tuple([Advertised(str(n), n not in claimed or ledger.is_online(claimed[n].instance)) for n in listed])


def configuration_counts(
    ledger: SlotLedger, configuration: str, node: str, distinct: bool = True
) -> tuple[int, int, int]:
    """How many ids are advertised, healthy and claimed, without computing the list."""
    claimed = ledger.virtual_ids(configuration, node).values()
    fresh = placeholders(ledger, configuration, distinct)
    online = sum(ledger.is_online(slot.instance) for slot in claimed)
    return len(claimed) + fresh, online + fresh, len(claimed)


def placeholders(ledger: SlotLedger, configuration: str, distinct: bool) -> int:
    """How many devices, or slots if they need not be of distinct devices, are free."""
    if distinct:
        return ledger.free_instances(configuration)
    return sum(free for _, free in ledger.most_free_first(configuration))


def _fresh(taken: Container[int]) -> Iterator[int]:
    """The smallest numbers that are not in use."""
    return (number for number in count() if number not in taken)


def fresh_ids(taken: Iterable[str]) -> Iterator[str]:
    """The smallest numbers that are not in use, as ids."""
    return map(str, _fresh({int(id_) for id_ in taken if id_.isdecimal()}))


def with_departed(before: Sequence[Advertised], now: AdvertisedList) -> AdvertisedList:
    """An id that is no longer advertised is listed as unhealthy once, then omitted."""
    present = {device.id for device in now}
    departed = [Advertised(device.id, False) for device in before if device.healthy and device.id not in present]
    return now + tuple(departed)
