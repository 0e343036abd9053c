"""How a node uses the server's messages about shared slots, above all late ones."""

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


def test_a_late_answer_does_not_change_a_newer_claim() -> None:
    """The first claim was overwritten by an earlier message; the slot was free again and is requested again."""
    for granted in (True, False):
        shared, ledger = a_node()
        _, first = shared.begin([SlotChange(SLOT, FIRST)])
        shared.overwrite("cam-1", {})
        _, second = shared.begin([SlotChange(SLOT, SECOND)])
        assert not shared.finish(first, granted)
        assert (list(shared.requested), ledger.claim(SLOT)) == ([SLOT], SECOND)
        assert shared.overwrite("cam-1", {}) == {}  # still waits for its own answer, so nothing was revoked
        assert shared.finish(second, granted=True)
        assert (list(shared.requested), ledger.claim(SLOT)) == ([], SECOND)


def test_a_grant_for_a_removed_device_is_no_claim() -> None:
    shared, ledger = a_node()
    _, requested = shared.begin([SlotChange(SLOT, FIRST)])
    shared.overwrite("cam-1", {})
    ledger.close("cam-1")
    shared.remove("cam-1")
    assert not shared.finish(requested, granted=True)
    assert ledger.claims_of("w1") == {}


def test_if_one_slot_of_several_is_not_claimed_none_is_claimed() -> None:
    shared, ledger = a_node(capacity=2)
    _, requested = shared.begin([SlotChange(SLOT, FIRST), SlotChange(OTHER, Claim("a", "1", "w1"))])
    shared.overwrite("cam-1", {SLOT: Claim("b"), OTHER: Claim("a", "1", "w1")})
    assert not shared.finish(requested, granted=True)
    assert ledger.claims("cam-1") == {SLOT: Claim("b")}


def test_a_device_without_users_is_removed() -> None:
    shared, ledger = a_node()
    shared.begin([SlotChange(SLOT, FIRST)])
    ledger.close("cam-1")
    shared.remove("cam-1")
    assert "cam-1" in shared
    assert shared.unseen_claims([]) == {SLOT: FIRST}
    assert [change.takes for change in shared.release({SLOT: FIRST})] == [
        False
    ]  # the release is sent to the server anyway
    assert "cam-1" not in shared
    shared, ledger = a_node()
    shared.overwrite("cam-1", {SLOT: Claim("b")})
    ledger.close("cam-1")
    shared.remove("cam-1")
    assert "cam-1" not in shared
