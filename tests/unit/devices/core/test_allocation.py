from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.devices.core.allocation import (
    INSUFFICIENT,
    Assignment,
    Denied,
    allocate_configuration,
    allocate_instance,
    changes_of,
    is_virtual_id,
    preferred_ids,
)
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotLedger
from tests.support.examples import examples
from tests.unit.devices.ledgers import a_ledger, snapshot

FULL = ("C:0:node-a C:1:node-a", "C:2:node-a C:3:node-a")
VECTORS: list[tuple[str, str, list[list[str]], dict[str, set[str]] | None]] = [
    ("- -", "- -", [["0", "1"]], {"0": {"A-0", "A-1"}, "1": {"B-0", "B-1"}}),
    ("- -", "- -", [["0", "1", "2"]], None),
    ("- C:4:node-a", "- -", [["0", "4"]], {"4": {"A-1"}, "0": {"B-0", "B-1"}}),
    ("- C:4:node-a", "- -", [["0", "1", "4"]], None),
    ("- -", "- C:3:node-a", [["0", "3"]], {"3": {"B-1"}, "0": {"A-0", "A-1"}}),
    ("- -", "- C:3:node-a", [["0", "1"], ["3"]], {"0": {"A-0", "A-1"}, "1": {"B-0"}, "3": {"B-1"}}),
    (*FULL, [["0", "1"]], None),
    (*FULL, [["0", "2"]], {"0": {"A-0"}, "2": {"B-0"}}),
    ("node-b C:0:node-b", "- node-a", [["0"]], {"0": {"B-0"}}),
    ("node-a node-a", "- -", [["0"]], {"0": {"B-0", "B-1"}}),
    ("node-a node-a -", "- - C:3:node-a", [["0", "3"]], {"3": {"B-2"}, "0": {"A-2"}}),
]


def joined(assignments: list[Assignment] | Denied) -> dict[str, str]:
    assert not isinstance(assignments, Denied), assignments
    return {id_: str(slot) for assignment in assignments for id_, slot in assignment.items()}


@pytest.mark.parametrize(("a", "b", "requests", "expected"), VECTORS)
def test_vectors_of_the_configuration_level_plugin(
    a: str, b: str, requests: list[list[str]], expected: dict[str, set[str]] | None
) -> None:
    """Ties are free, so each id has a set of right answers.

    [utest->akri~cl-allocate-unique-instances~1]
    [utest->akri~cl-allocate-reuses-previous-claim~1]
    [utest->akri~cl-allocate-most-free-slots-first~1]
    [utest->akri~cl-allocate-per-container-request~1]
    [utest->akri~cl-allocate-denies-too-few-devices~1]
    """
    ledger = a_ledger(A=a, B=b)
    before = snapshot(ledger)
    found = allocate_configuration(ledger, "cam", "node-a", requests)
    assert snapshot(ledger) == before
    if expected is None:
        assert isinstance(found, Denied)
        assert found.reason.startswith(INSUFFICIENT)
        return
    slots = joined(found)
    assert slots.keys() == expected.keys()
    assert all(slots[id_] in expected[id_] for id_ in expected)
    for assignment in found if isinstance(found, list) else []:
        assert len({slot.instance for slot in assignment.values()}) == len(assignment)


def test_two_fresh_ids_get_different_instances() -> None:
    """[utest->akri~cl-allocate-unique-instances~1]"""
    slots = joined(allocate_configuration(a_ledger(A="C:0:node-a -", B="C:1:node-a -"), "cam", "node-a", [["2", "3"]]))
    assert slots == {"2": "A-1", "3": "B-1"}


def test_a_claimed_id_is_settled_before_a_fresh_one_whatever_their_order() -> None:
    """Akri 0.12 uses the order of the request and then places the claimed id twice."""
    ledger = a_ledger(A="-", B="C:7:node-a - -")
    assert joined(allocate_configuration(ledger, "cam", "node-a", [["0", "7"]])) == {"0": "A-0", "7": "B-0"}


def test_two_claimed_ids_of_one_instance_are_denied_and_not_moved() -> None:
    """Akri 0.12 moves one of them if another instance has a free slot."""
    found = allocate_configuration(a_ledger(A="C:0:node-a C:1:node-a", B="- -"), "cam", "node-a", [["0", "1"]])
    assert isinstance(found, Denied)
    assert "same device 'A'" in found.reason


def test_a_claimed_id_may_be_requested_again() -> None:
    """Akri 0.13 refuses it, which breaks pods with several containers.

    [utest->akri~cl-allocate-reuses-previous-claim~1]
    """
    ledger = a_ledger(A="C:0:node-a")
    assert joined(allocate_configuration(ledger, "cam", "node-a", [["0"]])) == {"0": "A-0"}
    assert joined(allocate_configuration(ledger, "cam", "node-a", [["0"], ["0"]])) == {"0": "A-0"}


def test_a_fresh_id_takes_the_instance_with_the_most_free_slots() -> None:
    """[utest->akri~cl-allocate-most-free-slots-first~1]"""
    ledger = a_ledger(A="- node-b", B="- - -", C="- -")
    assert joined(allocate_configuration(ledger, "cam", "node-a", [["0"]])) == {"0": "B-0"}
    even = allocate_configuration(a_ledger(A="- -", B="- -"), "cam", "node-a", [["0"], ["1"], ["2"]])
    assert joined(even) == {"0": "A-0", "1": "B-0", "2": "A-1"}  # also after what this call has taken


def test_containers_of_one_call_share_free_slots_and_are_distinct_separately() -> None:
    """[utest->akri~cl-allocate-per-container-request~1]"""
    slots = joined(allocate_configuration(a_ledger(A="- -", B="-"), "cam", "node-a", [["0", "1"], ["2"]]))
    assert slots == {"0": "A-0", "1": "B-0", "2": "A-1"}
    denied = allocate_configuration(a_ledger(A="-", B="-"), "cam", "node-a", [["0", "1"], ["2"]])
    assert isinstance(denied, Denied)


def test_a_container_moves_if_another_one_needs_its_slot() -> None:
    """The first uses A, which is the only instance for the second one, because its claim is on B."""
    ledger = a_ledger(A="-", B="C:5:node-a -")
    slots = joined(allocate_configuration(ledger, "cam", "node-a", [["0"], ["5", "1"]]))
    assert slots == {"0": "B-1", "5": "B-0", "1": "A-0"}


@pytest.mark.parametrize("request_", [["0", "0"], ["-1"], ["x"], ["01"], ["1:b"], [""], ["9" * 10], ["²"]])
def test_an_invalid_virtual_id_is_denied(request_: list[str]) -> None:
    assert isinstance(allocate_configuration(a_ledger(A="- -", B="- -"), "cam", "node-a", [request_]), Denied)


def test_two_containers_cannot_share_a_fresh_id() -> None:
    assert isinstance(allocate_configuration(a_ledger(A="- -"), "cam", "node-a", [["0"], ["0"]]), Denied)


def test_preferred_distinctness_is_ignored_when_there_are_too_few_devices() -> None:
    slots = joined(
        allocate_configuration(a_ledger(A="- -", B="- -"), "cam", "node-a", [["0", "1", "2"]], distinct=False)
    )
    assert slots == {"0": "A-0", "1": "B-0", "2": "A-1"}
    full = allocate_configuration(a_ledger(A="-", B="-"), "cam", "node-a", [["0", "1", "2"]], distinct=False)
    assert isinstance(full, Denied)
    same = allocate_configuration(a_ledger(A=FULL[0]), "cam", "node-a", [["0", "1"]], distinct=False)
    assert joined(same) == {"0": "A-0", "1": "A-1"}


# --- instance level ---


@pytest.mark.parametrize(
    ("usages", "reason"),
    [("-", None), ("node-a", None), ("node-b", "node-b"), ("C:0:node-a", "C:0:node-a")],
)
def test_an_instance_slot_is_granted_if_it_is_free_or_already_claimed(usages: str, reason: str | None) -> None:
    found = allocate_instance(a_ledger(A=usages), "A", "node-a", [["A-0"]])
    if reason is None:
        assert joined(found) == {"A-0": "A-0"}
    else:
        assert isinstance(found, Denied)
        assert reason in found.reason


def test_unknown_slots_and_devices_are_denied() -> None:
    ledger = a_ledger(A="-", B="-")
    ledger.set_online("B", False)
    for instance, id_ in [("A", "A-1"), ("A", "B-0"), ("B", "B-0"), ("Z", "Z-0")]:
        assert isinstance(allocate_instance(ledger, instance, "node-a", [[id_]]), Denied)


def test_assignments_become_claims_of_the_right_kind() -> None:
    assignment = {"0": Slot("A", 1)}
    assert changes_of([assignment], "n", "w", by_configuration=True) == [SlotChange(Slot("A", 1), Claim("n", "0", "w"))]
    assert changes_of([assignment], "n", "w", by_configuration=False) == [
        SlotChange(Slot("A", 1), Claim("n", None, "w"))
    ]


# --- preferred allocation ---


def test_claimed_ids_of_one_device_are_not_picked_together() -> None:
    ledger = a_ledger(A=FULL[0], B=FULL[1])
    assert preferred_ids(ledger, "cam", "node-a", ["0", "1", "2", "3"], [], 2) == ["0", "2"]
    assert preferred_ids(ledger, "cam", "node-a", ["0", "1", "2", "3"], ["3"], 2) == ["3", "0"]


def test_fresh_ids_are_picked_only_while_devices_are_left() -> None:
    ledger = a_ledger(A="- C:4:node-a", B="- -")
    assert preferred_ids(ledger, "cam", "node-a", ["0", "1", "4"], [], 2) == ["4", "0"]
    assert preferred_ids(ledger, "cam", "node-a", ["0", "1", "4"], [], 3) == ["4", "0"]
    assert preferred_ids(ledger, "cam", "node-a", ["0", "1", "4"], ["0"], 2) == ["0", "4"]
    assert preferred_ids(ledger, "cam", "node-a", ["0", "1", "4", "x"], [], 3, distinct=False) == ["4", "0", "1"]


# --- compared with all possibilities ---

USAGES = ["-", "node-b", "node-a", "C:0:node-a", "C:1:node-a", "C:2:node-a"]


@st.composite
def small_models(draw: st.DrawFn) -> tuple[SlotLedger, list[list[str]]]:
    used: set[str] = set()
    lines: dict[str, str] = {}
    for name in ["A", "B", "C"][: draw(st.integers(1, 3))]:
        texts = []
        for _ in range(draw(st.integers(0, 3))):
            text = draw(st.sampled_from(USAGES))
            text = "-" if text in used else text
            used |= {text} if text.startswith("C:") else set()
            texts.append(text)
        lines[name] = " ".join(texts)
    pool = [str(number) for number in range(6)]
    requests: list[list[str]] = []
    for _ in range(draw(st.integers(1, 3))):
        wanted = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True))
        pool = [id_ for id_ in pool if id_ not in wanted]
        requests.append(wanted)
        if len(pool) < 1:
            break
    return a_ledger(**lines), requests


def exists_by_brute_force(ledger: SlotLedger, requests: list[list[str]]) -> bool:
    """Try every instance for every fresh id."""
    claimed = ledger.virtual_ids("cam", "node-a")
    names = ledger.instances("cam")
    free = {name: len(ledger.free_slots(name)) for name in names}
    fresh = [(number, id_) for number, request in enumerate(requests) for id_ in request if id_ not in claimed]
    fixed = [[claimed[id_].instance for id_ in request if id_ in claimed] for request in requests]
    for choice in product(names, repeat=len(fresh)):
        per_container = [list(instances) for instances in fixed]
        for (number, _), name in zip(fresh, choice, strict=True):
            per_container[number].append(name)
        unique = all(len(set(instances)) == len(instances) for instances in per_container)
        if unique and all(choice.count(name) <= free[name] for name in names):
            return True
    return False


@examples(120)
@given(small_models())
def test_denied_if_and_only_if_no_assignment_exists(model: tuple[SlotLedger, list[list[str]]]) -> None:
    """[utest->akri~cl-allocate-denies-too-few-devices~1]"""
    ledger, requests = model
    before = snapshot(ledger)
    found = allocate_configuration(ledger, "cam", "node-a", requests)
    assert snapshot(ledger) == before
    assert isinstance(found, Denied) != exists_by_brute_force(ledger, requests)
    if isinstance(found, list):
        for assignment in found:
            assert len({slot.instance for slot in assignment.values()}) == len(assignment)
        ledger.apply(changes_of(found, "node-a", by_configuration=True))  # which rejects invalid changes


def test_virtual_ids_are_plain_numbers() -> None:
    assert [is_virtual_id(text) for text in ("0", "12", "", "007", "٣")] == [True, True, False, False, False]
