import logging
from pathlib import Path

import pytest

from ankaios.devices.claim_store import ClaimStore, Record
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.holdings import Holdings
from ankaios.devices.reconciler import PodReconciler, Reconciler, id_of
from ankaios.devices.server_slots import ServerSlots
from ankaios.devices.slot_office import SlotOffice

CAM = "cam-fbcb99"


class Node:
    def __init__(self, folder: Path) -> None:
        self.devices = NodeDevices("node-a")
        self.devices.configure({"cam": Configuration("cam", "fake", capacity=3)})
        self.devices.observe("cam", "s", [DiscoveredDevice("foo0")], False, 0)
        self.office = SlotOffice(self.devices, ServerSlots(lambda message: None), lambda touched: None)
        manager = DeviceManager(folder / "plugins", lambda resource, came: None)
        self.holdings = Holdings(self.office, manager, ClaimStore(folder / "claims"), folder / "files")
        self.living: set[str] | None = None
        self.reconciler = Reconciler(self.holdings, self.office, lambda: self.living, unused_seconds=20)

    def claim(self, index: int, owner: str) -> None:
        self.devices.begin([SlotChange(Slot(CAM, index), Claim("node-a", str(index), owner))])

    def used(self) -> list[int]:
        return [slot.index for slot in self.devices.ledger.claims(CAM)]


async def test_slots_of_workloads_that_are_gone_are_freed_after_a_while(tmp_path: Path) -> None:
    """[utest->akri~reconciler-frees-unused-slots~1]"""
    node = Node(tmp_path)
    for index, owner in enumerate(("lives", "gone", "unknown")):
        node.claim(index, owner)
    for owner in ("lives", "gone"):
        node.holdings.records[owner] = Record(owner, ())
    await node.reconciler.review(0)
    assert node.used() == [0, 1, 2]  # nobody knows yet who lives
    node.living = {"lives"}
    for now in (10, 29):
        await node.reconciler.review(now)
        assert node.used() == [0, 1, 2]
    await node.reconciler.review(30)
    assert node.used() == [0]


async def test_what_is_being_acquired_is_not_freed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.claim(0, "starting")
    node.holdings.under_way.add("starting")
    node.living = set()
    for now in (0, 100):
        await node.reconciler.review(now)
    assert node.used() == [0]


def test_a_kubelet_knows_a_slot_by_an_id_without_prefix() -> None:
    """Akri 0.13 compares ids with a prefix and so never frees slots of instances."""
    assert id_of(Slot(CAM, 2), Claim("a")) == (f"akri.sh/{CAM}", f"{CAM}-2")
    assert id_of(Slot(CAM, 2), Claim("a", "7")) == ("akri.sh/cam", "7")


async def test_without_an_answer_of_the_kubelet_nothing_is_freed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(tmp_path)
    node.claim(0, "")
    reconciler = PodReconciler(node.office, tmp_path / "missing.sock", unused_seconds=0)
    with caplog.at_level(logging.INFO):
        await reconciler.review(0)
    assert node.used() == [0]
    assert "cannot ask the kubelet" in caplog.text
