"""Claims all devices that a workload requests, or none of them.

Input: the resource needs of a workload. Output: the grants for its containers, or the reason why it has to wait. A
claim is planned in one step: devices of this node in the ledger, devices of foreign plugins in their lists. Then it is
made and written to the claim file before the workload starts. Owns the claim records of all workloads.

[impl->akri~workload-requests-resources~1]
[impl->akri~denied-workload-waits-and-recovers~1]
"""

import asyncio
import logging
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Unavailable
from ankaios.devices.claim_store import Allocation, ClaimRecord, ClaimStore
from ankaios.devices.core.allocation import Denied
from ankaios.devices.core.claim_plan import ResourceNeed, SlotPlan
from ankaios.devices.core.grants import Allocated, grants_for, merge_grants
from ankaios.devices.core.inventory import claimed_through
from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.core.slot_ledger import Slot, SlotConflict
from ankaios.devices.foreign_devices import ForeignDevices
from ankaios.devices.host import WaitingForDevices
from ankaios.devices.slot_allocator import SlotAllocator

ATTEMPTS = 5

log = logging.getLogger(__name__)


class ClaimPlan(Struct, frozen=True):
    """How a claim can be made now. `own` and the assignments of `slots` are in the same order."""

    own: tuple[ResourceNeed, ...]
    slots: SlotPlan
    foreign: tuple[ResourceNeed, ...]


class WorkloadClaims:
    def __init__(self, node: NodeDevices, allocator: SlotAllocator, foreign: ForeignDevices, store: ClaimStore) -> None:
        self._node = node
        self._allocator = allocator
        self._foreign = foreign
        self._store = store
        self.records: dict[str, ClaimRecord] = {}
        self.in_progress: set[str] = set()  # owners with claims that are not recorded yet

    def restore(self) -> None:
        """Take over the records from before a restart. A slot in two records belongs to the newer one."""
        for record in self._store.load():
            self.records[record.owner] = record
            own = {claimed_through(held.slot, held.claim)[0] for held in record.slots}
            for allocation in record.allocations:
                if allocation.resource not in own:
                    self._foreign.restore(allocation.resource, allocation.ids, record.owner)
            for held in record.slots:
                try:
                    self._node.restore(held)
                except SlotConflict as conflict:
                    log.warning("'%s' has lost a device: %s", record.owner, conflict)
                    self.lose(record.owner, held.slot)

    # --- planning ---

    def plan(self, owner: str, needs: Sequence[ResourceNeed]) -> ClaimPlan | ClaimRecord | Denied:
        """How the needs can be met now: the present record if it meets them, else a new plan. Changes nothing."""
        record = self.records.get(owner)
        if record is not None and self._meets(record, needs):
            reason = self._missing_devices(record)
            return Denied(reason) if reason else record
        own = tuple(need for need in needs if self._node.is_own(need.resource))
        foreign = tuple(need for need in needs if need not in own)
        if reason := self._foreign.shortage(foreign):
            return Denied(reason)
        slots = self._node.plan(own, owner)
        return slots if isinstance(slots, Denied) else ClaimPlan(own, slots, foreign)

    def _meets(self, record: ClaimRecord, needs: Sequence[ResourceNeed]) -> bool:
        if self._is_lost(record):
            return False
        held = {(it.container, it.resource, it.where): len(it.ids) for it in record.allocations}
        return held == {(need.container, need.resource, need.where): need.quantity for need in needs}

    def _is_lost(self, record: ClaimRecord) -> bool:
        return record.lost or any(self._node.ledger.claim(held.slot) != held.claim for held in record.slots)

    def _missing_devices(self, record: ClaimRecord) -> str | None:
        """The devices of a record must be usable before each start."""
        for allocation in record.allocations:
            if not self._is_usable(allocation):
                reasons = [*self._node.reasons([allocation.resource])]
                if not self._node.is_own(allocation.resource):
                    reasons += filter(None, [self._foreign.outage(allocation.resource)])
                return "; ".join([f"waits for its devices of {allocation.resource} to return", *reasons])
        foreign = (it.resource for it in record.allocations if not self._node.is_own(it.resource))
        outages = ((resource, self._foreign.outage(resource)) for resource in foreign)
        return next((f"waits for the device plugin of {resource}: {why}" for resource, why in outages if why), None)

    def _is_usable(self, allocation: Allocation) -> bool:
        if not self._node.is_own(allocation.resource):
            return self._foreign.are_healthy(allocation.resource, allocation.ids)
        slots = self._node.slots(allocation.resource, allocation.ids).values()
        return all(slot is not None and self._node.is_usable(slot.instance) for slot in slots)

    # --- claiming ---

    async def acquire(self, owner: str, needs: Sequence[ResourceNeed]) -> tuple[DeviceGrant, ...] | WaitingForDevices:
        """Plan and make the claim; plan again if another claim was first. A record that meets the needs is kept."""
        fault: Unavailable | None = None
        for _ in range(ATTEMPTS):
            self._release_other(owner, needs)
            plan = self.plan(owner, needs)
            if isinstance(plan, Denied):
                return WaitingForDevices(plan.reason)
            try:
                return await (self._reuse(plan) if isinstance(plan, ClaimRecord) else self._claim(owner, plan))
            except SlotConflict as conflict:
                fault = conflict
            except Unavailable as error:
                fault = error
                break
        plan = self.plan(owner, needs)
        return WaitingForDevices(plan.reason) if isinstance(plan, Denied) else WaitingForDevices(str(fault), True)

    def _release_other(self, owner: str, needs: Sequence[ResourceNeed]) -> None:
        """Release a record that does not meet the needs, and slots of an earlier attempt that was cancelled."""
        record = self.records.get(owner)
        if record is None:
            self._allocator.release(self._node.ledger.claims_of(owner))
        elif not self._meets(record, needs):
            self.release(owner)

    async def _claim(self, owner: str, plan: ClaimPlan) -> tuple[DeviceGrant, ...]:
        allocations: list[Allocation] = []
        self.in_progress.add(owner)
        try:
            await self._allocator.claim(plan.slots.changes)
            for need, assignment in zip(plan.own, plan.slots.assignments, strict=True):
                allocations.append(Allocation(need.resource, need.container, tuple(assignment), where=need.where))
            await self._claim_foreign(owner, plan.foreign, allocations)
            return await self._record(owner, allocations)
        except BaseException:
            self.release(owner, allocations)
            raise
        finally:
            self.in_progress.discard(owner)

    async def _claim_foreign(self, owner: str, needs: Sequence[ResourceNeed], allocations: list[Allocation]) -> None:
        """Choose the devices for all needs, then call their plugins. `allocations` has all ids that are in use."""
        first = len(allocations)
        for need in needs:
            ids = await self._foreign.claim(need.resource, need.quantity, owner)
            if not ids:
                raise SlotConflict(f"other claims on {need.resource} were first")
            allocations.append(Allocation(need.resource, need.container, tuple(ids)))
        for number, allocation in enumerate(allocations[first:], first):
            grant = await self._foreign.allocate(allocation.resource, allocation.ids)
            allocations[number] = replace(allocation, grant=grant)
        await self._pre_start(allocations[first:])

    async def _reuse(self, record: ClaimRecord) -> tuple[DeviceGrant, ...]:
        """A container starts again with the devices of its workload. Grants of foreign plugins are used as they are."""
        await self._pre_start([it for it in record.allocations if not self._node.is_own(it.resource)])
        return await self._record(record.owner, record.allocations)

    async def _pre_start(self, allocations: Sequence[Allocation]) -> None:
        for allocation in allocations:
            await self._foreign.pre_start(allocation.resource, allocation.ids)

    # --- records ---

    async def _record(self, owner: str, allocations: Sequence[Allocation]) -> tuple[DeviceGrant, ...]:
        """Write the record before the devices are used. Raises `SlotConflict` if a slot was revoked in the meantime."""
        claims = self._node.ledger.claims_of(owner).items()
        slots = filter(None, (self._node.held_slot(slot, claim) for slot, claim in claims))
        record = ClaimRecord(owner, tuple(allocations), tuple(slots))
        contents = [self._content(record, container) for container in record.containers]
        grants = await asyncio.to_thread(self._write, record, contents)
        own_ids = sum(len(allocated.devices) for _, parts in contents for allocated in parts)
        if self._is_lost(record) or len(record.slots) < own_ids:
            raise SlotConflict(f"'{owner}' has lost a device while it was allocated")
        self.records[owner] = record
        return grants

    def _content(self, record: ClaimRecord, container: str | None) -> tuple[DeviceGrant, list[Allocated]]:
        """What a container receives, and the devices behind it.

        Grants of own devices are not part of the record: a device may have returned with another device node.
        """
        parts: list[Allocated] = []
        grants: list[DeviceGrant] = []
        for it in record.allocations:
            if it.container == container:
                is_foreign = self._foreign.holds(it.resource, it.ids, record.owner)
                devices = () if is_foreign else self._node.granted_devices(it.resource, it.ids)
                parts.append(Allocated(it.resource, it.ids, devices))
                grants += [it.grant] if is_foreign else []
        own = grants_for([device for allocated in parts for device in allocated.devices])
        grant, conflicts = merge_grants([*own, *grants], container)
        for conflict in conflicts:
            log.warning("devices of '%s': %s", record.owner, conflict)
        return grant, parts

    def _write(
        self, record: ClaimRecord, contents: Sequence[tuple[DeviceGrant, list[Allocated]]]
    ) -> tuple[DeviceGrant, ...]:
        """Runs in a thread: a slow disk must not delay other workloads."""
        grants = [
            self._store.write_devices_file(record.owner, number, grant, allocated)
            for number, (grant, allocated) in enumerate(contents)
        ]
        if record != self.records.get(record.owner):
            self._store.save(record)
        return tuple(grants)

    def holds(self, owner: str, slot: Slot) -> bool:
        """Whether the slot is part of the workload's record."""
        record = self.records.get(owner)
        return record is not None and any(held.slot == slot for held in record.slots)

    def release(self, owner: str, begun: Sequence[Allocation] = ()) -> None:
        """Release all devices of a workload. `begun`: allocations of a claim that was not recorded."""
        record = self.records.pop(owner, None)
        allocations = record.allocations if record else begun
        for allocation in allocations:
            self._foreign.release(allocation.resource, allocation.ids, owner)
        self._allocator.release(self._node.ledger.claims_of(owner))
        self._store.remove(owner, len({allocation.container for allocation in allocations}))

    def lose(self, owner: str, slot: Slot) -> None:
        """Remove a slot that another workload has now. In the file it would be claimed again after a restart."""
        if self.holds(owner, slot):
            record = self.records[owner]
            left = tuple(held for held in record.slots if held.slot != slot)
            self.records[owner] = replace(record, slots=left, lost=True)
            try:
                self._store.save(self.records[owner])
            except Unavailable as fault:
                log.warning("%s", fault)
