"""All the devices of one workload, or none of them.

In: a ledger and what every container of a workload wishes. Out: the slots for all wishes together, or the text that
tells people what the workload waits for. The ledger is left as it was.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec import Struct

from ankaios.common.workload import ResourceRequest
from ankaios.devices.core.allocation import Assignment, Denied, allocate_configuration, changes_of
from ankaios.devices.core.resource_views import fresh_ids
from ankaios.devices.core.slot_ledger import Slot, SlotChange, SlotLedger


class Need(Struct, frozen=True):
    """`quantity` devices of one resource, of whomever, for one container."""

    container: str | None
    resource: str
    quantity: int


def needs_of(requests: Iterable[ResourceRequest]) -> tuple[Need, ...]:
    """One need for each container and resource; the same one twice is one of both."""
    needs: dict[tuple[str | None, str], int] = {}
    for request in requests:
        if request.quantity:
            key = (request.container, request.resource)
            needs[key] = needs.get(key, 0) + request.quantity
    return tuple(Need(container, resource, quantity) for (container, resource), quantity in needs.items())


class Wish(Struct, frozen=True):
    """A need for devices of our own; `target` is an instance or a configuration."""

    resource: str
    target: str
    quantity: int
    by_configuration: bool
    distinct: bool = True

    @property
    def configuration(self) -> str:
        return self.target if self.by_configuration else self.target.rpartition("-")[0]


class Plan(Struct, frozen=True):
    """One assignment for each wish, in order, and the claims they need."""

    assignments: tuple[Assignment, ...]
    changes: tuple[SlotChange, ...]


def waits_for(resource: str, quantity: int, visible: int, free: int) -> str:
    text = f"waits for {quantity} x {resource}, {visible} visible"
    return text if visible < quantity else f"{text}, {free} free"


def plan(ledger: SlotLedger, wishes: Sequence[Wish], node: str, owner: str) -> Plan | Denied:
    """Instance-level wishes are settled first: they have no choice.

    [impl->akri~workload-requests-resources~1]
    """
    assignments: list[Assignment] = [{} for _ in wishes]
    done: list[SlotChange] = []
    try:
        for wish, assignment in zip(wishes, assignments, strict=True):
            if not wish.by_configuration:
                assignment |= _free_slots(ledger, wish)
                if len(assignment) < wish.quantity:
                    return _denied(ledger, wish)
                done += ledger.apply(changes_of([assignment], node, owner, by_configuration=False))
        for target in dict.fromkeys(wish.target for wish in wishes if wish.by_configuration):
            positions = [i for i, wish in enumerate(wishes) if wish.by_configuration and wish.target == target]
            found = _spread(ledger, [wishes[i] for i in positions], node, owner)
            if isinstance(found, Denied):
                return found
            done += ledger.apply(changes_of(found, node, owner, by_configuration=True))
            for position, assignment in zip(positions, found, strict=True):
                assignments[position] = assignment
        return Plan(tuple(assignments), tuple(done))
    finally:
        # This was only a trial: nobody could look meanwhile, and now it is as before.
        ledger.apply([change.reversed() for change in done])


def _free_slots(ledger: SlotLedger, wish: Wish) -> Assignment:
    free = ledger.free_slots(wish.target)[: wish.quantity]
    return {str(slot): slot for slot in (Slot(wish.target, index) for index in free)}


def _spread(ledger: SlotLedger, wishes: Sequence[Wish], node: str, owner: str) -> list[Assignment] | Denied:
    target, distinct = wishes[0].target, wishes[0].distinct
    fresh = fresh_ids(ledger.virtual_ids(target, node))
    requests = [list(islice(fresh, min(wish.quantity, _most_useful(ledger, wish)))) for wish in wishes]
    found = allocate_configuration(ledger, target, node, requests, distinct=distinct, owner=owner)
    if isinstance(found, Denied):
        hardest = max(wishes, key=lambda wish: wish.quantity)
        return _denied(ledger, hardest)
    return found


def _most_useful(ledger: SlotLedger, wish: Wish) -> int:
    """A request for a billion devices must not cost a billion steps to be denied."""
    if wish.distinct:
        return 1 + ledger.free_instances(wish.target)
    return 1 + sum(free for _, free in ledger.most_free_first(wish.target))


def _denied(ledger: SlotLedger, wish: Wish) -> Denied:
    if wish.by_configuration:
        visible = ledger.visible(wish.target)
        free = ledger.free_instances(wish.target)
        if not wish.distinct:
            free = visible = sum(count for _, count in ledger.most_free_first(wish.target))
    else:
        visible = ledger.capacity(wish.target) if ledger.is_online(wish.target) else 0
        free = len(ledger.free_slots(wish.target))
    return Denied(waits_for(wish.resource, wish.quantity, visible, free))
