import pytest

from ankaios.common.errors import Rejected
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict, SlotLedger, parse_usage
from tests.unit.devices.ledgers import a_ledger, snapshot


def take(slot: str, node: str = "node-a", virtual_id: str | None = None, owner: str = "") -> SlotChange:
    return SlotChange(Slot.parse(slot), Claim(node, virtual_id, owner))


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("", None),
        ("node-a", Claim("node-a")),
        ("C:vdev1:node-a", Claim("node-a", "vdev1")),
        ("C:0:node-b", Claim("node-b", "0")),
        ("C", Claim("C")),
    ],
)
def test_usage_texts_have_the_designed_format(text: str, claim: Claim | None) -> None:
    """[utest->akri~device-usage-format~1]"""
    assert parse_usage(text) == claim
    assert (claim.usage if claim else "") == text


@pytest.mark.parametrize("text", ["C:node-a", "C:0:node-a:x", "C::node-a", "C:0:", "D:0:node-a", ":"])
def test_a_malformed_usage_is_rejected(text: str) -> None:
    """[utest->akri~device-usage-format~1]"""
    with pytest.raises(Rejected, match="device usage"):
        parse_usage(text)


def test_the_index_of_a_slot_follows_the_last_dash() -> None:
    assert Slot.parse("my-other-slot-2") == Slot("my-other-slot", 2)
    assert str(Slot("my-other-slot", 2)) == "my-other-slot-2"


@pytest.mark.parametrize("text", ["not-a-slot-id", "slot", "-1", "slot-", "slot-²", "slot-" + "9" * 5000])
def test_a_text_without_index_is_no_slot(text: str) -> None:
    with pytest.raises(Rejected, match="slot"):
        Slot.parse(text)


def test_device_usage_names_every_slot_and_its_holder() -> None:
    """[utest->akri~device-usage-format~1]"""
    ledger = SlotLedger()
    ledger.open("my-resource-00095f", "my-resource", 5)
    ledger.apply([take("my-resource-00095f-2", "node-b", "0"), take("my-resource-00095f-3", "node-a")])
    assert ledger.usage("my-resource-00095f") == {
        "my-resource-00095f-0": "",
        "my-resource-00095f-1": "",
        "my-resource-00095f-2": "C:0:node-b",
        "my-resource-00095f-3": "node-a",
        "my-resource-00095f-4": "",
    }


def test_a_device_has_no_more_users_than_its_capacity() -> None:
    """[utest->akri~capacity-limits-users-per-device~1]"""
    ledger = a_ledger(A="- -")
    ledger.apply([take("A-0", owner="w1"), take("A-1", owner="w2")])
    assert ledger.free_slots("A") == []
    with pytest.raises(SlotConflict, match="2 slots"):
        ledger.apply([take("A-2", owner="w3")])


def test_a_slot_has_one_owner() -> None:
    ledger = a_ledger(A="-")
    ledger.apply([take("A-0", owner="w1")])
    with pytest.raises(SlotConflict, match="held by 'w1'"):
        ledger.apply([take("A-0", owner="w2")])
    assert ledger.owners("A") == {"A-0": "w1"}


def test_all_changes_are_made_or_none() -> None:
    ledger = a_ledger(A="- -", B="node-b")
    before = snapshot(ledger)
    with pytest.raises(SlotConflict):
        ledger.apply([take("A-0"), take("A-1"), take("B-0")])
    assert snapshot(ledger) == before


def test_repeating_a_request_changes_nothing() -> None:
    ledger = a_ledger(A="- -")
    claim = take("A-0", virtual_id="0", owner="w1")
    assert ledger.apply([claim]) == [claim]
    assert ledger.apply([claim]) == []
    assert ledger.apply([take("A-0", virtual_id="0")]) == []  # a kubelet repeats a request without naming the pod
    assert ledger.apply([claim.reversed()]) == [claim.reversed()]
    assert ledger.apply([claim.reversed()]) == []


def test_only_the_holder_can_release_a_slot() -> None:
    ledger = a_ledger(A="-")
    ledger.apply([take("A-0", owner="w2")])
    assert ledger.apply([take("A-0", owner="w1").reversed()]) == []
    assert ledger.owners("A") == {"A-0": "w2"}


def test_a_virtual_id_never_has_two_slots() -> None:
    """Akri 0.12 placed a claimed id a second time."""
    ledger = a_ledger(A="C:0:node-a -", B="-")
    with pytest.raises(SlotConflict, match="already has another slot"):
        ledger.apply([take("B-0", virtual_id="0")])
    with pytest.raises(SlotConflict, match="already has another slot"):
        ledger.apply([take("B-0", virtual_id="1"), take("A-1", virtual_id="1")])
    ledger.apply([take("B-0", "node-b", "0")])  # ids of another node are unrelated


def test_one_request_cannot_change_a_slot_twice() -> None:
    ledger = a_ledger(A="-")
    with pytest.raises(SlotConflict, match="twice"):
        ledger.apply([take("A-0", owner="w1"), take("A-0", owner="w2")])


def test_no_slot_of_an_offline_or_unknown_device_is_granted() -> None:
    ledger = a_ledger(A="-")
    ledger.set_online("A", False)
    with pytest.raises(SlotConflict, match="offline"):
        ledger.apply([take("A-0")])
    with pytest.raises(SlotConflict, match="no such device"):
        ledger.apply([take("B-0")])
    assert (ledger.free_slots("A"), ledger.free_slots("B"), ledger.visible("cam")) == ([], [], 0)


def test_claims_are_kept_while_a_device_is_missing() -> None:
    ledger = a_ledger(A="- -")
    ledger.apply([take("A-1", owner="w1")])
    before = snapshot(ledger)
    ledger.set_online("A", False)
    ledger.set_online("A", True)
    assert snapshot(ledger) == before


def test_a_used_slot_stays_recorded_when_the_device_is_removed() -> None:
    ledger = a_ledger(A="- -")
    ledger.apply([take("A-1", virtual_id="0", owner="w1")])
    ledger.close("A")
    assert "A" not in ledger
    assert ledger.claims_of("w1") == {Slot("A", 1): Claim("node-a", "0", "w1")}
    ledger.open("A", "cam", 2)
    assert ledger.usage("A") == {"A-0": "", "A-1": "C:0:node-a"}


def test_a_removed_device_is_deleted_with_its_last_user() -> None:
    ledger = a_ledger(A="-")
    claim = take("A-0", virtual_id="0", owner="w1")
    ledger.apply([claim])
    ledger.close("A")
    with pytest.raises(SlotConflict, match="no such device"):
        ledger.apply([take("A-1")])
    ledger.apply([claim.reversed()])
    assert snapshot(ledger) == {}
    assert ledger.instances("cam") == []
    assert ledger.claims_of("w1") == {}
    ledger.close("A")


def test_a_changed_capacity_keeps_the_users() -> None:
    """Akri stores a new capacity but running plugins do not apply it."""
    ledger = a_ledger(A="- -")
    ledger.apply([take("A-1", owner="w1")])
    ledger.open("A", "cam", 1)
    assert ledger.usage("A") == {"A-0": "", "A-1": "node-a"}
    ledger.apply([take("A-1", owner="w1").reversed()])
    assert ledger.usage("A") == {"A-0": ""}
    ledger.open("A", "cam", 3)
    assert ledger.free_slots("A") == [0, 1, 2]


def test_a_user_above_a_reduced_capacity_counts_until_it_releases_its_slot() -> None:
    """[utest->akri~capacity-limits-users-per-device~1]"""
    ledger = a_ledger(A="- - -", B="-")
    users = [take(f"A-{index}", owner=f"w{index}") for index in range(3)]
    ledger.apply(users)
    ledger.open("A", "cam", 2)
    ledger.apply([users[0].reversed()])
    assert (ledger.free_slots("A"), list(ledger.most_free_first("cam"))) == ([], [("B", 1)])
    with pytest.raises(SlotConflict, match="0 are free"):
        ledger.apply([take("B-0", owner="w3"), take("A-0", owner="w3")])
    assert ledger.claims_of("w3") == {}
    ledger.apply([users[1].reversed()])
    assert ledger.free_slots("A") == [0]
    with pytest.raises(SlotConflict, match="cannot claim 2 slots of 'A': 1 are free"):
        ledger.apply([take("A-0", owner="w3"), take("A-1", owner="w3")])
    ledger.apply([users[0]])
    assert ledger.usage("A") == {"A-0": "node-a", "A-1": "", "A-2": "node-a"}


def test_claims_from_before_a_restart_are_recorded_in_any_state_of_the_device() -> None:
    ledger = SlotLedger()
    ledger.open("A", "cam", 1, online=False)
    change = take("A-3", owner="w1")
    ledger.restore({change.slot: change.claim})
    assert ledger.claim(change.slot) == change.claim
    with pytest.raises(SlotConflict):
        ledger.restore({Slot.parse("A-3"): take("A-3", owner="w2").claim})


def test_claims_are_found_by_owner_node_and_virtual_id() -> None:
    ledger = a_ledger(A="C:0:node-a node-b", B="C:0:node-b")
    assert ledger.claims_on("node-b") == {Slot("A", 1): Claim("node-b"), Slot("B", 0): Claim("node-b", "0")}
    assert ledger.virtual_ids("cam", "node-a") == {"0": Slot("A", 0)}
    assert ledger.virtual_slot("cam", "node-b", "0") == Slot("B", 0)
    assert ledger.virtual_slot("cam", "node-c", "0") is None
    assert ledger.configuration("A") == "cam"
    assert ledger.claims("Z") == {}
    assert ledger.nodes() == ("node-a", "node-b")
    ledger.apply([SlotChange(Slot("A", 0), Claim("node-a", "0"), takes=False)])
    assert ledger.nodes() == ("node-b",)
    assert ledger.claims_on("node-a") == {}


def test_instances_come_in_order_of_free_slots_then_of_name() -> None:
    ledger = a_ledger(A="-", C="- -", B="- -", D="node-a")
    assert list(ledger.most_free_first("cam")) == [("B", 2), ("C", 2), ("A", 1)]
    assert ledger.free_instances("cam") == 3
    ledger.apply([take("B-0")])
    assert list(ledger.most_free_first("cam")) == [("C", 2), ("A", 1), ("B", 1)]


def test_an_unknown_device_is_neither_online_nor_offline() -> None:
    ledger = a_ledger(A="-")
    before = snapshot(ledger)
    ledger.set_online("B", True)
    ledger.close("B")
    assert snapshot(ledger) == before
