"""The grant of a workload is recorded completely, and only if its slots are claimed."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Unavailable
from ankaios.devices.claim_store import ClaimStore
from ankaios.devices.core.claim_plan import ResourceNeed
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotLedger
from ankaios.devices.host import WaitingForDevices
from tests.unit.devices.nodes import LOCAL, a_node, claims_of

SLOT, CLAIM = Slot(LOCAL, 0), Claim("node-a", "0", "w1")
CAMERA, GPU = ResourceNeed(None, "akri.sh/cam", 1), ResourceNeed("pod/a", "x/gpu", 1)


class FakeForeign:
    """A plugin with one GPU."""

    def __init__(self) -> None:
        self.used: dict[str, str] = {}
        self.fails: Unavailable | None = None
        self.allocated: list[tuple[str, ...]] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def shortage(self, needs: tuple[ResourceNeed, ...]) -> str | None:
        return "waits for a GPU" if needs and self.used else None

    async def claim(self, resource: str, quantity: int, owner: str) -> list[str]:
        self.used["g0"] = owner
        return ["g0"]

    async def allocate(self, resource: str, ids: tuple[str, ...]) -> DeviceGrant:
        self.allocated.append(ids)
        self.meanwhile()
        if self.fails is not None:
            raise self.fails
        return DeviceGrant({"GPU": ids[0]})

    async def pre_start(self, resource: str, ids: tuple[str, ...]) -> None: ...

    def restore(self, resource: str, ids: tuple[str, ...], owner: str) -> None:
        self.used |= dict.fromkeys(ids, owner)

    def holds(self, resource: str, ids: tuple[str, ...], owner: str) -> bool:
        return resource == GPU.resource and all(self.used.get(id_) == owner for id_ in ids)

    def release(self, resource: str, ids: tuple[str, ...], owner: str) -> None:
        for id_ in ids:
            self.used.pop(id_, None)

    def are_healthy(self, resource: str, ids: tuple[str, ...]) -> bool:
        return True

    def is_ready(self, resource: str) -> bool:
        return True


class Node:
    """With one camera and one GPU."""

    def __init__(self, folder: Path, devices: NodeDevices | None = None) -> None:
        self.devices = devices or a_node(grace=60)
        self.foreign = FakeForeign()
        self.store = ClaimStore(folder)
        self.claims = claims_of(self.devices, folder)
        self.claims._foreign = self.foreign  # type: ignore[assignment]
        self.claims.restore()

    def end_claim(self) -> None:
        self.devices.shared.release({SLOT: CLAIM})


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_a_record_is_restored_after_a_restart(node: Node, tmp_path: Path) -> None:
    grants = await node.claims.acquire("w1", (CAMERA, GPU))
    assert isinstance(grants, tuple)
    assert [(grant.container, "GPU" in grant.envs) for grant in grants] == [(None, False), ("pod/a", True)]
    later = Node(tmp_path, NodeDevices("node-a"))
    assert later.claims.records == node.claims.records
    assert later.claims.holds("w1", SLOT)
    assert later.foreign.used == {"g0": "w1"}  # the camera is in the ledger, and nowhere else
    assert later.devices.ledger.claims_of("w1") == {SLOT: CLAIM}
    later.claims.release("w1")
    assert (later.claims.records, later.foreign.used, later.devices.ledger.claims_of("w1")) == ({}, {}, {})
    assert list(tmp_path.rglob("*.json")) == []


async def test_the_claim_of_an_own_device_is_one_change_of_the_ledger(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan makes its changes and undoes them; after that the slot is claimed by a single call."""
    made: list[list[str]] = []
    apply = SlotLedger.apply

    def recorded(ledger: SlotLedger, changes: Any, **more: Any) -> Any:
        made.append([("+" if change.takes else "-") + str(change.slot) for change in changes])
        return apply(ledger, changes, **more)

    monkeypatch.setattr(SlotLedger, "apply", recorded)
    await node.claims.acquire("w1", (CAMERA,))
    assert [changes for changes in made if changes] == [[f"+{LOCAL}-0"], [f"-{LOCAL}-0"], [f"+{LOCAL}-0"]]


async def test_a_failed_attempt_releases_all_slots(node: Node, tmp_path: Path) -> None:
    node.foreign.fails = Unavailable("out of order")
    answer = await node.claims.acquire("w1", (CAMERA, GPU))
    assert answer == WaitingForDevices("out of order", failed=True)
    assert (node.foreign.used, node.devices.ledger.claims_of("w1"), node.claims.in_progress) == ({}, {}, set())
    assert len(node.foreign.allocated) == 1  # an attempt that failed for another reason than a conflict is not repeated


async def test_a_configuration_that_is_removed_while_a_plugin_allocates_gives_no_device(node: Node) -> None:
    node.foreign.meanwhile = lambda: node.devices.configure({})
    answer = await node.claims.acquire("w1", (CAMERA, GPU))
    assert isinstance(answer, WaitingForDevices)
    assert (node.foreign.used, node.devices.ledger.claims_of("w1"), node.claims.records) == ({}, {}, {})


async def test_a_slot_that_is_revoked_while_the_record_is_written_is_claimed_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a workload would start with a device that is in use."""
    revocations = [True, False]

    async def revoked_meanwhile(function: Callable[..., Any], *values: Any) -> Any:
        if revocations.pop(0):
            node.end_claim()
        return function(*values)

    monkeypatch.setattr(asyncio, "to_thread", revoked_meanwhile)
    assert isinstance(await node.claims.acquire("w1", (CAMERA,)), tuple)
    assert revocations == []
    assert node.devices.ledger.claims_of("w1") == {SLOT: CLAIM}


async def test_a_record_with_a_revoked_slot_is_not_used(node: Node) -> None:
    await node.claims.acquire("w1", (CAMERA,))
    node.end_claim()
    await node.claims.acquire("w2", (CAMERA,))
    answer = await node.claims.acquire("w1", (CAMERA,))
    assert answer == WaitingForDevices("waits for 1 x akri.sh/cam, 1 visible, 0 free")
    assert "w1" not in node.claims.records


async def test_a_device_that_is_offline_must_return_before_the_next_start(node: Node) -> None:
    first = await node.claims.acquire("w1", (CAMERA,))
    node.devices.observe("cam", "s", [], False, 1)
    nothing = "the discovery handler 'fake' finds no device that matches its discoveryDetails"
    waits = WaitingForDevices(f"waits for its devices of akri.sh/cam to return; {nothing}")
    assert await node.claims.acquire("w1", (CAMERA,)) == waits
    node.devices.observe("cam", "s", [DiscoveredDevice("foo0")], False, 2)
    assert await node.claims.acquire("w1", (CAMERA,)) == first


async def test_a_slot_is_lost_even_if_the_record_cannot_be_written(
    node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await node.claims.acquire("w1", (CAMERA,))
    (tmp_path / "claims").rename(tmp_path / "gone")
    with caplog.at_level(logging.WARNING):
        node.claims.lose("w1", SLOT)
        node.claims.lose("w1", SLOT)
    assert node.claims.records["w1"].lost
    assert caplog.text.count("cannot keep the claims of 'w1'") == 1
