"""The node's copy of the slots of shared devices, which the server owns.

Input: sessions with the server, its updates, and claims with the server's answers. Output: what the server has to be
asked, and which claims it revoked. The ledger of the node is kept accordingly. Owns which devices are shared, for which
of them the server has sent the slots, and which claims the server has not granted yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict, SlotLedger


class SharedSlots:
    def __init__(self, node: str, ledger: SlotLedger) -> None:
        self._node = node
        self._ledger = ledger
        self.connected = False
        self._shared: set[str] = set()
        self._received: set[str] = set()
        self._requested: dict[Slot, Claim] = {}

    # --- devices ---

    def __contains__(self, instance: str) -> bool:
        return instance in self._shared

    def add(self, instance: str) -> None:
        self._shared.add(instance)

    def remove(self, instance: str) -> None:
        """The device is gone here, so the server no longer sends what other nodes do with it."""
        self._received.discard(instance)
        claims = self._ledger.claims(instance).items()
        self._ledger.release({slot: claim for slot, claim in claims if claim.node != self._node})
        self._forget_if_unused(instance)

    def _forget_if_unused(self, instance: str) -> None:
        if instance not in self._ledger and not self._ledger.claims(instance):
            self._shared.discard(instance)

    # --- updates of the server ---

    def session_began(self) -> None:
        """The copy may be outdated: it accepts no claims before the server has sent the slots again."""
        self.connected = True
        self._received.clear()
        for instance in self._shared:
            self._ledger.set_online(instance, False)

    def is_known(self, instance: str) -> bool:
        """Whether the claims on the device are known, so that it can be claimed."""
        return instance not in self._shared or instance in self._received

    def received(self, instance: str) -> None:
        self._received.add(instance)

    def overwrite(self, instance: str, claims: Mapping[Slot, Claim]) -> dict[Slot, Claim]:
        """Take over the server's claims. Returns the claims of this node that the server does not have."""
        held = self._ledger.claims(instance)
        ended = {slot: claim for slot, claim in held.items() if claims.get(slot) != claim}
        ended |= self._moved(instance, claims)
        self._ledger.release(ended)
        self._ledger.restore(claims)
        own = {slot: claim for slot, claim in ended.items() if claim.node == self._node}
        return {slot: claim for slot, claim in own.items() if self._requested.get(slot) != claim}

    def _moved(self, instance: str, claims: Mapping[Slot, Claim]) -> dict[Slot, Claim]:
        """A virtual id has one slot; a claim with the same id on another device is outdated."""
        configuration = self._ledger.configuration(instance)
        moved: dict[Slot, Claim] = {}
        for slot, claim in claims.items():
            other = self._ledger.virtual_slot(configuration, claim.node, claim.virtual_id or "")
            if other is not None and other != slot and (known := self._ledger.claim(other)) is not None:
                moved[other] = known
        return moved

    # --- claims ---

    @property
    def requested(self) -> Iterable[Slot]:
        """Claimed here, but not granted yet."""
        return self._requested

    def begin(self, changes: Sequence[SlotChange]) -> tuple[list[SlotChange], list[SlotChange]]:
        """Claim the slots here. Returns the claims that are new, and those of them that the server has to grant."""
        new = self._ledger.apply(changes)
        requested = [change for change in new if change.slot.instance in self._shared]
        self._requested |= {change.slot: change.claim for change in requested}
        return new, requested

    def finish(self, new: Sequence[SlotChange], granted: bool) -> bool:
        """Process the server's answer, or that there is none. Returns whether the slots are claimed now.

        They are not if the device vanished in the meantime. Another claim on the same slot may be requested by now; it
        waits for its own answer.
        """
        claims = {change.slot: change.claim for change in new}
        for slot, claim in claims.items():
            if self._requested.get(slot) == claim:
                del self._requested[slot]
        if granted:
            with suppress(SlotConflict):
                self._ledger.restore(claims)
                return True
        self._ledger.release(claims)
        return False

    def release(self, claims: Mapping[Slot, Claim]) -> list[SlotChange]:
        """End the claims. Returns what has to be reported to the server."""
        shared = [change for change in self._ledger.release(claims) if change.slot.instance in self._shared]
        for change in shared:
            self._forget_if_unused(change.slot.instance)
        return shared

    def unseen_claims(self, seen: Iterable[str]) -> dict[Slot, Claim]:
        """The claims of this node on shared devices that it does not see."""
        unseen = self._shared.difference(seen)
        claims = self._ledger.claims_on(self._node).items()
        return {slot: claim for slot, claim in claims if slot.instance in unseen}
