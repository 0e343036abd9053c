from pathlib import Path

from ankaios.devices.claim_store import ClaimRecord
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.devices.reconciler import Reconciler
from tests.unit.devices.nodes import LOCAL as CAM
from tests.unit.devices.nodes import a_node, an_allocator, claims_of


class Node:
    def __init__(self, folder: Path) -> None:
        self.devices = a_node(capacity=3)
        self.allocator = an_allocator(self.devices)
        self.claims = claims_of(self.devices, folder, self.allocator)
        self.existing: set[str] | None = None
        self.reconciler = Reconciler(
            self.devices, self.allocator, self.claims, lambda: self.existing, unused_seconds=20
        )

    def claim(self, index: int, owner: str) -> None:
        self.devices.shared.begin([SlotChange(Slot(CAM, index), Claim("node-a", str(index), owner))])

    def used(self) -> list[int]:
        return [slot.index for slot in self.devices.ledger.claims(CAM)]


async def test_slots_of_deleted_workloads_are_released_after_a_while(tmp_path: Path) -> None:
    """[utest->akri~reconciler-frees-unused-slots~1]"""
    node = Node(tmp_path)
    for index, owner in enumerate(("lives", "gone", "unknown")):
        node.claim(index, owner)
    for owner in ("lives", "gone"):
        node.claims.records[owner] = ClaimRecord(owner, ())
    await node.reconciler.review(0)
    assert node.used() == [0, 1, 2]  # it is not known yet which workloads exist
    node.existing = {"lives"}
    for now in (10, 29):
        await node.reconciler.review(now)
        assert node.used() == [0, 1, 2]
    await node.reconciler.review(30)
    assert node.used() == [0]


async def test_slots_that_are_being_acquired_are_not_released(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.claim(0, "starting")
    node.claims.in_progress.add("starting")
    node.existing = set()
    for now in (0, 100):
        await node.reconciler.review(now)
    assert node.used() == [0]


async def test_claims_from_before_a_restart_are_released_when_the_workloads_are_known(tmp_path: Path) -> None:
    """A workload that waits for the device starts immediately, not after the delay."""
    node = Node(tmp_path)
    for index, owner in enumerate(("lives", "gone")):
        node.claim(index, owner)
        node.claims.records[owner] = ClaimRecord(owner, ())
    restarted = Reconciler(node.devices, node.allocator, node.claims, lambda: node.existing)
    assert not restarted.release_restored()
    assert node.used() == [0, 1]
    node.existing = {"lives"}
    assert restarted.release_restored()
    assert node.used() == [0]
    node.claim(2, "new")
    node.claims.records["new"] = ClaimRecord("new", ())
    assert restarted.release_restored()
    assert node.used() == [0, 2]
