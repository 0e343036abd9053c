"""Slots that the server took away are claimed again for those who still need them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ankaios.devices.acquisition import Acquisition
from ankaios.devices.claim_store import ClaimStore, HeldSlot, Record
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.node_devices import NodeDevices, Touched
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.discovery.base import DiscoveredDevice
from ankaios.devices.lost_devices import LostDevices
from ankaios.devices.server_slots import ServerSlots
from ankaios.devices.slot_office import SlotOffice

INSTANCE = Instance.of("cam", DiscoveredDevice("foo0"), False, "node-a")
SLOT, CLAIM = Slot(INSTANCE.name, 0), Claim("node-a", "0", "w1")


class SlowOffice(SlotOffice):
    """Lets the test do something while the server is asked."""

    def __init__(self, node: NodeDevices) -> None:
        super().__init__(node, ServerSlots(), lambda touched: None)
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.fails = False

    async def claim(self, changes: Sequence[SlotChange]) -> str | None:
        self.asked.set()
        await self.answer.wait()
        if self.fails:
            raise SlotConflict("somebody else was faster")
        return await super().claim(changes)


class Node:
    def __init__(self, folder: Path) -> None:
        self.devices = NodeDevices("node-a")
        self.devices.configure({"cam": Configuration("cam", "fake")})
        self.devices.observe("cam", "s", [DiscoveredDevice("foo0")], False, 0)
        self.office = SlowOffice(self.devices)
        manager = DeviceManager(folder / "plugins", lambda resource: None)
        self.store = ClaimStore(folder / "claims")
        self.acquisition = Acquisition(self.office, manager, self.store, folder / "files")
        self.acquisition.restore()
        self.lost = LostDevices(self.devices, self.office, self.acquisition)
        self.acquisition.records["w1"] = Record("w1", (), (), (HeldSlot(SLOT, CLAIM, INSTANCE, 1),))
        self.task = asyncio.create_task(self.lost.run(lambda owner: None))

    async def settled(self) -> None:
        self.office.answer.set()
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
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
    node.acquisition.release("w1")
    await node.settled()
    assert not node.office.asked.is_set()


async def test_a_slot_that_comes_too_late_is_given_back(node: Node) -> None:
    node.lost.note(Touched(taken_away={SLOT: CLAIM}))
    await asyncio.wait_for(node.office.asked.wait(), 5)
    node.acquisition.release("w1")
    await node.settled()
    assert node.devices.ledger.claim(SLOT) is None


async def test_a_lost_slot_is_struck_from_the_record(node: Node) -> None:
    node.office.fails = True
    node.lost.note(Touched(taken_away={SLOT: CLAIM}))
    await node.settled()
    assert node.acquisition.records["w1"] == Record("w1", (), (), (), lost=True)
    assert list(node.store.load()) == [Record("w1", (), (), (), lost=True)]
