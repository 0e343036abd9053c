"""Where plugins and workloads of a node get slots and give them back.

In: requests with virtual ids, from plugins, and claims that a plan asks for. Out: what containers receive. Slots of
local devices are settled here at once; those of shared devices only with the server's word.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from ankaios.common.device_grant import DeviceGrant
from ankaios.devices.core.allocation import (
    Assignment,
    Denied,
    allocate_configuration,
    allocate_instance,
    changes_of,
    preferred_ids,
)
from ankaios.devices.core.extended_resource import pick
from ankaios.devices.core.grants import GrantedDevice, grant_for
from ankaios.devices.core.node_devices import NodeDevices, Touched
from ankaios.devices.core.resource_views import AdvertisedList
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.plugin_service import AllocationDenied, Requests
from ankaios.devices.server_slots import ServerAway, ServerSlots

ATTEMPTS = 5
ALLOCATE_SECONDS = 10.0  # a kubelet admits no other pod meanwhile


class SlotOffice:
    """`note` is told what a claim or release touched."""

    def __init__(self, node: NodeDevices, server: ServerSlots, note: Callable[[Touched], None]) -> None:
        self.node = node
        self._server = server
        self._note = note

    # --- for plugins ---

    def advertised(self, target: str, by_configuration: bool) -> AdvertisedList:
        return self.node.advertised(target, by_configuration)

    def preferred(
        self, target: str, by_configuration: bool, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> list[str]:
        if not by_configuration:
            return pick(available, must_include, size)
        ledger, node = self.node.ledger, self.node.node
        distinct = self._is_distinct(target)
        return preferred_ids(ledger, target, node, available, must_include, size, distinct=distinct)

    async def allocate(self, target: str, by_configuration: bool, requests: Requests, owner: str) -> list[DeviceGrant]:
        """Claim what these ids stand for; ids that are held already are only described."""
        try:
            async with asyncio.timeout(ALLOCATE_SECONDS):
                found = await self._claim_ids(target, by_configuration, requests, owner)
        except TimeoutError as error:
            raise AllocationDenied(f"not settled with the server within {ALLOCATE_SECONDS:.0f} s") from error
        except ServerAway as fault:
            raise AllocationDenied(str(fault)) from fault
        return [self._grant(target, by_configuration, assignment) for assignment in found]

    async def _claim_ids(
        self, target: str, by_configuration: bool, requests: Requests, owner: str
    ) -> Sequence[Assignment]:
        """If another node was faster, the ledger is right by now, and other slots may do."""
        reason = ""
        for _ in range(ATTEMPTS):
            found = self._assign(target, by_configuration, requests, owner)
            if isinstance(found, Denied):
                raise AllocationDenied(found.reason)
            try:
                await self.claim(changes_of(found, self.node.node, owner, by_configuration=by_configuration))
                return found
            except SlotConflict as conflict:
                reason = str(conflict)
        raise AllocationDenied(f"others were faster {ATTEMPTS} times, the last time: {reason}")

    def _assign(self, target: str, by_configuration: bool, requests: Requests, owner: str) -> list[Assignment] | Denied:
        ledger, node = self.node.ledger, self.node.node
        if not by_configuration:
            return allocate_instance(ledger, target, node, requests, owner)
        distinct = self._is_distinct(target)
        return allocate_configuration(ledger, target, node, requests, distinct=distinct, owner=owner)

    def _is_distinct(self, configuration: str) -> bool:
        known = self.node.configurations.get(configuration)
        return known is None or known.distinct

    def _grant(self, target: str, by_configuration: bool, assignment: Assignment) -> DeviceGrant:
        name = target if by_configuration else self.node.ledger.configuration(target)
        configuration = self.node.configurations.get(name)
        devices = self.described(assignment, by_configuration)
        if len(devices) < len(assignment):  # its claim stays until who holds it lets go, but there is nothing to give
            raise AllocationDenied(f"a device of '{name}' vanished while it was given")
        return grant_for(devices, configuration.broker_properties if configuration else {})

    def described(self, assignment: Mapping[str, Slot], by_configuration: bool) -> list[GrantedDevice]:
        return [
            GrantedDevice(instance, slot, id_ if by_configuration else None)
            for id_, slot in assignment.items()
            if (instance := self.node.instance(slot.instance)) is not None
        ]

    # --- claims ---

    async def claim(self, changes: Sequence[SlotChange]) -> None:
        """Take all the slots or none: `SlotConflict` if somebody else was faster, `ServerAway` if nobody can say."""
        settled, asked = self.node.begin(changes)
        try:
            if asked:
                await self._ask(settled, asked)
        finally:
            # Also if nothing came of it: somebody may have been refused because of what was taken for a moment.
            self._note_slots(change.slot for change in (*settled, *asked))

    async def _ask(self, settled: Sequence[SlotChange], asked: Sequence[SlotChange]) -> None:
        granted = is_ours = False
        try:
            await self._server.ask(asked)
            granted = True
        finally:
            is_ours = self.node.settle(asked, granted)
            if not is_ours:
                self.node.undo(settled)
        if not is_ours:
            self._server.tell([change.reversed() for change in asked])
            raise SlotConflict(f"cannot claim slot '{asked[0].slot}': the device vanished while the server was asked")

    def give_back(self, claims: Mapping[Slot, Claim]) -> None:
        self._server.tell(self.node.end(claims))
        self._note_slots(claims)

    def _note_slots(self, slots: Iterable[Slot]) -> None:
        if touched := self.node.touched_by(slots):
            self._note(touched)
