"""What the device plugins of a node advertise, computed from the ledger whenever somebody asks.

In: a ledger and a node. Out: complete lists of virtual device ids with their health. Nothing is kept here.
"""

from collections.abc import Container, Iterator, Sequence
from itertools import count, islice
from typing import NamedTuple

from ankaios.devices.core.slot_ledger import Slot, SlotLedger


class Advertised(NamedTuple):
    id: str
    healthy: bool = True


AdvertisedList = tuple[Advertised, ...]


def instance_devices(ledger: SlotLedger, instance: str, node: str) -> AdvertisedList:
    """The fixed ids of one instance: healthy are those which this node may use through the instance-level plugin.

    [impl->akri~il-fixed-virtual-ids~1]
    """
    if instance not in ledger:
        return ()
    online = ledger.is_online(instance)
    claims = ledger.claims(instance)

    def is_healthy(slot: Slot) -> bool:
        claim = claims.get(slot)
        return online and (claim is None or (claim.virtual_id is None and claim.node == node))

    slots = [Slot(instance, index) for index in range(ledger.capacity(instance))]
    return tuple(Advertised(str(slot), is_healthy(slot)) for slot in slots)


def configuration_devices(ledger: SlotLedger, configuration: str, node: str, distinct: bool = True) -> AdvertisedList:
    """The ids this node claimed, plus one placeholder for each instance that still has a free slot.

    A claimed id whose device is offline is unhealthy: what runs with it goes on, nothing new is started. Where devices
    need not be distinct, there is one placeholder for each free slot instead.
    [impl->akri~cl-availability-rule~1]
    [impl->akri~cl-dynamic-virtual-ids~1]
    """
    claimed = ledger.virtual_ids(configuration, node)
    usable = ledger.most_free_first(configuration)
    number = ledger.free_instances(configuration) if distinct else sum(free for _, free in usable)
    listed = [Advertised(id_, ledger.is_online(slot.instance)) for id_, slot in claimed.items()]
    listed += map(Advertised, islice(fresh_ids(claimed), number))
    return tuple(sorted(listed, key=lambda device: (len(device.id), device.id)))


def fresh_ids(taken: Container[str]) -> Iterator[str]:
    """The smallest numbers that are not in use."""
    return (id_ for id_ in map(str, count()) if id_ not in taken)


def with_departed(before: Sequence[Advertised], now: AdvertisedList) -> AdvertisedList:
    """An id that is advertised no more is said to be unhealthy once, then left out."""
    present = {device.id for device in now}
    departed = [Advertised(device.id, False) for device in before if device.healthy and device.id not in present]
    return now + tuple(departed)
