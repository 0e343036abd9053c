from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ankaios.common.workload import ResourceRequest
from ankaios.devices.core.allocation import Denied
from ankaios.devices.core.claim_plan import DeviceTarget, ResourceNeed, SlotNeed, SlotPlan, needs_of, plan_slots
from ankaios.devices.core.slot_ledger import SlotLedger
from tests.support.examples import examples
from tests.unit.devices.ledgers import a_ledger, snapshot


def cameras(quantity: int, distinct: bool = True, container: str | None = None) -> SlotNeed:
    return SlotNeed(ResourceNeed(container, "akri.sh/cam", quantity), DeviceTarget("cam", True), distinct)


def one_camera(instance: str, quantity: int = 1) -> SlotNeed:
    return SlotNeed(ResourceNeed(None, f"akri.sh/{instance}", quantity), DeviceTarget(instance, False))


def planned(found: SlotPlan | Denied) -> list[dict[str, str]]:
    assert isinstance(found, SlotPlan), found
    return [{id_: str(slot) for id_, slot in assignment.items()} for assignment in found.assignments]


def test_a_workload_gets_any_devices_of_the_configuration() -> None:
    """[utest->akri~workload-requests-resources~1]"""
    assert planned(plan_slots(a_ledger(A="- -", B="- -"), [cameras(2)], "n", "w")) == [{"0": "A-0", "1": "B-0"}]


def test_a_workload_gets_slots_of_its_requested_instance() -> None:
    """[utest->akri~workload-requests-resources~1]"""
    assert planned(plan_slots(a_ledger(A="node-b - -"), [one_camera("A", 2)], "n", "w")) == [
        {"A-1": "A-1", "A-2": "A-2"}
    ]


def test_a_named_instance_is_settled_before_any_instance() -> None:
    """In the other order the free choice could use the only slot of the named instance."""
    found = planned(plan_slots(a_ledger(A="-", B="-"), [cameras(1), one_camera("A")], "n", "w"))
    assert found == [{"0": "B-0"}, {"A-0": "A-0"}]


def test_containers_of_one_workload_have_separate_needs() -> None:
    needs = [cameras(1), cameras(1, container="pod/a")]
    assert planned(plan_slots(a_ledger(A="- -"), needs, "n", "w")) == [{"0": "A-0"}, {"1": "A-1"}]


def test_ids_in_use_on_the_node_are_not_given_again() -> None:
    assert planned(plan_slots(a_ledger(A="C:0:n - C:2:n"), [cameras(1)], "n", "w")) == [{"1": "A-1"}]


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        (cameras(3), "waits for 3 x akri.sh/cam, 2 visible"),
        (cameras(2), "waits for 2 x akri.sh/cam, 2 visible, 1 free"),
        (cameras(4, distinct=False), "waits for 4 x akri.sh/cam, 2 visible"),
        (cameras(10**9), "waits for 1000000000 x akri.sh/cam, 2 visible"),
        (one_camera("B"), "waits for 1 x akri.sh/B, 1 visible, 0 free"),
        (one_camera("Z"), "waits for 1 x akri.sh/Z, 0 visible"),
    ],
)
def test_a_denial_contains_the_reason_why_the_workload_waits(need: SlotNeed, reason: str) -> None:
    """[utest->akri~cl-allocate-denies-too-few-devices~1]"""
    assert plan_slots(a_ledger(A="- -", B="node-b"), [need], "n", "w") == Denied(reason)


def test_all_needs_are_met_or_none() -> None:
    ledger = a_ledger(A="- -")
    before = snapshot(ledger)
    assert isinstance(plan_slots(ledger, [one_camera("A"), cameras(2)], "n", "w"), Denied)
    microphone = SlotNeed(ResourceNeed(None, "akri.sh/mic", 1), DeviceTarget("mic", True))
    assert isinstance(plan_slots(ledger, [cameras(1), microphone], "n", "w"), Denied)
    assert snapshot(ledger) == before


def test_a_plan_changes_no_claims() -> None:
    ledger = a_ledger(A="- -")
    before = snapshot(ledger)
    found = plan_slots(ledger, [cameras(1), one_camera("A")], "n", "w")
    assert snapshot(ledger) == before
    assert isinstance(found, SlotPlan)
    assert len(ledger.apply(found.changes)) == 2


def fits(ledger: SlotLedger, needs: list[SlotNeed]) -> bool:
    """Try all choices of distinct instances for each container."""
    names = ledger.instances("cam")
    options = [
        combinations(names, it.need.quantity) if it.target.by_configuration else [(it.target.name,) * it.need.quantity]
        for it in needs
    ]
    free = {name: len(ledger.free_slots(name)) for name in names}
    return any(
        all(sum(chosen.count(name) for chosen in choice) <= free[name] for name in names)
        for choice in product(*map(list, options))
    )


NEEDS = st.one_of(
    st.integers(1, 3).map(cameras),
    st.builds(one_camera, st.sampled_from(["A", "B"]), st.integers(1, 2)),
)
LINES = st.lists(st.sampled_from(["-", "node-b"]), max_size=3).map(" ".join)


@examples(100)
@given(LINES, LINES, LINES, st.lists(NEEDS, min_size=1, max_size=3))
def test_a_workload_is_denied_if_and_only_if_nothing_fits(a: str, b: str, c: str, needs: list[SlotNeed]) -> None:
    """[utest->akri~cl-allocate-denies-too-few-devices~1]"""
    ledger = a_ledger(A=a, B=b, C=c)
    before = snapshot(ledger)
    for number, it in enumerate(needs):
        needs[number] = replace(it, need=replace(it.need, container=f"pod/{number}"))
    found = plan_slots(ledger, needs, "n", "w")
    assert snapshot(ledger) == before
    assert isinstance(found, SlotPlan) == fits(ledger, needs)


def test_requests_for_the_same_resource_are_one_need() -> None:
    requests = [
        ResourceRequest("cam", 1, "pod/a"),
        ResourceRequest("cam", 2, "pod/a"),
        ResourceRequest("cam", 1, "pod/b"),
        ResourceRequest("x/gpu", 0),
    ]
    assert needs_of(requests) == (ResourceNeed("pod/a", "akri.sh/cam", 3), ResourceNeed("pod/b", "akri.sh/cam", 1))


def test_a_target_has_its_configuration() -> None:
    assert (cameras(1).target.configuration, one_camera("cam-8120fe").target.configuration) == ("cam", "cam")
