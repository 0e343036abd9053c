import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.devices.core.resource_views import (
    Advertised,
    configuration_counts,
    configuration_devices,
    instance_devices,
    with_departed,
)
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from tests.unit.devices.ledgers import a_ledger, ids

VECTORS = [
    ("- -", "- -", "0 1"),
    ("- C:4:node-a", "- -", "0 1 4"),
    ("- -", "- C:3:node-a", "0 1 3"),
    ("C:0:node-a C:1:node-a", "C:2:node-a C:3:node-a", "0 1 2 3"),
    ("C:0:node-a -", "C:1:node-a -", "0 1 2 3"),
    ("node-b C:0:node-b", "- node-a", "0"),
    ("node-a node-a", "- -", "0"),
    ("node-a node-a -", "- - C:3:node-a", "0 1 3"),
]


@pytest.mark.parametrize(("a", "b", "advertised"), VECTORS)
def test_a_configuration_reports_its_claims_and_one_fresh_id_per_instance_with_free_slots(
    a: str, b: str, advertised: str
) -> None:
    """[utest->akri~cl-availability-rule~1] [utest->akri~cl-dynamic-virtual-ids~1]"""
    assert ids(configuration_devices(a_ledger(A=a, B=b), "cam", "node-a")) == advertised


def test_availability_decreases_when_slots_are_released() -> None:
    """The example of the design: only "3" is still in use. [utest->akri~cl-availability-rule~1]"""
    full = a_ledger(A="C:0:node-a C:1:node-a", B="C:2:node-a C:3:node-a")
    assert ids(configuration_devices(full, "cam", "node-a")) == "0 1 2 3"
    freed = a_ledger(A="- -", B="- C:3:node-a")
    assert ids(configuration_devices(freed, "cam", "node-a")) == "0 1 3"


def test_ids_are_numbers_and_in_their_order() -> None:
    """Akri 0.13 uses names. [utest->akri~cl-dynamic-virtual-ids~1]"""
    ledger = a_ledger(**{f"I{n}": "-" for n in range(12)})
    assert ids(configuration_devices(ledger, "cam", "node-a")) == "0 1 2 3 4 5 6 7 8 9 10 11"


def test_where_devices_need_not_be_distinct_every_free_slot_counts() -> None:
    ledger = a_ledger(A="- -", B="- C:1:node-a")
    assert ids(configuration_devices(ledger, "cam", "node-a", distinct=False)) == "0 1 2 3"


def test_an_offline_device_offers_nothing_and_its_claims_are_unhealthy() -> None:
    ledger = a_ledger(A="C:0:node-a -", B="-")
    ledger.set_online("A", False)
    assert configuration_devices(ledger, "cam", "node-a") == (Advertised("0", False), Advertised("1", True))
    assert ids(instance_devices(ledger, "A", "node-a")) == ""


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize(("a", "b", "advertised"), VECTORS)
def test_the_counts_are_those_of_the_list(a: str, b: str, advertised: str, distinct: bool) -> None:
    ledger = a_ledger(A=a, B=b)
    ledger.set_online("A", distinct)
    listed = configuration_devices(ledger, "cam", "node-a", distinct)
    claimed = len(ledger.virtual_ids("cam", "node-a"))
    counts = configuration_counts(ledger, "cam", "node-a", distinct)
    assert counts == (len(listed), sum(device.healthy for device in listed), claimed)


def test_an_instance_reports_its_fixed_slots() -> None:
    """[utest->akri~il-fixed-virtual-ids~1]"""
    ledger = a_ledger(A="- node-a node-b C:0:node-a C:0:node-b")
    assert instance_devices(ledger, "A", "node-a") == (
        Advertised("A-0", True),
        Advertised("A-1", True),
        Advertised("A-2", False),
        Advertised("A-3", False),
        Advertised("A-4", False),
    )


def test_an_unused_slot_of_an_overbooked_device_is_not_healthy() -> None:
    """Its capacity was reduced below its use: only existing holders of slots may use it."""
    ledger = a_ledger(A="node-a - - node-b node-b")
    ledger.open("A", "cam", 3)
    assert ids(instance_devices(ledger, "A", "node-a")) == "A-0"
    assert ids(configuration_devices(ledger, "cam", "node-a")) == ""


def test_only_usable_slots_of_a_reduced_device_are_healthy() -> None:
    ledger = a_ledger(A="- - - - node-b")
    ledger.open("A", "cam", 3)
    assert instance_devices(ledger, "A", "node-a") == (
        Advertised("A-0", True),
        Advertised("A-1", True),
        Advertised("A-2", False),
    )


@given(capacity=st.integers(0, 5), taken=st.lists(st.sampled_from(["-", "node-a", "node-b", "C:#:node-a"]), max_size=5))
def test_healthy_slots_without_a_local_claim_can_be_claimed_together(capacity: int, taken: list[str]) -> None:
    """Neither more nor less: both lists are views of the one ledger. [utest->akri~il-fixed-virtual-ids~1]"""
    ledger = a_ledger(A=" ".join(text.replace("#", str(place)) for place, text in enumerate(taken)))
    ledger.open("A", "cam", capacity)
    healthy = {Slot.parse(device.id) for device in instance_devices(ledger, "A", "node-a") if device.healthy}
    unused = healthy - ledger.claims("A").keys()
    assert len(unused) == sum(free for _, free in ledger.most_free_first("cam"))
    made = ledger.apply([SlotChange(slot, Claim("node-a", owner="w")) for slot in sorted(unused)])
    assert len(made) == len(unused)
    assert all(ledger.claim(slot).node == "node-a" for slot in healthy)  # type: ignore[union-attr]


def test_a_removed_instance_has_no_devices() -> None:
    ledger = a_ledger(A="-")
    ledger.close("A")
    assert instance_devices(ledger, "A", "node-a") == ()


def test_a_removed_id_is_reported_as_unhealthy_once() -> None:
    first = (Advertised("0"), Advertised("1"), Advertised("2", False))
    second = with_departed(first, (Advertised("0"),))
    assert second == (Advertised("0"), Advertised("1", False))
    assert with_departed(second, (Advertised("0"),)) == (Advertised("0"),)
