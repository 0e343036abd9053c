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
from ankaios.devices.core.resource_views import fresh_ids, placeholders
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


class DeviceTarget(Struct, frozen=True):
    """What an own resource stands for: an instance, or any instance of a configuration."""

    name: str
    by_configuration: bool

    @property
    def configuration(self) -> str:
        return self.name if self.by_configuration else configuration_of(self.name)


class SlotNeed(Struct, frozen=True):
    """A need that devices in the ledger can meet. Needs of one container and target are met by different devices.

    `matching` are the instances with the properties that are asked for; None: any.
    """

    need: ResourceNeed
    target: DeviceTarget
    distinct: bool = True
    matching: frozenset[str] | None = None


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
        for it, assignment in zip(needs, assignments, strict=True):
            if not it.target.by_configuration:
                assignment |= _free_slots(ledger, it)
                if len(assignment) < it.need.quantity:
                    return _denied(ledger, it)
                done += ledger.apply(changes_of([assignment], node, owner, by_configuration=False))
        for target in dict.fromkeys(it.target for it in needs if it.target.by_configuration):
            positions = [position for position, it in enumerate(needs) if it.target == target]
            found = _spread(ledger, [needs[position] for position in positions], node)
            if isinstance(found, Denied):
                return found
            done += ledger.apply(changes_of(found, node, owner, by_configuration=True))
            for position, assignment in zip(positions, found, strict=True):
                assignments[position] = assignment
        return SlotPlan(tuple(assignments), tuple(done))
    finally:
        # The changes were made so that later needs take them into account; no other code has run in between.
        ledger.apply([change.reversed() for change in done])


def _free_slots(ledger: SlotLedger, it: SlotNeed) -> Assignment:
    instance = it.target.name
    if it.matching is not None and instance not in it.matching:
        return {}
    slots = [Slot(instance, index) for index in ledger.free_slots(instance)[: it.need.quantity]]
    return {str(slot): slot for slot in slots}


def _spread(ledger: SlotLedger, needs: Sequence[SlotNeed], node: str) -> list[Assignment] | Denied:
    configuration, distinct = needs[0].target.name, needs[0].distinct
    fresh = fresh_ids(ledger.virtual_ids(configuration, node))
    # A request for a billion devices must not cost a billion steps before it is denied.
    most_useful = 1 + placeholders(ledger, configuration, distinct)
    requests = [list(islice(fresh, min(it.need.quantity, most_useful))) for it in needs]
    selections = [DeviceSelection(it.need.container or "", it.matching) for it in needs]
    found = allocate_configuration(ledger, configuration, node, requests, distinct=distinct, selections=selections)
    if isinstance(found, Denied):
        return _denied(ledger, max(needs, key=lambda it: it.need.quantity))
    return found


def _denied(ledger: SlotLedger, it: SlotNeed) -> Denied:
    target = it.target.name
    if it.matching is not None:
        visible = sum(map(ledger.is_online, it.matching))
        free = sum(bool(ledger.free_slots(name)) for name in it.matching)
    elif it.target.by_configuration:
        free = placeholders(ledger, target, it.distinct)
        visible = ledger.visible(target) if it.distinct else free
    else:
        visible = ledger.capacity(target) if ledger.is_online(target) else 0
        free = len(ledger.free_slots(target))
    return Denied(shortage(it.need.description, it.need.quantity, visible, free))
