"""Gets a workload all the devices it asks for, or says what it waits for.

In: the resource requests of a workload. Out: what each of its containers receives. What can be known without asking
anybody is looked at first; then the slots of our own devices are claimed together, so that a workload never holds a
part of what it needs; then each plugin, ours and those of others, is asked as a kubelet would.

[impl->akri~workload-requests-resources~1]
[impl->akri~denied-workload-waits-and-recovers~1]
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Unavailable
from ankaios.common.workload import ResourceRequest
from ankaios.devices.claim_store import Allocation, Record
from ankaios.devices.core.allocation import Denied
from ankaios.devices.core.slot_ledger import SlotConflict
from ankaios.devices.core.workload_plan import Need, Wish, needs_of, waits_for
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.holdings import Holdings
from ankaios.devices.slot_office import SlotOffice

ATTEMPTS = 5


class Waiting(Struct, frozen=True):
    """The workload cannot have its devices now; the reason is for people.

    `failed`: nothing is missing, but somebody who was asked refused or was silent.
    """

    reason: str
    failed: bool = False


class Acquisition:
    def __init__(self, office: SlotOffice, manager: DeviceManager, holdings: Holdings) -> None:
        self._office = office
        self._node = office.node
        self._manager = manager
        self._holdings = holdings

    async def acquire(self, owner: str, requests: Sequence[ResourceRequest]) -> tuple[DeviceGrant, ...] | Waiting:
        """What is held already is kept, if it is what is asked for. If others are faster, it is looked again."""
        needs = needs_of(requests)
        fault: Unavailable | None = None
        for _ in range(ATTEMPTS):
            self._let_go_of_other_things(owner, needs)
            if reason := self.obstacle(owner, needs):
                return Waiting(reason)
            try:
                return await self._attempt(owner, needs)
            except SlotConflict as conflict:
                fault = conflict
            except Unavailable as error:
                fault = error
                break
        reason = self.obstacle(owner, needs)
        return Waiting(reason) if reason else Waiting(str(fault), failed=True)

    def _let_go_of_other_things(self, owner: str, needs: Sequence[Need]) -> None:
        record = self._holdings.records.get(owner)
        if record is not None and not self._fits(record, needs):
            self._holdings.release(owner)

    def _fits(self, record: Record, needs: Sequence[Need]) -> bool:
        if self._holdings.is_lost(record):
            return False
        held = {(it.container, it.resource): len(it.ids) for it in record.allocations}
        return held == {(need.container, need.resource): need.quantity for need in needs}

    # --- what stands in the way ---

    def obstacle(self, owner: str, needs: tuple[Need, ...]) -> str | None:
        """What the workload waits for, as far as that is known here; None if it is worth a try."""
        record = self._holdings.records.get(owner)
        if record is not None and self._fits(record, needs):
            return self._absence(record)
        own, foreign = self._split(needs)
        if shortage := self._shortage(foreign):
            return shortage
        plan = self._node.plan([wish for _, wish in own], owner)
        if isinstance(plan, Denied):
            return plan.reason
        return self._missing_plugin(wish.resource for _, wish in own)

    def _split(self, needs: Sequence[Need]) -> tuple[list[tuple[Need, Wish]], list[Need]]:
        """Those that our own devices can meet, and those for plugins of others."""
        found = [(need, self._node.wish(need.resource, need.quantity)) for need in needs]
        own = [(need, wish) for need, wish in found if wish is not None]
        return own, [need for need, wish in found if wish is None]

    def _absence(self, record: Record) -> str | None:
        """The devices it holds must be usable before every start."""
        for allocation in record.allocations:
            if not self._holdings.is_usable(allocation):
                wish = self._node.wish(allocation.resource, 0)
                reasons = self._node.reasons([wish.configuration] if wish else ())
                return "; ".join([f"waits for its devices of {allocation.resource} to return", *reasons])
        return self._missing_plugin(allocation.resource for allocation in record.allocations)

    def _shortage(self, needs: Sequence[Need]) -> str | None:
        wanted: Counter[str] = Counter()
        for need in needs:
            wanted[need.resource] += need.quantity
        for resource, quantity in wanted.items():
            free = self._manager.free(resource)
            if free < quantity:
                return waits_for(resource, quantity, self._manager.count(resource).allocatable, free)
        return None

    def _missing_plugin(self, resources: Iterable[str]) -> str | None:
        absent = (name for name in resources if not self._manager.is_ready(name))
        return next((f"waits for the device plugin of {name}" for name in absent), None)

    # --- a try ---

    async def _attempt(self, owner: str, needs: Sequence[Need]) -> tuple[DeviceGrant, ...]:
        record = self._holdings.records.get(owner)
        if record is None:
            return await self._obtain(owner, needs)
        return await self._start_again(record)

    async def _obtain(self, owner: str, needs: Sequence[Need]) -> tuple[DeviceGrant, ...]:
        self._office.give_back(self._node.ledger.claims_of(owner))  # from an attempt that was cut short
        own, foreign = self._split(needs)
        allocations: list[Allocation] = []
        self._holdings.under_way.add(owner)
        try:
            await self._pick_foreign(owner, foreign, allocations)
            await self._claim_own(owner, own, allocations)
            given = [await self._allocated(owner, it) for it in allocations]
            await self._pre_start(allocations)
            return await self._holdings.keep(owner, given)
        except BaseException:
            self._holdings.release(owner, allocations)
            raise
        finally:
            self._holdings.under_way.discard(owner)

    async def _pick_foreign(self, owner: str, needs: Sequence[Need], allocations: list[Allocation]) -> None:
        for need in needs:
            ids = await self._manager.pick(need.resource, need.quantity, owner)
            if not ids:
                raise SlotConflict(f"others were faster to get {need.resource}")
            allocations.append(Allocation(need.resource, need.container, tuple(ids)))

    async def _claim_own(self, owner: str, own: Sequence[tuple[Need, Wish]], allocations: list[Allocation]) -> None:
        plan = self._node.plan([wish for _, wish in own], owner)
        if isinstance(plan, Denied):
            raise SlotConflict(plan.reason)
        await self._office.claim(plan.changes)
        for (need, _), assignment in zip(own, plan.assignments, strict=True):
            self._manager.mark(need.resource, list(assignment), owner)
            allocations.append(Allocation(need.resource, need.container, tuple(assignment)))

    async def _start_again(self, record: Record) -> tuple[DeviceGrant, ...]:
        """As a kubelet does when a container starts again: what plugins of others gave is used as it is.

        A device of ours may have come back as another one, so it is asked anew what it gives.
        """
        given = [
            it if self._node.wish(it.resource, 0) is None else await self._allocated(record.owner, it)
            for it in record.allocations
        ]
        await self._pre_start(given)
        return await self._holdings.keep(record.owner, given)

    async def _allocated(self, owner: str, allocation: Allocation) -> Allocation:
        return replace(allocation, grant=await self._manager.allocate(allocation.resource, allocation.ids, owner))

    async def _pre_start(self, allocations: Iterable[Allocation]) -> None:
        """Plugins may want to do something before every start."""
        for allocation in allocations:
            await self._manager.pre_start(allocation.resource, allocation.ids)
