"""Slots that the server revoked are claimed again for the workloads that still need them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ankaios.common.errors import Unavailable
from ankaios.devices.claim_store import ClaimRecord, ClaimStore
from ankaios.devices.core.configuration import Configuration, OnDeviceLost
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.node_devices import NOT_CONNECTED, DeviceChanges, HeldSlot, NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.lost_devices import LostDevices
from ankaios.devices.slot_allocator import NO_ANSWER, ServerUnreachable, SlotAllocator
from tests.unit.devices.nodes import claims_of

INSTANCE = Instance.of("cam", DiscoveredDevice("foo0"), False, "node-a")
SLOT, CLAIM = Slot(INSTANCE.name, 0), Claim("node-a", "0", "w1")


class SlowAllocator(SlotAllocator):
    """The test can act while a request to the server is open."""

    def __init__(self, node: NodeDevices) -> None:
        super().__init__(node, lambda message: None, lambda changes: None)
        self.requested = asyncio.Event()
        self.answer = asyncio.Event()
        self.fails: list[Unavailable] = []

    async def claim(self, changes: Sequence[SlotChange]) -> None:
        self.requested.set()
        await self.answer.wait()
        if self.fails:
            raise self.fails.pop(0)
        await super().claim(changes)


class Node:
    def __init__(self, folder: Path) -> None:
        self.devices = NodeDevices("node-a")
        self.configure(OnDeviceLost.KEEP)
        self.devices.observe("cam", "s", [DiscoveredDevice("foo0")], False, 0)
        self.allocator = SlowAllocator(self.devices)
        self.store = ClaimStore(folder)
        self.claims = claims_of(self.devices, folder, self.allocator)
        self.claims.restore()
        self.restarted: list[str] = []
        self.lost = LostDevices(
            self.devices, self.allocator, self.claims, self.restarted.append, folder / "stopped.json"
        )
        self.claims.records["w1"] = ClaimRecord("w1", (), (HeldSlot(SLOT, CLAIM, INSTANCE, 1),))
        self.task = asyncio.create_task(self.lost.run())

    def configure(self, policy: OnDeviceLost) -> None:
        self.devices.configure({"cam": Configuration("cam", "fake", on_lost=policy, offline_grace=10)})

    def see(self, *ids: str, now: float = 0) -> None:
        self.lost.changed(self.devices.observe("cam", "s", map(DiscoveredDevice, ids), False, now))

    async def claim_slot(self) -> None:
        self.allocator.answer.set()
        await self.allocator.claim([SlotChange(SLOT, CLAIM)])

    async def settled(self) -> None:
        self.allocator.answer.set()
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setattr("ankaios.devices.lost_devices.PAUSE_SECONDS", 0)
    node = Node(tmp_path)
    yield node
    assert not node.task.done()
    node.task.cancel()
    await asyncio.gather(node.task, return_exceptions=True)


async def test_a_slot_is_claimed_again(node: Node) -> None:
    node.lost.changed(DeviceChanges(revoked={SLOT: CLAIM}))
    await node.settled()
    assert node.devices.ledger.claim(SLOT) == CLAIM


async def test_no_slot_is_requested_for_a_workload_that_released_its_devices(node: Node) -> None:
    node.lost.changed(DeviceChanges(revoked={SLOT: CLAIM}))
    node.claims.release("w1")
    await node.settled()
    assert not node.allocator.requested.is_set()


async def test_a_slot_that_is_granted_too_late_is_released(node: Node) -> None:
    node.lost.changed(DeviceChanges(revoked={SLOT: CLAIM}))
    await asyncio.wait_for(node.allocator.requested.wait(), 5)
    node.claims.release("w1")
    await node.settled()
    assert node.devices.ledger.claim(SLOT) is None


async def test_a_lost_slot_is_removed_from_the_record(node: Node) -> None:
    node.allocator.fails = [SlotConflict("another claim was faster")]
    node.lost.changed(DeviceChanges(revoked={SLOT: CLAIM}))
    await node.settled()
    assert node.claims.records["w1"] == ClaimRecord("w1", (), (), lost=True)
    assert list(node.store.load()) == [ClaimRecord("w1", (), (), lost=True)]


async def test_a_disconnected_or_unresponsive_server_denies_no_slot(node: Node) -> None:
    """The slot is claimed when the server can be reached again."""
    node.allocator.fails = [ServerUnreachable(NOT_CONNECTED), ServerUnreachable(NO_ANSWER)]
    node.lost.changed(DeviceChanges(revoked={SLOT: CLAIM}))
    await node.settled()
    assert not node.claims.records["w1"].lost
    assert node.devices.ledger.claim(SLOT) == CLAIM


async def test_a_workload_waits_for_a_device_that_is_missing_briefly(node: Node) -> None:
    node.see(now=1)
    node.lost.changed(DeviceChanges(revoked={SLOT: CLAIM}))
    await node.settled()
    assert not node.claims.records["w1"].lost
    node.see("foo0", now=2)
    await node.settled()
    assert node.devices.ledger.claim(SLOT) == CLAIM


async def test_one_unavailable_slot_does_not_delay_another(node: Node) -> None:
    other = Instance.of("cam", DiscoveredDevice("foo1"), False, "node-a")
    slot, claim = Slot(other.name, 0), Claim("node-a", "1", "w2")
    node.claims.records["w2"] = ClaimRecord("w2", (), (HeldSlot(slot, claim, other, 1),))
    node.see("foo1", now=1)
    node.lost.changed(DeviceChanges(revoked={SLOT: CLAIM, slot: claim}))
    await node.settled()
    assert node.devices.ledger.claim(slot) == claim


@pytest.mark.parametrize(
    ("policy", "restarted"), [(OnDeviceLost.KEEP, []), (OnDeviceLost.STOP, ["w1"]), (OnDeviceLost.RESTART, ["w1"])]
)
async def test_the_policy_applies_to_a_device_that_does_not_return(
    node: Node, policy: OnDeviceLost, restarted: list[str]
) -> None:
    node.configure(policy)
    await node.claim_slot()
    node.see(now=1)
    assert node.restarted == []  # it may return in time
    node.lost.changed(node.devices.expire(11))
    assert node.restarted == restarted
    stopped = f"was stopped, waits for device {INSTANCE.name} to return"
    assert node.lost.stop_reason("w1") == (stopped if policy is OnDeviceLost.STOP else None)


async def test_a_stopped_workload_waits_for_its_device_until_the_workload_is_deleted(node: Node) -> None:
    node.configure(OnDeviceLost.STOP)
    for ends in ("returns", "is deleted"):
        await node.claim_slot()
        node.see(now=1)
        node.lost.changed(node.devices.expire(11))
        node.lost.released("w1")  # as part of the stop
        assert node.lost.stop_reason("w1") is not None
        if ends == "is deleted":
            node.lost.released("w1")
        node.see("foo0", now=12)
        assert node.lost.stop_reason("w1") is None


async def test_lost_slots_without_a_workload_are_ignored(node: Node) -> None:
    node.configure(OnDeviceLost.RESTART)
    await node.claim_slot()
    del node.claims.records["w1"]
    node.see(now=1)
    node.lost.changed(node.devices.expire(11))
    assert node.restarted == []


# --- restarts and changes ---


async def test_a_stopped_workload_stays_stopped_across_a_restart_of_the_agent(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.configure(OnDeviceLost.STOP)
    node.devices.ledger.apply([SlotChange(SLOT, CLAIM)])
    node.see(now=0)
    node.lost.changed(node.devices.expire(100))
    node.lost.released("w1")
    assert node.restarted == ["w1"]
    again = Node(tmp_path)
    again.see()
    again.lost.restore()
    reason = again.lost.stop_reason("w1")
    assert reason is not None and reason.startswith("was stopped, waits for device")
    again.see("foo0", now=1)
    assert again.lost.stop_reason("w1") is None
    third = Node(tmp_path)
    third.lost.restore()
    third.see()
    assert third.lost.stop_reason("w1") is None


async def test_the_policy_applies_when_the_configuration_is_deleted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.configure(OnDeviceLost.STOP)
    node.devices.ledger.apply([SlotChange(SLOT, CLAIM)])
    node.lost.changed(node.devices.configure({}))
    assert node.restarted == ["w1"]
    assert node.lost.stop_reason("w1") is not None


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_changed_device_restarts_its_users_if_the_configuration_requires_it(
    tmp_path: Path, restarts: bool
) -> None:
    node = Node(tmp_path)
    node.devices.configure({"cam": Configuration("cam", "fake", restarts_on_change=restarts)})
    node.devices.ledger.apply([SlotChange(SLOT, CLAIM)])
    same = node.devices.observe("cam", "s", [DiscoveredDevice("foo0")], False, 1)
    node.lost.changed(same)
    assert node.restarted == []
    node.lost.changed(node.devices.observe("cam", "s", [DiscoveredDevice("foo0", {"A": "1"})], False, 2))
    assert node.restarted == (["w1"] if restarts else [])
