"""Allocations for a kubelet, which does not name the workload."""

import asyncio
from pathlib import Path

import pytest

from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.node_devices import NOT_CONNECTED
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.kubelet_plugins import (
    ATTEMPTS,
    AllocationDenied,
    ConfigurationDevicePlugin,
    InstanceDevicePlugin,
    KubeletPlugins,
)
from ankaios.devices.pod_claims import PodClaims
from ankaios.devices.slot_allocator import NO_ANSWER
from tests.unit.devices.nodes import LOCAL, UnwrittenPodClaims, a_node, an_allocator
from tests.unit.devices.test_slot_allocator import Allocator

FOLDER = Path("/nowhere")


def cameras_of(made: Allocator) -> ConfigurationDevicePlugin:
    return ConfigurationDevicePlugin(made.node, made.slots, UnwrittenPodClaims(made.node), "cam")


async def test_an_allocation_fails_immediately_if_the_server_is_not_connected() -> None:
    made = Allocator(shared=True)
    made.node.session_ended()
    with pytest.raises(AllocationDenied, match=NOT_CONNECTED):
        await cameras_of(made).allocate([["0"]])


async def test_a_server_that_does_not_answer_receives_one_request() -> None:
    made = Allocator(shared=True, answer_seconds=0.01)
    with pytest.raises(AllocationDenied, match=NO_ANSWER):
        await cameras_of(made).allocate([["0"]])
    assert len([request for request in made.sent if request.changes[0].after]) == 1


async def test_a_denied_allocation_is_planned_again_a_few_times() -> None:
    made = Allocator(shared=True)
    allocating = asyncio.create_task(cameras_of(made).allocate([["0"]]))
    for attempt in range(1, ATTEMPTS + 1):
        await made.requested(attempt)
        made.answer(granted=False)
    with pytest.raises(AllocationDenied, match=f"other claims were first {ATTEMPTS} times.*it is taken"):
        await allocating


async def test_an_allocation_never_takes_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.devices.kubelet_plugins.ALLOCATE_SECONDS", 0.01)
    made = Allocator(shared=True)
    with pytest.raises(AllocationDenied, match="not settled with the server within"):
        await cameras_of(made).allocate([["0"]])
    assert made.used() == {}
    assert [change.after for change in made.sent[-1].changes] == [""]  # the server is requested to undo it


async def test_an_id_of_a_removed_device_gets_no_empty_grant() -> None:
    """A pod would run without its device, and count as having it."""
    made = Allocator(shared=False)
    cameras = cameras_of(made)
    (id_,) = [device.id for device in cameras.advertised()]
    (grant,) = await cameras.allocate([[id_]])
    assert len(grant.annotations) == 1
    made.node.observe("cam", "s", [], False, 1)
    made.node.expire(2)
    with pytest.raises(SlotConflict, match=r"a device of 'akri\.sh/cam' vanished while it was allocated"):
        await cameras.allocate([[id_]])


async def test_each_device_and_each_configuration_has_a_plugin_as_long_as_it_exists() -> None:
    """[utest->akri~instance-level-resource~1] [utest->akri~configuration-level-resource~1]"""
    node = a_node()
    plugins = KubeletPlugins(node, an_allocator(node), UnwrittenPodClaims(node), FOLDER)
    plugins.changed(node.known())
    both = ("akri.sh/cam", f"akri.sh/{LOCAL}")
    assert [resource in plugins._host for resource in both] == [True, True]
    plugins.changed(node.observe("cam", "s", [], False, 1))
    assert [resource in plugins._host for resource in both] == [True, False]
    plugins.changed(node.observe("cam", "s", [DiscoveredDevice("foo0")], False, 2))
    assert [resource in plugins._host for resource in both] == [True, True]
    plugins.changed(node.configure({}))
    assert [resource in plugins._host for resource in both] == [False, False]
    assert ConfigurationDevicePlugin(node, an_allocator(node), UnwrittenPodClaims(node), "cam").advertised() == ()


# --- claims on disk ---


async def test_a_claim_that_cannot_be_written_is_denied_and_released(tmp_path: Path) -> None:
    made = Allocator(shared=False)
    claims = PodClaims(made.node, tmp_path)
    cameras = ConfigurationDevicePlugin(made.node, made.slots, claims, "cam")
    with pytest.raises(AllocationDenied, match="cannot keep the claims of pods"):
        await cameras.allocate([["0"]])
    assert made.used() == {}
    claims.restore()
    await cameras.allocate([["0"]])
    assert len(made.used()) == 1


async def test_the_hint_of_an_instance_never_contains_a_taken_slot(tmp_path: Path) -> None:
    """The list that the kubelet has may be older than a claim through the configuration."""
    node = a_node(capacity=4)
    node.ledger.apply([SlotChange(Slot(LOCAL, 0), Claim("node-a", "0")), SlotChange(Slot(LOCAL, 1), Claim("node-a"))])
    plugin = InstanceDevicePlugin(node, an_allocator(node), UnwrittenPodClaims(node), LOCAL)
    all_ids = [f"{LOCAL}-{index}" for index in range(4)]
    assert plugin.preferred(all_ids, [], 2) == [f"{LOCAL}-2", f"{LOCAL}-3"]
    assert plugin.preferred(all_ids, [], 4) == [f"{LOCAL}-2", f"{LOCAL}-3", f"{LOCAL}-1"]
    assert plugin.preferred(all_ids, [f"{LOCAL}-3"], 2) == [f"{LOCAL}-3", f"{LOCAL}-2"]
