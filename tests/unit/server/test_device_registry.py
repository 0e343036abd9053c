import pytest

from ankaios.common.errors import Rejected
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server.core.device_registry import DeviceRegistry
from tests.unit.server.directories import CAM, a_configuration, an_instance_message


def a_registry(*gone: str) -> DeviceRegistry:
    registry = DeviceRegistry(lambda node: node not in gone)
    registry.configurations["cam"] = a_configuration(capacity=2)
    return registry


def test_the_state_of_a_device_is_computed_from_all_nodes() -> None:
    registry = a_registry()
    for node in ("b", "a"):
        registry.see(node, CAM, an_instance_message(node))
    before, now = registry.refresh(CAM) or (None, None)
    assert before is None
    assert now is not None
    assert (list(now.nodes), now.capacity, now.attributes.online) == (["a", "b"], 2, True)
    assert registry.refresh(CAM) is None
    assert registry.viewers(CAM) == ["a", "b"]
    assert registry.public(CAM) == now
    assert registry.instances_of("cam") == {CAM: now}


def test_a_device_is_online_as_long_as_a_connected_node_sees_it() -> None:
    registry = a_registry("a")
    registry.see("a", CAM, an_instance_message("a"))
    assert not registry.ledger.is_online(CAM)
    registry.see("b", CAM, an_instance_message("b"))
    assert registry.ledger.is_online(CAM)


def test_a_device_exists_as_long_as_a_node_sees_it() -> None:
    registry = a_registry()
    for node in ("a", "b"):
        registry.see(node, CAM, an_instance_message(node))
    assert registry.unsee("a", CAM)
    assert not registry.unsee("b", CAM)
    assert (CAM in registry, registry.public(CAM), registry.refresh(CAM)) == (False, None, None)


def test_too_many_slots_are_rejected() -> None:
    """A report must not make the server create billions of slots."""
    registry = a_registry()
    with pytest.raises(Rejected, match="cannot have 4294967295 slots"):
        registry.see("a", CAM, an_instance_message("a", shared=False, capacity=2**32 - 1))
    assert CAM not in registry


def test_a_local_device_belongs_to_one_node() -> None:
    registry = a_registry()
    registry.see("a", CAM, an_instance_message("a", shared=False))
    with pytest.raises(Rejected, match="another node"):
        registry.see("b", CAM, an_instance_message("b", shared=False))
    assert registry.configuration_of(CAM) == "cam"
    assert registry.public(CAM) is None
    assert isinstance(registry.refresh(CAM), tuple)
    assert isinstance(registry.public(CAM), base.DeviceInstance)


def test_a_removed_device_has_no_nodes() -> None:
    registry = a_registry()
    for node in ("a", "b"):
        registry.see(node, CAM, an_instance_message(node))
    registry.unsee("b", CAM)
    assert (set(registry.seen_by("a")), set(registry.seen_by("b")), set(registry.seen_by("c"))) == ({CAM}, set(), set())
    registry.drop(CAM)
    assert set(registry.seen_by("a")) == set()
