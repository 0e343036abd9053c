"""Gets a workload all the devices it asks for, or says what it waits for.

In: the resource requests of a workload. Out: what each of its containers receives. Owned: what every workload holds.
The slots of our own devices are claimed together before any plugin is asked, so that a workload never holds a part of
what it needs; then each plugin, ours and those of others, is asked as a kubelet would.

[impl->akri~workload-requests-resources~1]
[impl->akri~denied-workload-waits-and-recovers~1]
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from ankaios.common.dataclass import dataclass, replace
from ankaios.common.errors import Unavailable
from ankaios.common.workload import ResourceRequest
from ankaios.devices.claim_store import Allocation, ClaimStore, HeldSlot, Record
from ankaios.devices.core.allocation import Denied
from ankaios.devices.core.grants import Allocated, Grant, merged
from ankaios.devices.core.slot_ledger import Slot, SlotConflict
from ankaios.devices.core.workload_plan import Plan, Wish, waits_for
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.devices_files import DevicesFiles
from ankaios.devices.server_slots import NO_ANSWER
from ankaios.devices.slot_office import ATTEMPTS, SlotOffice

AWAITS_SERVER = "the server has not yet said who uses its shared devices"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The workload cannot have its devices now; the reason is for people."""

    reason: str


class _NotYet(Unavailable):
    """Something is missing; nothing was taken."""


@dataclass(frozen=True, slots=True)
class _Need:
    container: str | None
    resource: str
    quantity: int


def needs_of(requests: Sequence[ResourceRequest]) -> list[_Need]:
    """One need for each container and resource; the same one twice is one of both."""
    needs: dict[tuple[str | None, str], int] = {}
    for request in requests:
        if request.quantity:
            key = (request.container, request.resource)
            needs[key] = needs.get(key, 0) + request.quantity
    return [_Need(container, resource, quantity) for (container, resource), quantity in needs.items()]


class Acquisition:
    def __init__(self, office: SlotOffice, manager: DeviceManager, store: ClaimStore, folder: Path) -> None:
        self._office = office
        self._node = office.node
        self._manager = manager
        self._store = store
        self._files = DevicesFiles(folder)
        self.records: dict[str, Record] = {}
        self.under_way: set[str] = set()  # owners whose claims have no record yet
        self.failed = False  # some plugin failed: try again though nothing changed

    def restore(self) -> None:
        """What workloads hold from before a restart. If two had the same slot, it belongs to the later one."""
        self._files.open()
        for record in self._store.load():
            self.records[record.owner] = record
            for allocation in record.allocations:
                self._manager.mark(allocation.resource, allocation.ids, record.owner)
            for held in record.slots:
                self._remember(record.owner, held)

    def _remember(self, owner: str, held: HeldSlot) -> None:
        try:
            self._node.remember(held.instance, held.capacity, {held.slot: held.claim})
        except SlotConflict as conflict:
            log.warning("'%s' has lost a device: %s", owner, conflict)
            self.lose(owner, held.slot)

    # --- what is held ---

    def holds(self, owner: str, slot: Slot) -> bool:
        """Whether the workload counts on this slot."""
        record = self.records.get(owner)
        return record is not None and any(held.slot == slot for held in record.slots)

    def lose(self, owner: str, slot: Slot) -> None:
        """The slot is somebody else's now. Kept on record, a restart of the agent would take it from them."""
        if self.holds(owner, slot):
            record = self.records[owner]
            left = tuple(held for held in record.slots if held.slot != slot)
            self.records[owner] = replace(record, slots=left, lost=True)
            try:
                self._store.save(self.records[owner])
            except Unavailable as fault:
                log.warning("%s", fault)

    def _is_lost(self, record: Record) -> bool:
        return record.lost or any(self._node.ledger.claim(held.slot) != held.claim for held in record.slots)

    # --- acquire ---

    async def acquire(self, owner: str, requests: Sequence[ResourceRequest]) -> tuple[Grant, ...] | Waiting:
        needs = needs_of(requests)
        record = self.records.get(owner)
        if record is not None and (self._is_lost(record) or not _covers(record, needs)):
            self.release(owner)
            record = None
        try:
            if record is None:
                record = await self._obtain(owner, needs)
            else:
                record = await self._prepare_start(record)
        except Unavailable as fault:
            self.failed |= not isinstance(fault, _NotYet)
            return Waiting(str(fault))
        return record.grants

    async def _obtain(self, owner: str, needs: Sequence[_Need]) -> Record:
        self._office.give_back(self._node.ledger.claims_of(owner), quiet=True)  # from an attempt that was cut short
        allocations: list[Allocation] = []
        self.under_way.add(owner)
        try:
            await self._pick_foreign(owner, needs, allocations)
            await self._claim_own(owner, needs, allocations)
            grants = [await self._manager.allocate(it.resource, it.ids, owner) for it in allocations]
            for allocation in allocations:
                await self._manager.pre_start(allocation.resource, allocation.ids)
            record = await self._recorded(owner, allocations, grants)
        except BaseException:
            self._give_back(owner, allocations, quiet=True)
            self._files.remove(owner, len(allocations))
            raise
        finally:
            self.under_way.discard(owner)
        self.records[owner] = record
        return record

    async def _pick_foreign(self, owner: str, needs: Sequence[_Need], allocations: list[Allocation]) -> None:
        for need in needs:
            if self._wish(need) is None:
                ids = await self._manager.pick(need.resource, need.quantity, owner)
                if not ids:
                    count = self._manager.count(need.resource)
                    free = count.allocatable - count.allocated
                    raise _NotYet(waits_for(need.resource, need.quantity, count.allocatable, max(0, free)))
                allocations.append(Allocation(need.resource, need.container, tuple(ids)))

    async def _claim_own(self, owner: str, needs: Sequence[_Need], allocations: list[Allocation]) -> None:
        own = [(need, wish) for need in needs if (wish := self._wish(need)) is not None]
        if not own:
            return
        plan = await self._claimed_plan(owner, [wish for _, wish in own])
        for (need, _), assignment in zip(own, plan.assignments, strict=True):
            self._manager.mark(need.resource, list(assignment), owner)
            allocations.append(Allocation(need.resource, need.container, tuple(assignment)))

    async def _claimed_plan(self, owner: str, wishes: Sequence[Wish]) -> Plan:
        """If another node was faster, the ledger is right by now and a new plan is made.

        A server that does not answer is not asked again at once: all else that the workload is told waits meanwhile.
        """
        refusal: str | None = ""
        for _ in range(ATTEMPTS):
            plan = self._node.plan(wishes, owner)
            if isinstance(plan, Denied):
                awaits = any(self._node.awaits_server(configuration_of(wish)) for wish in wishes)
                raise _NotYet(f"{plan.reason}; {AWAITS_SERVER}" if awaits else plan.reason)
            for wish in wishes:
                self._check_ready(wish.resource)
            refusal = await self._office.claim(plan.changes)
            if refusal is None:
                return plan
            if refusal == NO_ANSWER:
                break
        raise Unavailable(f"waits for {wishes[0].resource}: {refusal}")

    def _check_ready(self, resource: str) -> None:
        if not self._manager.is_ready(resource):
            raise _NotYet(f"waits for the device plugin of {resource}")

    def _wish(self, need: _Need) -> Wish | None:
        return self._node.wish(need.resource, need.quantity)

    async def _prepare_start(self, record: Record) -> Record:
        """Before every start: the devices must be usable, and plugins may want to do something with them.

        A device of ours may have come back as another one, so it is asked anew what it gives; plugins of others are
        asked for that once, as a kubelet does, unless they share a workload with ours.
        """
        for allocation in record.allocations:
            if not self._is_usable(allocation):
                raise _NotYet(f"waits for its devices of {allocation.resource} to return")
            self._check_ready(allocation.resource)
        owner, allocations = record.owner, record.allocations
        if any(self._slots(allocation) is not None for allocation in allocations):
            grants = [await self._manager.allocate(it.resource, it.ids, owner) for it in allocations]
            record = self.records[owner] = await self._recorded(owner, allocations, grants)
        for allocation in allocations:
            await self._manager.pre_start(allocation.resource, allocation.ids)
        return record

    def _is_usable(self, allocation: Allocation) -> bool:
        slots = self._slots(allocation)
        if slots is None:
            return self._manager.are_healthy(allocation.resource, allocation.ids)
        return all(slot is not None and self._node.ledger.is_online(slot.instance) for slot in slots.values())

    def _slots(self, allocation: Allocation) -> dict[str, Slot | None] | None:
        """None if these are devices of somebody else's plugin."""
        wish = self._node.wish(allocation.resource, len(allocation.ids))
        if wish is None:
            return None
        if not wish.by_configuration:
            return {id_: Slot.parse(id_) for id_ in allocation.ids}
        ledger, node = self._node.ledger, self._node.node
        return {id_: ledger.virtual_slot(wish.target, node, id_) for id_ in allocation.ids}

    # --- what is given ---

    async def _recorded(self, owner: str, allocations: Sequence[Allocation], grants: Sequence[Grant]) -> Record:
        together: list[Grant] = []
        for number, container in enumerate(dict.fromkeys(allocation.container for allocation in allocations)):
            mine = [(a, g) for a, g in zip(allocations, grants, strict=True) if a.container == container]
            grant, conflicts = merged((grant for _, grant in mine), container)
            for conflict in conflicts:
                log.warning("devices of '%s': %s", owner, conflict)
            described = [self._described(allocation) for allocation, _ in mine]
            together.append(await asyncio.to_thread(self._files.write, owner, number, grant, described))
        record = Record(owner, tuple(allocations), tuple(together), tuple(self._held(owner)))
        if record != self.records.get(owner):
            await asyncio.to_thread(self._store.save, record)
        return record

    def _described(self, allocation: Allocation) -> Allocated:
        wish = self._node.wish(allocation.resource, 0)
        slots = self._slots(allocation) or {}
        known = {id_: slot for id_, slot in slots.items() if slot is not None}
        devices = self._office.described(known, wish is not None and wish.by_configuration)
        return Allocated(allocation.resource, allocation.ids, tuple(devices))

    def _held(self, owner: str) -> list[HeldSlot]:
        return [
            HeldSlot(slot, claim, instance, self._node.ledger.capacity(slot.instance))
            for slot, claim in self._node.ledger.claims_of(owner).items()
            if (instance := self._node.instance(slot.instance)) is not None
        ]

    # --- release ---

    def release(self, owner: str) -> None:
        """Let go of everything; nothing held is fine too."""
        record = self.records.pop(owner, None)
        self._give_back(owner, record.allocations if record else ())
        self._store.remove(owner)
        self._files.remove(owner, len(record.grants) if record else 0)

    def _give_back(self, owner: str, allocations: Sequence[Allocation], quiet: bool = False) -> None:
        for allocation in allocations:
            self._manager.unmark(allocation.resource, allocation.ids, owner)
        self._office.give_back(self._node.ledger.claims_of(owner), quiet)


def configuration_of(wish: Wish) -> str:
    return wish.target if wish.by_configuration else wish.target.rpartition("-")[0]


def _covers(record: Record, needs: Sequence[_Need]) -> bool:
    """Whether the record is what is asked for now."""
    held = {(it.container, it.resource): len(it.ids) for it in record.allocations}
    return held == {(need.container, need.resource): need.quantity for need in needs}
