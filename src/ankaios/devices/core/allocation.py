"""Assigns slots to the virtual device ids of a request.

Input: a ledger, the requesting node, and the virtual ids for each container. Output: the slot of each id, or a denial.
The ledger is left unchanged. A request is denied only if no assignment exists.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotLedger

Assignment = dict[str, Slot]
INSUFFICIENT = "Insufficient instances to allocate"
LONGEST_VIRTUAL_ID = 9


class Denied(Struct, frozen=True):
    reason: str


def allocate_instance(
    ledger: SlotLedger, instance: str, node: str, requests: Sequence[Sequence[str]]
) -> list[Assignment] | Denied:
    """The instance-level rule: an id is a slot, which is free or already claimed by this node."""
    if instance not in ledger:
        return Denied(f"the device '{instance}' does not exist")
    if not ledger.is_online(instance):
        return Denied(f"the device '{instance}' is offline")
    known = {str(slot): slot for slot in (Slot(instance, index) for index in range(ledger.capacity(instance)))}
    for id_ in (id_ for request in requests for id_ in request):
        if id_ not in known:
            return Denied(f"the device '{instance}' has no slot '{id_}'")
        holder = ledger.claim(known[id_])
        if holder is not None and not holder.admits(Claim(node)):
            return Denied(f"the slot '{id_}' is used by '{holder.owner or holder.usage}'")
    return [{id_: known[id_] for id_ in request} for request in requests]


class DeviceSelection(Struct, frozen=True):
    """Restricts a container request to the `matching` instances; None: any.

    Requests of the same `container` are met by different instances.
    """

    container: str
    matching: frozenset[str] | None = None


def allocate_configuration(
    ledger: SlotLedger,
    configuration: str,
    node: str,
    requests: Sequence[Sequence[str]],
    *,
    distinct: bool = True,
    selections: Sequence[DeviceSelection] = (),
) -> list[Assignment] | Denied:
    """The configuration-level rules.

    Container requests are independent of each other. Ids that are already claimed keep their slots; they are assigned
    first, so that no other id takes an instance they need. Every other id gets a slot of the instance with the most
    free slots. `selections` has one entry for each request of a workload; a kubelet has none.
    [impl->akri~cl-allocate-per-container-request~1]
    [impl->akri~cl-allocate-reuses-previous-claim~1]
    [impl->akri~cl-allocate-denies-too-few-devices~1]
    """
    search = _Search(ledger, configuration, distinct)
    for number, request in enumerate(requests):
        if denied := search.add_container(request, node, selections[number] if selections else None):
            return denied
    return search.assign()


def is_virtual_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= LONGEST_VIRTUAL_ID and text == str(int(text))


class _Container(Struct):
    claimed: Assignment = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    fixed: set[str] = field(default_factory=set)  # instances of its claimed ids
    chosen: list[str] = field(default_factory=list)  # instances for its fresh ids, in their order
    matching: frozenset[str] | None = None
    siblings: "list[_Container]" = field(default_factory=list)  # all requests of the container, also this one

    def accepts(self, instance: str) -> bool:
        return self.matching is None or instance in self.matching

    def uses(self, instance: str) -> bool:
        """Whether the instance cannot be chosen for another id.

        [impl->akri~cl-allocate-unique-instances~1]
        """
        return not self.accepts(instance) or any(
            instance in each.fixed or instance in each.chosen for each in self.siblings
        )


class _Search:
    """Finds an instance for every fresh id of every container of one call."""

    def __init__(self, ledger: SlotLedger, configuration: str, distinct: bool) -> None:
        self._ledger = ledger
        self._configuration = configuration
        self._distinct = distinct
        self._containers: list[_Container] = []
        self._taken: Counter[str] = Counter()
        self._siblings: dict[str, list[_Container]] = {}

    def add_container(self, request: Sequence[str], node: str, selection: DeviceSelection | None) -> Denied | None:
        if selection is None:
            container = _Container()
        else:
            siblings = self._siblings.setdefault(selection.container, [])
            container = _Container(matching=selection.matching, siblings=siblings)
        container.siblings.append(container)
        for id_ in request:
            if not is_virtual_id(id_) or id_ in container.claimed or id_ in container.fresh:
                return Denied(f"'{id_}' is no virtual device id, or is requested twice")
            slot = self._ledger.virtual_slot(self._configuration, node, id_)
            if slot is not None:
                if denied := self._keep(container, id_, slot):
                    return denied
            elif any(id_ in other.fresh for other in self._containers):
                return Denied(f"'{id_}' is requested by two containers")
            else:
                container.fresh.append(id_)
        self._containers.append(container)
        return None

    def _keep(self, container: _Container, id_: str, slot: Slot) -> Denied | None:
        if self._distinct and slot.instance in container.fixed:
            return Denied(f"{INSUFFICIENT}: claimed ids of one container are on the same device '{slot.instance}'")
        container.fixed.add(slot.instance)
        container.claimed[id_] = slot
        return None

    def assign(self) -> list[Assignment] | Denied:
        for container in self._containers:
            for _ in container.fresh:
                if not (self._take_most_free(container) or self._move_others(container)):
                    return Denied(INSUFFICIENT)
        return self._slots()

    def _take_most_free(self, container: _Container) -> bool:
        """[impl->akri~cl-allocate-most-free-slots-first~1]"""
        best = self._most_free(container)
        if best is None and not self._distinct:
            best = self._most_free(_Container(matching=container.matching))
        if best is None:
            return False
        container.chosen.append(best)
        self._taken[best] += 1
        return True

    def _most_free(self, container: _Container) -> str | None:
        """The ranking of the ledger does not include slots taken by this call, which only lower an instance."""
        best: tuple[int, str] | None = None
        for instance, free in self._ledger.most_free_first(self._configuration):
            if best is not None and best < (-free, instance):
                break
            left = free - self._taken.get(instance, 0)
            if left > 0 and not container.uses(instance):
                best = min(best or (0, ""), (-left, instance))
        return best[1] if best else None

    def _move_others(self, container: _Container) -> bool:
        """Find a slot by moving ids of other containers in this call that have another choice.

        A breadth-first search over "which container can leave which instance for which other one", so that a request is
        denied only if no assignment exists.
        """
        free = dict(self._ledger.most_free_first(self._configuration))
        queue = [name for name in free if not container.uses(name)]
        ways: dict[str, tuple[_Container, str | None]] = dict.fromkeys(queue, (container, None))
        for instance in queue:
            if self._taken[instance] < free[instance]:
                self._move(instance, ways)
                return True
            for other in self._containers:
                if instance in other.chosen:
                    reachable = [name for name in free if name not in ways and not other.uses(name)]
                    ways.update(dict.fromkeys(reachable, (other, instance)))
                    queue.extend(reachable)
        return False

    def _move(self, free: str, ways: Mapping[str, tuple[_Container, str | None]]) -> None:
        self._taken[free] += 1
        step: str | None = free
        while step is not None:
            mover, left = ways[step]
            if left is None:
                mover.chosen.append(step)
            else:
                mover.chosen[mover.chosen.index(left)] = step
            step = left

    def _slots(self) -> list[Assignment]:
        free = {name: self._ledger.free_slots(name) for name in self._taken}
        return [
            each.claimed
            | {id_: Slot(name, free[name].pop(0)) for id_, name in zip(each.fresh, each.chosen, strict=True)}
            for each in self._containers
        ]


def changes_of(
    assignments: Iterable[Assignment], node: str, owner: str = "", *, by_configuration: bool
) -> list[SlotChange]:
    """The claims for these assignments; claims that exist already have no effect when applied."""
    return [
        SlotChange(slot, Claim(node, id_ if by_configuration else None, owner))
        for assignment in assignments
        for id_, slot in assignment.items()
    ]


def preferred_ids(
    ledger: SlotLedger,
    configuration: str,
    node: str,
    available: Sequence[str],
    must_include: Sequence[str],
    size: int,
    *,
    distinct: bool = True,
) -> list[str]:
    """A set of ids of a configuration-level resource that are assigned to different devices.

    A kubelet has no information about which ids share a device. Existing claims come first, because they use no further
    slot. An instance counts once, whether through a claimed id or through one of its free slots.
    """
    claimed = ledger.virtual_ids(configuration, node)
    chosen = list(dict.fromkeys(must_include))
    used = {claimed[id_].instance for id_ in chosen if id_ in claimed}
    for id_ in sorted(set(available) & claimed.keys() - set(chosen), key=int):
        if len(chosen) < size and not (distinct and claimed[id_].instance in used):
            chosen.append(id_)
            used.add(claimed[id_].instance)
    left = sum(free if not distinct else name not in used for name, free in ledger.most_free_first(configuration))
    left -= sum(id_ not in claimed for id_ in must_include)
    fresh = sorted((id_ for id_ in set(available) - set(chosen) if id_ not in claimed and is_virtual_id(id_)), key=int)
    return chosen + fresh[: max(0, min(size - len(chosen), left))]
