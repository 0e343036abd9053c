"""What every workload holds: in memory, in the ledger, on disk, and as a file the workload can read.

In: devices that were given to a workload, and workloads that let go or lose something. Out: what each container
receives. Owned: the records, which outlive the agent, and who is about to get one.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Unavailable
from ankaios.devices.claim_store import Allocation, ClaimStore, HeldSlot, Record
from ankaios.devices.core.grants import Allocated, merged
from ankaios.devices.core.slot_ledger import Slot, SlotConflict
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.devices_files import DevicesFiles
from ankaios.devices.slot_office import SlotOffice

log = logging.getLogger(__name__)


class Holdings:
    def __init__(self, office: SlotOffice, manager: DeviceManager, store: ClaimStore, folder: Path) -> None:
        self._office = office
        self._node = office.node
        self._manager = manager
        self._store = store
        self._files = DevicesFiles(folder)
        self.records: dict[str, Record] = {}
        self.under_way: set[str] = set()  # owners who claim devices but have no record yet

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

    # --- what is so ---

    def holds(self, owner: str, slot: Slot) -> bool:
        """Whether the workload counts on this slot."""
        record = self.records.get(owner)
        return record is not None and any(held.slot == slot for held in record.slots)

    def is_lost(self, record: Record) -> bool:
        return record.lost or any(self._node.ledger.claim(held.slot) != held.claim for held in record.slots)

    def is_usable(self, allocation: Allocation) -> bool:
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

    async def keep(self, owner: str, allocations: Sequence[Allocation]) -> tuple[DeviceGrant, ...]:
        """Write it down before anybody uses it. `SlotConflict` if meanwhile something of it went to somebody else."""
        record = Record(owner, tuple(allocations), tuple(self._held(owner)))
        grants = await asyncio.to_thread(self._write, record, self._described(record))
        own = [it for it in allocations if self._node.wish(it.resource, 0) is not None]
        if self.is_lost(record) or len(record.slots) < sum(len(it.ids) for it in own):
            raise SlotConflict(f"'{owner}' has lost a device while it was given")
        self.records[owner] = record
        return grants

    def _write(self, record: Record, described: Sequence[Sequence[Allocated]]) -> tuple[DeviceGrant, ...]:
        """In a thread: a slow disk must not hold up other workloads."""
        together: list[DeviceGrant] = []
        for number, container in enumerate(record.containers):
            mine = (it.grant for it in record.allocations if it.container == container)
            grant, conflicts = merged(mine, container)
            for conflict in conflicts:
                log.warning("devices of '%s': %s", record.owner, conflict)
            together.append(self._files.write(record.owner, number, grant, described[number]))
        if record != self.records.get(record.owner):
            self._store.save(record)
        return tuple(together)

    def _described(self, record: Record) -> list[list[Allocated]]:
        """For each container."""
        return [
            [self._allocated(it) for it in record.allocations if it.container == container]
            for container in record.containers
        ]

    def _allocated(self, allocation: Allocation) -> Allocated:
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

    # --- what is let go ---

    def release(self, owner: str, begun: Sequence[Allocation] = ()) -> None:
        """Nothing held is fine too. `begun`: what was to be given, but never became a record."""
        record = self.records.pop(owner, None)
        allocations = record.allocations if record else begun
        for allocation in allocations:
            self._manager.unmark(allocation.resource, allocation.ids, owner)
        self._office.give_back(self._node.ledger.claims_of(owner))
        self._store.remove(owner)
        self._files.remove(owner, len({allocation.container for allocation in allocations}))

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
