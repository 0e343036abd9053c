"""What a node does with the server's word about shared slots, above all if it comes late."""

from ankaios.devices.core.shared_slots import SharedSlots
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotLedger

SLOT, OTHER = Slot("cam-1", 0), Slot("cam-1", 1)
FIRST, SECOND = Claim("a", "0", "w1"), Claim("a", "0", "w2")


def a_node(capacity: int = 1) -> tuple[SharedSlots, SlotLedger]:
    ledger = SlotLedger()
    ledger.open("cam-1", "cam", capacity)
    shared = SharedSlots("a", ledger)
    shared.add("cam-1")
    shared.session_began()
    shared.received("cam-1")
    ledger.set_online("cam-1", True)
    return shared, ledger


def test_a_late_answer_does_not_touch_the_claim_of_the_next_one() -> None:
    """The first claim was overwritten by a truth that was on the way; the slot was free again and is asked anew."""
    for granted in (True, False):
        shared, ledger = a_node()
        _, first = shared.begin([SlotChange(SLOT, FIRST)])
        shared.overwrite("cam-1", {})
        _, second = shared.begin([SlotChange(SLOT, SECOND)])
        assert not shared.finish(first, granted)
        assert (list(shared.requested), ledger.claim(SLOT)) == ([SLOT], SECOND)
        assert shared.overwrite("cam-1", {}) == {}  # still waits for its own answer, so nothing was taken away
        assert shared.finish(second, granted=True)
        assert (list(shared.requested), ledger.claim(SLOT)) == ([], SECOND)


def test_what_is_granted_of_a_device_that_vanished_is_not_ours() -> None:
    shared, ledger = a_node()
    _, asked = shared.begin([SlotChange(SLOT, FIRST)])
    shared.overwrite("cam-1", {})
    ledger.close("cam-1")
    shared.remove("cam-1")
    assert not shared.finish(asked, granted=True)
    assert ledger.claims_of("w1") == {}


def test_if_one_slot_of_several_is_not_ours_none_is() -> None:
    shared, ledger = a_node(capacity=2)
    _, asked = shared.begin([SlotChange(SLOT, FIRST), SlotChange(OTHER, Claim("a", "1", "w1"))])
    shared.overwrite("cam-1", {SLOT: Claim("b"), OTHER: Claim("a", "1", "w1")})
    assert not shared.finish(asked, granted=True)
    assert ledger.claims("cam-1") == {SLOT: Claim("b")}


def test_a_device_is_forgotten_when_its_last_user_lets_go_or_had_none() -> None:
    shared, ledger = a_node()
    shared.begin([SlotChange(SLOT, FIRST)])
    ledger.close("cam-1")
    shared.remove("cam-1")
    assert "cam-1" in shared
    assert shared.unseen_claims([]) == {SLOT: FIRST}
    assert [change.takes for change in shared.release({SLOT: FIRST})] == [False]  # the server is told all the same
    assert "cam-1" not in shared
    shared, ledger = a_node()
    shared.overwrite("cam-1", {SLOT: Claim("b")})
    ledger.close("cam-1")
    shared.remove("cam-1")
    assert "cam-1" not in shared
