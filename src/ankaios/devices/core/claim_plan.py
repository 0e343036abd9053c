"""Plans the slots for all needs of one workload together: all of them or none.

Input: a ledger and the needs of every container. Output: the slots for each need, or the reason why the workload has to
wait. The ledger is left unchanged.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from ankaios.common.workload import ResourceRequest, described_resource
from ankaios.devices.core.allocation import Assignment, Denied, DeviceSelection, allocate_configuration, changes_of
from ankaios.devices.core.inventory import configuration_of
from ankaios.devices.core.resource_views import fresh_ids
from ankaios.devices.core.slot_ledger import Slot, SlotChange, SlotLedger


class ResourceNeed(Struct, frozen=True):
    """`quantity` devices of one resource for one container. `where`: properties that each of them must have."""

    container: str | None
    resource: str
    quantity: int
    where: tuple[tuple[str, str], ...] = ()

    @property
    def description(self) -> str:
        return described_resource(self.resource, dict(self.where))


def needs_of(requests: Iterable[ResourceRequest]) -> tuple[ResourceNeed, ...]:
    """One need for each container, resource and selector; requests for the same ones are added up."""
    needs: dict[ResourceNeed, int] = {}
    for request in requests:
        if request.quantity:
            key = ResourceNeed(request.container, request.resource, 0, tuple(sorted(request.where.items())))
            needs[key] = needs.get(key, 0) + request.quantity
    return tuple(replace(need, quantity=quantity) for need, quantity in needs.items())


class SlotNeed(Struct, frozen=True):
    """A need that devices in the ledger can meet; `target` is an instance or a configuration.

    `matching` are the instances with the properties that are asked for; None: any. Needs of the same `group` for one
    configuration are met by different devices; None: the need is a group by itself.
    """

    resource: str
    target: str
    quantity: int
    by_configuration: bool
    distinct: bool = True
    matching: frozenset[str] | None = None
    group: str | None = None
    description: str = ""

    @property
    def configuration(self) -> str:
        return self.target if self.by_configuration else configuration_of(self.target)


class SlotPlan(Struct, frozen=True):
    """One assignment for each need, in order, and the claims they require."""

    assignments: tuple[Assignment, ...]
    changes: tuple[SlotChange, ...]


def shortage(resource: str, quantity: int, visible: int, free: int) -> str:
    text = f"waits for {quantity} x {resource}, {visible} visible"
    return text if visible < quantity else f"{text}, {free} free"


def plan_slots(ledger: SlotLedger, needs: Sequence[SlotNeed], node: str, owner: str) -> SlotPlan | Denied:
    """Instance-level needs are planned first, because they have no choice.

    [impl->akri~workload-requests-resources~1]
    """
    assignments: list[Assignment] = [{} for _ in needs]
    done: list[SlotChange] = []
    try:
        for need, assignment in zip(needs, assignments, strict=True):
            if not need.by_configuration:
                assignment |= _free_slots(ledger, need)
                if len(assignment) < need.quantity:
                    return _denied(ledger, need)
                done += ledger.apply(changes_of([assignment], node, owner, by_configuration=False))
        for target in dict.fromkeys(need.target for need in needs if need.by_configuration):
            positions = [i for i, need in enumerate(needs) if need.by_configuration and need.target == target]
            found = _spread(ledger, [needs[i] for i in positions], node)
            if isinstance(found, Denied):
                return found
            done += ledger.apply(changes_of(found, node, owner, by_configuration=True))
            for position, assignment in zip(positions, found, strict=True):
                assignments[position] = assignment
        return SlotPlan(tuple(assignments), tuple(done))
    finally:
        # The changes were made so that later needs take them into account; no other code has run in between.
        ledger.apply([change.reversed() for change in done])


def _free_slots(ledger: SlotLedger, need: SlotNeed) -> Assignment:
    if need.matching is not None and need.target not in need.matching:
        return {}
    free = ledger.free_slots(need.target)[: need.quantity]
    return {str(slot): slot for slot in (Slot(need.target, index) for index in free)}


def _spread(ledger: SlotLedger, needs: Sequence[SlotNeed], node: str) -> list[Assignment] | Denied:
    target, distinct = needs[0].target, needs[0].distinct
    fresh = fresh_ids(ledger.virtual_ids(target, node))
    requests = [list(islice(fresh, min(need.quantity, _most_useful(ledger, need)))) for need in needs]
    selections = [DeviceSelection(need.group, need.matching) for need in needs]
    found = allocate_configuration(ledger, target, node, requests, distinct=distinct, selections=selections)
    if isinstance(found, Denied):
        return _denied(ledger, max(needs, key=lambda need: need.quantity))
    return found


def _most_useful(ledger: SlotLedger, need: SlotNeed) -> int:
    """A request for a billion devices must not cost a billion steps before it is denied."""
    if need.distinct:
        return 1 + ledger.free_instances(need.target)
    return 1 + sum(free for _, free in ledger.most_free_first(need.target))


def _denied(ledger: SlotLedger, need: SlotNeed) -> Denied:
    if need.matching is not None:
        visible = sum(map(ledger.is_online, need.matching))
        free = sum(bool(ledger.free_slots(name)) for name in need.matching)
    elif need.by_configuration:
        visible = ledger.visible(need.target)
        free = ledger.free_instances(need.target)
        if not need.distinct:
            free = visible = sum(count for _, count in ledger.most_free_first(need.target))
    else:
        visible = ledger.capacity(need.target) if ledger.is_online(need.target) else 0
        free = len(ledger.free_slots(need.target))
    return Denied(shortage(need.description or need.resource, need.quantity, visible, free))
