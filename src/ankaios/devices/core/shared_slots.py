"""The slots of shared devices, as a node knows them: the server decides, here is a copy of what it said.

In come sessions that begin and end, truths of the server, claims and its answers to them; the node's ledger is kept
accordingly. Owned: which devices are shared, of which the server told the slots, and which claims it has yet to grant.
"""

from collections.abc import Iterable, Mapping, Sequence

from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict, SlotLedger


class SharedSlots:
    def __init__(self, node: str, ledger: SlotLedger) -> None:
        self._node = node
        self._ledger = ledger
        self.connected = False
        self._shared: set[str] = set()
        self._told: set[str] = set()
        self._pending: dict[Slot, Claim] = {}

    # --- devices ---

    def __contains__(self, instance: str) -> bool:
        return instance in self._shared

    def add(self, instance: str) -> None:
        self._shared.add(instance)

    def vanished(self, instance: str) -> None:
        """What other nodes do with a device that is not seen here is not told any more."""
        self._told.discard(instance)
        claims = self._ledger.claims(instance).items()
        self._ledger.apply([SlotChange(slot, it, takes=False) for slot, it in claims if it.node != self._node])
        self._forget_if_unused(instance)

    def _forget_if_unused(self, instance: str) -> None:
        if instance not in self._ledger and not self._ledger.claims(instance):
            self._shared.discard(instance)

    # --- what the server says ---

    def session_began(self) -> None:
        """What is known may be old: nothing is given out before the server told it anew."""
        self.connected = True
        self._told.clear()
        for instance in self._shared:
            self._ledger.set_online(instance, False)

    def is_told(self, instance: str) -> bool:
        """Whether it is known who uses the device, so that it can be given out."""
        return instance not in self._shared or instance in self._told

    def told(self, instance: str) -> None:
        self._told.add(instance)

    def overwrite(self, instance: str, truth: Mapping[Slot, Claim]) -> dict[Slot, Claim]:
        """Make the ledger say so. Returns the claims of this node that the server gave to somebody else or forgot."""
        held = self._ledger.claims(instance)
        ended = {slot: claim for slot, claim in held.items() if truth.get(slot) != claim}
        ended |= self._moved(instance, truth)
        self._ledger.apply([SlotChange(slot, claim, takes=False) for slot, claim in ended.items()])
        self._ledger.apply([SlotChange(slot, claim) for slot, claim in truth.items()], restore=True)
        mine = {slot: claim for slot, claim in ended.items() if claim.node == self._node}
        return {slot: claim for slot, claim in mine.items() if self._pending.get(slot) != claim}

    def _moved(self, instance: str, truth: Mapping[Slot, Claim]) -> dict[Slot, Claim]:
        """A virtual id has one slot; if it turns up here, what was told of it elsewhere is history."""
        configuration = self._ledger.configuration(instance)
        moved: dict[Slot, Claim] = {}
        for slot, claim in truth.items():
            other = self._ledger.virtual_slot(configuration, claim.node, claim.virtual_id or "")
            if other is not None and other != slot and (known := self._ledger.claim(other)) is not None:
                moved[other] = known
        return moved

    # --- claims ---

    @property
    def pending(self) -> Iterable[Slot]:
        """Claimed here, but not granted yet."""
        return self._pending

    def begin(self, changes: Sequence[SlotChange]) -> tuple[list[SlotChange], list[SlotChange]]:
        """Take the slots here. Returns what is settled with that, and what the server has to be asked for."""
        applied = self._ledger.apply(changes)
        asked = [change for change in applied if change.slot.instance in self._shared]
        self._pending |= {change.slot: change.claim for change in asked if change.takes}
        return [change for change in applied if change not in asked], asked

    def settle(self, asked: Sequence[SlotChange], granted: bool) -> bool:
        """The server answered, or never will. Returns whether the slots are ours now.

        They may not be, though granted, if the device vanished meanwhile. And somebody else may have begun to ask for
        the same slot since then: that claim waits for its own answer.
        """
        for change in asked:
            if self._pending.get(change.slot) == change.claim:
                del self._pending[change.slot]
        if granted and self._has_all(asked):
            return True
        self.undo(asked)
        return False

    def _has_all(self, asked: Sequence[SlotChange]) -> bool:
        try:
            self._ledger.apply(asked, restore=True)
        except SlotConflict:
            return False
        return True

    def undo(self, changes: Iterable[SlotChange]) -> None:
        self._ledger.apply([change.reversed() for change in changes])

    def end(self, claims: Mapping[Slot, Claim]) -> list[SlotChange]:
        """Let go. Returns what the server has to be told."""
        ended = self._ledger.apply([SlotChange(slot, claim, takes=False) for slot, claim in claims.items()])
        told = [change for change in ended if change.slot.instance in self._shared]
        for change in told:
            self._forget_if_unused(change.slot.instance)
        return told

    def unseen_claims(self, seen: Iterable[str]) -> dict[Slot, Claim]:
        """What this node uses of shared devices that are gone."""
        unseen = self._shared.difference(seen)
        claims = self._ledger.claims_on(self._node).items()
        return {slot: claim for slot, claim in claims if slot.instance in unseen}
