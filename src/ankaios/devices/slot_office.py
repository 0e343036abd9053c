"""Where plugins and workloads of a node get slots and give them back.

In: requests with virtual ids, from plugins, and claims that a plan asks for. Out: what containers receive. Slots of
local devices are settled here at once; those of shared devices only with the server's word.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from ankaios.devices.core.allocation import (
    Assignment,
    Denied,
    allocate_configuration,
    allocate_instance,
    changes_of,
    preferred_ids,
)
from ankaios.devices.core.extended_resource import pick
from ankaios.devices.core.grants import Grant, GrantedDevice, grant_for
from ankaios.devices.core.node_devices import NodeDevices, Touched
from ankaios.devices.core.resource_views import AdvertisedList
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.plugin_service import AllocationDenied, Requests
from ankaios.devices.server_slots import ServerSlots

ATTEMPTS = 5
PAUSE_SECONDS = 1.0  # short, since all else that the workload is told waits meanwhile


class SlotOffice:
    """`note` is told what a claim or release touched."""

    def __init__(self, node: NodeDevices, server: ServerSlots, note: Callable[[Touched], None]) -> None:
        self.node = node
        self._server = server
        self._note = note
        self._resting: dict[str, float] = {}  # owners whose last attempt was undone, and until when they pause

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

    async def allocate(self, target: str, by_configuration: bool, requests: Requests, owner: str) -> list[Grant]:
        """Claim what these ids stand for; ids that are held already are only described.

        If another node was faster, the ledger is right by now and it is tried again.
        """
        reason = ""
        for _ in range(ATTEMPTS):
            found = self._assign(target, by_configuration, requests, owner)
            if isinstance(found, Denied):
                raise AllocationDenied(found.reason)
            changes = changes_of(found, self.node.node, owner, by_configuration=by_configuration)
            refusal = await self.claim(changes)
            if refusal is None:
                return [self._grant(target, by_configuration, assignment) for assignment in found]
            reason = refusal
        raise AllocationDenied(reason)

    def _assign(self, target: str, by_configuration: bool, requests: Requests, owner: str) -> list[Assignment] | Denied:
        ledger, node = self.node.ledger, self.node.node
        if not by_configuration:
            return allocate_instance(ledger, target, node, requests, owner)
        distinct = self._is_distinct(target)
        return allocate_configuration(ledger, target, node, requests, distinct=distinct, owner=owner)

    def _is_distinct(self, configuration: str) -> bool:
        known = self.node.configurations.get(configuration)
        return known is None or known.distinct

    def _grant(self, target: str, by_configuration: bool, assignment: Assignment) -> Grant:
        name = target if by_configuration else self.node.ledger.configuration(target)
        configuration = self.node.configurations.get(name)
        devices = self.described(assignment, by_configuration)
        return grant_for(devices, configuration.broker_properties if configuration else {})

    def described(self, assignment: Mapping[str, Slot], by_configuration: bool) -> list[GrantedDevice]:
        return [
            GrantedDevice(instance, slot, id_ if by_configuration else None)
            for id_, slot in assignment.items()
            if (instance := self.node.instance(slot.instance)) is not None
        ]

    # --- claims ---

    async def claim(self, changes: Sequence[SlotChange]) -> str | None:
        """Take all the slots or none. None if they are ours now, else why not."""
        await self._pause({change.claim.owner for change in changes})
        try:
            settled, asked = self.node.begin(changes)
        except SlotConflict as conflict:
            return str(conflict)
        if asked:
            granted = False
            try:
                refusal = await self._server.ask(asked)
                granted = refusal is None
            finally:
                self.node.settle(asked, granted)
                if not granted:
                    self.node.undo(settled)
            if refusal is not None:
                return refusal
        # Fewer slots are free now: nobody need try again, least of all one whose next step fails.
        self._note_slots((change.slot for change in (*settled, *asked)), quiet=True)
        return None

    def give_back(self, claims: Mapping[Slot, Claim], quiet: bool = False) -> None:
        """`quiet`: an attempt is undone, because a step after the claim failed."""
        if quiet:
            self._rest({claim.owner for claim in claims.values()})
        self._server.tell(self.node.end(claims))
        self._note_slots(claims, quiet)

    def _rest(self, owners: Iterable[str]) -> None:
        """An undone attempt changed lists twice, so it comes back as news that makes its own owner try again."""
        now = asyncio.get_running_loop().time()
        self._resting = {owner: until for owner, until in self._resting.items() if until > now}
        self._resting |= dict.fromkeys(owners, now + PAUSE_SECONDS)

    async def _pause(self, owners: Iterable[str]) -> None:
        until = max((self._resting.pop(owner, 0.0) for owner in owners), default=0.0)
        # Without a pause nobody else comes between a plan and its claim.
        if (left := until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)

    def _note_slots(self, slots: Iterable[Slot], quiet: bool = False) -> None:
        touched = self.node.touched_by(slots)
        touched.quiet = quiet
        if touched:
            self._note(touched)
