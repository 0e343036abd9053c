"""Slots that the server took away are claimed again for those who still need them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ankaios.common.errors import Unavailable
from ankaios.devices.claim_store import ClaimStore, HeldSlot, Record
from ankaios.devices.core.configuration import Configuration, OnDeviceLost
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.node_devices import NOT_CONNECTED, NodeDevices, Touched
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.holdings import Holdings
from ankaios.devices.lost_devices import LostDevices
from ankaios.devices.server_slots import NO_ANSWER, ServerAway, ServerSlots
from ankaios.devices.slot_office import SlotOffice

INSTANCE = Instance.of("cam", DiscoveredDevice("foo0"), False, "node-a")
SLOT, CLAIM = Slot(INSTANCE.name, 0), Claim("node-a", "0", "w1")


class SlowOffice(SlotOffice):
    """Lets the test do something while the server is asked."""

    def __init__(self, node: NodeDevices) -> None:
        super().__init__(node, ServerSlots(lambda message: None), lambda touched: None)
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.fails: list[Unavailable] = []

    async def claim(self, changes: Sequence[SlotChange]) -> None:
        self.asked.set()
        await self.answer.wait()
        if self.fails:
            raise self.fails.pop(0)
        await super().claim(changes)


class Node:
    def __init__(self, folder: Path) -> None:
        self.devices = NodeDevices("node-a")
        self.configure(OnDeviceLost.KEEP)
        self.devices.observe("cam", "s", [DiscoveredDevice("foo0")], False, 0)
        self.office = SlowOffice(self.devices)
        manager = DeviceManager(folder / "plugins", lambda resource, came: None)
        self.store = ClaimStore(folder / "claims")
        self.holdings = Holdings(self.office, manager, self.store, folder / "files")
        self.holdings.restore()
        self.restarted: list[str] = []
        self.lost = LostDevices(self.devices, self.office, self.holdings, self.restarted.append)
        self.holdings.records["w1"] = Record("w1", (), (HeldSlot(SLOT, CLAIM, INSTANCE, 1),))
        self.task = asyncio.create_task(self.lost.run())

    def configure(self, policy: OnDeviceLost) -> None:
        self.devices.configure({"cam": Configuration("cam", "fake", on_lost=policy, offline_grace=10)})

    def see(self, *ids: str, now: float = 0) -> None:
        self.lost.note(self.devices.observe("cam", "s", map(DiscoveredDevice, ids), False, now))

    async def office_claims(self) -> None:
        self.office.answer.set()
        await self.office.claim([SlotChange(SLOT, CLAIM)])

    async def settled(self) -> None:
        self.office.answer.set()
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
    node.lost.note(Touched(taken_away={SLOT: CLAIM}))
    await node.settled()
    assert node.devices.ledger.claim(SLOT) == CLAIM


async def test_nothing_is_asked_for_a_workload_that_let_go(node: Node) -> None:
    node.lost.note(Touched(taken_away={SLOT: CLAIM}))
    node.holdings.release("w1")
    await node.settled()
    assert not node.office.asked.is_set()


async def test_a_slot_that_comes_too_late_is_given_back(node: Node) -> None:
    node.lost.note(Touched(taken_away={SLOT: CLAIM}))
    await asyncio.wait_for(node.office.asked.wait(), 5)
    node.holdings.release("w1")
    await node.settled()
    assert node.devices.ledger.claim(SLOT) is None


async def test_a_lost_slot_is_struck_from_the_record(node: Node) -> None:
    node.office.fails = [SlotConflict("somebody else was faster")]
    node.lost.note(Touched(taken_away={SLOT: CLAIM}))
    await node.settled()
    assert node.holdings.records["w1"] == Record("w1", (), (), lost=True)
    assert list(node.store.load()) == [Record("w1", (), (), lost=True)]


async def test_a_server_that_is_away_or_silent_refuses_nothing(node: Node) -> None:
    """The slot is claimed when it can be asked again."""
    node.office.fails = [ServerAway(NOT_CONNECTED), ServerAway(NO_ANSWER)]
    node.lost.note(Touched(taken_away={SLOT: CLAIM}))
    await node.settled()
    assert not node.holdings.records["w1"].lost
    assert node.devices.ledger.claim(SLOT) == CLAIM


async def test_a_device_that_is_away_for_a_moment_is_waited_for(node: Node) -> None:
    node.see(now=1)
    node.lost.note(Touched(taken_away={SLOT: CLAIM}))
    await node.settled()
    assert not node.holdings.records["w1"].lost
    node.see("foo0", now=2)
    await node.settled()
    assert node.devices.ledger.claim(SLOT) == CLAIM


async def test_one_slot_that_cannot_be_had_now_does_not_hold_up_another(node: Node) -> None:
    other = Instance.of("cam", DiscoveredDevice("foo1"), False, "node-a")
    slot, claim = Slot(other.name, 0), Claim("node-a", "1", "w2")
    node.holdings.records["w2"] = Record("w2", (), (HeldSlot(slot, claim, other, 1),))
    node.see("foo1", now=1)
    node.lost.note(Touched(taken_away={SLOT: CLAIM, slot: claim}))
    await node.settled()
    assert node.devices.ledger.claim(slot) == claim


@pytest.mark.parametrize(
    ("policy", "restarted"), [(OnDeviceLost.KEEP, []), (OnDeviceLost.STOP, ["w1"]), (OnDeviceLost.RESTART, ["w1"])]
)
async def test_a_device_that_is_gone_for_good_is_lost_as_configured(
    node: Node, policy: OnDeviceLost, restarted: list[str]
) -> None:
    node.configure(policy)
    await node.office_claims()
    node.see(now=1)
    assert node.restarted == []  # it may return in time
    node.lost.note(node.devices.expire(11))
    assert node.restarted == restarted
    stopped = f"was stopped, waits for device {INSTANCE.name} to return"
    assert node.lost.stopped_because("w1") == (stopped if policy is OnDeviceLost.STOP else None)


async def test_a_stopped_workload_waits_for_its_device_and_no_longer_than_it_exists(node: Node) -> None:
    node.configure(OnDeviceLost.STOP)
    for ends in ("returns", "is deleted"):
        await node.office_claims()
        node.see(now=1)
        node.lost.note(node.devices.expire(11))
        node.lost.released("w1")  # as part of the stop
        assert node.lost.stopped_because("w1") is not None
        if ends == "is deleted":
            node.lost.released("w1")
        node.see("foo0", now=12)
        assert node.lost.stopped_because("w1") is None


async def test_claims_of_nobody_are_not_mourned(node: Node) -> None:
    node.configure(OnDeviceLost.RESTART)
    await node.office_claims()
    del node.holdings.records["w1"]
    node.see(now=1)
    node.lost.note(node.devices.expire(11))
    assert node.restarted == []
