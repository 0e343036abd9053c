import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.inventory import LONGEST_DEVICE_ID, REGISTRATION_SECONDS, Instance, Inventory, instance_hash

FOO0 = "cam-8120fe"
FOO1 = "cam-a19705"


def devices(*ids: str) -> list[DiscoveredDevice]:
    return [DiscoveredDevice(id_) for id_ in ids]


def an_inventory(grace: float | None = 10) -> Inventory:
    inventory = Inventory("node-a")
    inventory.configure({"cam": Configuration("cam", "debugEcho", offline_grace=grace)})
    return inventory


@pytest.mark.parametrize(
    ("device_id", "node", "expected"),
    [
        ("foo0", None, "8120fe"),
        ("foo1", None, "a19705"),
        ("foo0", "node-a", "fbcb99"),
        ("foo1", "node-a", "d2981e"),
        ("my_local_device", "my_node", "e77db4"),
        ("my_local_device", "my_other_node", "099763"),
        ("my_shared_device", None, "4294ea"),
    ],
)
def test_the_hash_is_made_of_the_descriptor_and_for_local_devices_of_the_node(
    device_id: str, node: str | None, expected: str
) -> None:
    """[utest->akri~instance-hash-inputs~1]"""
    assert instance_hash(device_id, node) == expected


def test_an_instance_is_named_after_its_configuration_and_hash() -> None:
    """[utest->akri~instance-level-resource~1]"""
    local = Instance.of("cam", DiscoveredDevice("foo0"), False, "node-a")
    assert (local.name, local.hash, local.cdi_name) == ("cam-fbcb99", "fbcb99", "akri.sh/cam=fbcb99")
    assert Instance.of("cam", DiscoveredDevice("foo0"), True, "node-a").name == FOO0


def test_a_discovered_device_is_added_once() -> None:
    inventory = an_inventory()
    assert inventory.observe("cam", "s", devices("foo0"), True, 0).appeared == [FOO0]
    again = inventory.observe("cam", "s", devices("foo0", "foo1"), True, 1)
    assert (again.appeared, again.changed, again.returned) == ([FOO1], [], [])
    assert inventory.is_online(FOO0)
    assert [instance.name for instance in inventory.instances()] == [FOO0, FOO1]


def test_a_missing_device_is_offline_and_removed_after_its_grace_time() -> None:
    inventory = an_inventory(grace=10)
    inventory.observe("cam", "s", devices("foo0"), True, 0)
    assert inventory.next_deadline() is None
    assert inventory.observe("cam", "s", [], True, 5).offline == [FOO0]
    assert not inventory.is_online(FOO0)
    assert inventory.next_deadline() == 15
    assert inventory.expire(14.9).vanished == []
    assert [gone.name for gone in inventory.expire(15).vanished] == [FOO0]
    assert inventory.get(FOO0) is None


def test_a_device_that_returns_within_its_grace_time_is_online() -> None:
    inventory = an_inventory(grace=10)
    inventory.observe("cam", "s", devices("foo0"), True, 0)
    inventory.observe("cam", "s", [], True, 5)
    back = inventory.observe("cam", "s", devices("foo0"), True, 14)
    assert (back.appeared, back.returned, back.vanished) == ([], [FOO0], [])
    assert inventory.expire(100).vanished == []


def test_without_grace_time_a_missing_device_is_removed_immediately() -> None:
    inventory = an_inventory(grace=0)
    inventory.observe("cam", "s", devices("foo0"), True, 0)
    gone = inventory.observe("cam", "s", [], True, 5)
    assert (gone.offline, [instance.name for instance in gone.vanished]) == ([], [FOO0])


@pytest.mark.parametrize(("shared", "deadline"), [(True, 300), (False, 30)])
def test_a_shared_device_has_a_longer_grace_time_than_a_local_one(shared: bool, deadline: float) -> None:
    inventory = an_inventory(grace=None)
    inventory.observe("cam", "s", devices("foo0"), shared, 0)
    inventory.observe("cam", "s", [], shared, 0)
    assert inventory.next_deadline() == deadline


def test_a_device_exists_as_long_as_one_source_reports_it() -> None:
    inventory = an_inventory(grace=0)
    inventory.observe("cam", "s1", devices("foo0", "foo1"), True, 0)
    assert inventory.observe("cam", "s2", devices("foo0"), True, 0).appeared == []
    changes = inventory.observe("cam", "s1", [], True, 1)
    assert [gone.name for gone in changes.vanished] == [FOO1]
    assert inventory.is_online(FOO0)


def test_new_properties_are_a_change_of_the_same_instance() -> None:
    inventory = an_inventory()
    inventory.observe("cam", "s", devices("foo0"), True, 0)
    changes = inventory.observe("cam", "s", [DiscoveredDevice("foo0", {"URL": "x"})], True, 1)
    assert (changes.changed, changes.appeared) == ([FOO0], [])
    instance = inventory.get(FOO0)
    assert instance is not None
    assert instance.device.properties == {"URL": "x"}


def test_a_device_from_before_a_restart_stays_until_the_first_discovery() -> None:
    """Akri 0.13 deletes instances with their claims on restart, because discovery has not finished."""
    inventory = Inventory("node-a")
    inventory.restore(Instance.of("cam", DiscoveredDevice("foo0"), True, "node-a"))
    assert inventory.get(FOO0) is not None
    inventory.configure({"cam": Configuration("cam", "debugEcho", offline_grace=10)})
    assert inventory.expire(10**9).vanished == []
    assert not inventory.is_online(FOO0)
    inventory.restore(Instance.of("cam", DiscoveredDevice("foo1"), True, "node-a"))
    changes = inventory.observe("cam", "s", devices("foo1"), True, 0)
    assert (changes.returned, changes.appeared, changes.offline) == ([FOO1], [], [FOO0])


def test_a_removed_configuration_removes_its_devices() -> None:
    inventory = an_inventory()
    inventory.observe("cam", "s", devices("foo0"), True, 0)
    assert [gone.name for gone in inventory.configure({}).vanished] == [FOO0]
    assert inventory.configure({}).vanished == []
    assert inventory.observe("cam", "s", devices("foo0"), True, 1).appeared == []


def test_of_two_devices_with_one_hash_the_first_keeps_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.devices.core.inventory.instance_hash", lambda device_id, node: "abcdef")
    inventory = an_inventory()
    changes = inventory.observe("cam", "s", devices("foo0", "foo1"), True, 0)
    assert changes.appeared == ["cam-abcdef"]
    assert changes.rejected == ["the device 'foo1' would have the name 'cam-abcdef' of 'foo0'"]
    again = inventory.observe("cam", "s", devices("foo1", "foo0"), True, 1)
    assert (again.appeared, again.offline) == ([], [])
    instance = inventory.get("cam-abcdef")
    assert instance is not None
    assert instance.device.id == "foo0"


def test_invalid_devices_are_ignored_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.devices.core.inventory.MOST_DEVICES", 10)
    inventory = an_inventory()
    many = [DiscoveredDevice(f"d{number}") for number in range(10)]
    changes = inventory.observe("cam", "s", [*devices("", "x" * (LONGEST_DEVICE_ID + 1)), *many], True, 0)
    assert len(changes.appeared) == 8
    assert len(changes.rejected) == 3


def test_a_property_that_cannot_be_a_variable_is_omitted() -> None:
    inventory = an_inventory()
    properties = {"GOOD": "1", "USB_RESOURCE_A-B": "2", "A=B": "3", "": "4", "NUL": "\0", "LINE\n": "5"}
    inventory.observe("cam", "s", [DiscoveredDevice("foo0", properties)], True, 0)
    instance = inventory.get(FOO0)
    assert instance is not None
    assert instance.device.properties == {"GOOD": "1", "USB_RESOURCE_A-B": "2"}


@given(st.lists(st.tuples(st.sets(st.sampled_from(["a", "b", "c"])), st.floats(0, 3)), max_size=12))
def test_no_device_is_removed_within_its_grace_time(lists: list[tuple[set[str], float]]) -> None:
    """A device that was missing for less than its grace time is still the same instance."""
    inventory, now = an_inventory(grace=10), 0.0
    last_seen: dict[str, float] = {}
    for seen, step in lists:
        now += step
        vanished = {
            gone.device.id for gone in inventory.observe("cam", "s", devices(*sorted(seen)), True, now).vanished
        }
        assert vanished <= {id_ for id_, at in last_seen.items() if now - at >= 10}
        last_seen |= dict.fromkeys(seen, now)


def test_devices_without_a_configuration_are_removed_when_all_configurations_are_known() -> None:
    inventory = an_inventory()
    remembered = {name: Instance.of(name, DiscoveredDevice("foo0"), True, "node-a") for name in ("cam", "mic", "gone")}
    for instance in remembered.values():
        inventory.restore(instance)
    wanted = {name: Configuration(name, "debugEcho") for name in ("cam", "mic")}
    assert inventory.configure(wanted).vanished == [remembered["gone"]]
    assert list(inventory.instances()) == [remembered["cam"], remembered["mic"]]
    assert inventory.get(remembered["gone"].name) is None


def test_the_first_list_after_a_restart_keeps_devices_of_a_handler_that_registers_later() -> None:
    """Of two handlers of one name, the one that discovered the device registers later."""
    inventory = Inventory("node-a")
    inventory.configure({"cam": Configuration("cam", "fake", offline_grace=0)})
    inventory.restore(Instance.of("cam", DiscoveredDevice("foo0"), False, "node-a"))
    changes = inventory.observe("cam", "first", [DiscoveredDevice("foo1")], False, 100)
    assert (changes.offline, changes.vanished) == (["cam-fbcb99"], [])
    assert inventory.expire(100 + REGISTRATION_SECONDS - 1).vanished == []
    assert inventory.observe("cam", "second", [DiscoveredDevice("foo0")], False, 110).returned == ["cam-fbcb99"]
    assert inventory.expire(1000).vanished == []
    gone = inventory.observe("cam", "second", [], False, 1001)
    assert [instance.name for instance in gone.vanished] == ["cam-fbcb99"]  # later its grace time counts
