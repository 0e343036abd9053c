"""Claims of pods, compared with a checkpoint file and the list of pods of a kubelet that fails as the test requires."""

import json
import logging
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.inventory import claimed_through
from ankaios.devices.core.kubelet_checkpoint import DeviceKey, read_checkpoint
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.devices.kubelet_plugins import ConfigurationDevicePlugin
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.devices.pod_claims import PodClaims
from ankaios.devices.pod_reconciler import CHECKPOINT, PodReconciler
from ankaios.grpc.wire_format import CallFailed, Status
from tests.unit.devices.nodes import LOCAL as CAM
from tests.unit.devices.nodes import a_node, an_allocator


def an_entry(resource: str, *ids: str, slots: dict[str, str] | None = None, container: str = "main") -> dict[str, Any]:
    annotations = {f"akri.agent.slot-{slot}": f"C:{id_}:{slot}" for id_, slot in (slots or {}).items()}
    response = pb.ContainerAllocateResponse(annotations=annotations).SerializeToString()
    return {
        "PodUID": "4f3c",
        "ContainerName": container,
        "ResourceName": resource,
        "DeviceIDs": {"-1": list(ids)},
        "AllocResp": b64encode(response).decode(),
    }


def a_checkpoint(*entries: dict[str, Any]) -> str:
    return json.dumps({"Data": {"PodDeviceEntries": entries or None, "RegisteredDevices": {}}, "Checksum": 1})


class Node:
    """A node with a camera of three slots, and a kubelet whose pods are `listed`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        (folder / CHECKPOINT).parent.mkdir(parents=True)
        self.devices = a_node(capacity=3)
        self.claims = PodClaims(self.devices, folder)
        self.claims.restore()
        self.listed: set[DeviceKey] | None = set()
        self.lists_sent: list[str] = []
        allocator = an_allocator(self.devices)
        self.reconciler = PodReconciler(self.devices, allocator, self.claims, folder, self.lists_sent.append, 20)
        monkeypatch.setattr(self.reconciler, "_listed", self._answer)

    async def _answer(self) -> set[DeviceKey]:
        if self.listed is None:
            raise CallFailed(Status.UNAVAILABLE, "no kubelet")
        return self.listed

    def write(self, *entries: dict[str, Any]) -> None:
        (self.folder / CHECKPOINT).write_text(a_checkpoint(*entries))

    def claim(self, index: int, virtual_id: str | None = None) -> None:
        self.devices.ledger.apply([SlotChange(Slot(CAM, index), Claim("node-a", virtual_id))])

    def used(self) -> dict[int, str]:
        return {slot.index: claim.usage for slot, claim in self.devices.ledger.claims(CAM).items()}

    async def review(self, *times: float) -> None:
        for now in times:
            await self.reconciler.review(now)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_a_kubelet_identifies_a_slot_by_an_id_without_prefix() -> None:
    """Akri 0.13 compares ids with a prefix and so never frees slots of instances."""
    assert claimed_through(Slot(CAM, 2), Claim("a")) == (f"akri.sh/{CAM}", f"{CAM}-2")
    assert claimed_through(Slot(CAM, 2), Claim("a", "7")) == ("akri.sh/cam", "7")


async def test_without_an_answer_of_the_kubelet_nothing_is_freed(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.claim(0)
    node.listed = None
    with caplog.at_level(logging.INFO):
        await node.review(0, 100)
    assert node.used() == {0: "node-a"}
    assert "cannot ask the kubelet" in caplog.text


async def test_slots_of_ended_pods_are_released_after_a_while(node: Node) -> None:
    """[utest->akri~reconciler-frees-unused-slots~1]"""
    node.claim(0)
    node.claim(1, "0")
    node.listed = {("akri.sh/cam", "0")}
    await node.review(0, 19)
    assert len(node.used()) == 2
    await node.review(20)
    assert node.used() == {1: "C:0:node-a"}


async def test_an_incomplete_list_of_pods_frees_nothing_that_the_checkpoint_has(node: Node) -> None:
    """After its restart a kubelet lists no pods for some time, though they run."""
    node.claim(0, "0")
    node.write(an_entry("akri.sh/cam", "0"))
    await node.review(0, 20, 40)
    assert node.used() == {0: "C:0:node-a"}
    assert node.lists_sent == ["akri.sh/cam", "akri.sh/cam"]  # requests the kubelet to write its checkpoint
    node.write()
    await node.review(60, 80)
    assert node.used() == {}


async def test_a_slot_that_only_an_init_container_holds_is_not_freed(node: Node) -> None:
    node.claim(0)
    node.write(an_entry(f"akri.sh/{CAM}", f"{CAM}-0", container="init"))
    await node.review(0, 20, 40, 60)
    assert node.used() == {0: "node-a"}


async def test_an_id_that_a_new_pod_gets_during_a_review_is_not_freed(node: Node) -> None:
    """The kubelet uses the id of an ended pod again, and has not written this when its files are read."""
    plugin = ConfigurationDevicePlugin(node.devices, an_allocator(node.devices), node.claims, "cam")

    async def list_while_allocating() -> set[DeviceKey]:
        await plugin.allocate([["0"]])
        return set()

    node.claim(0, "0")
    await node.review(0)
    node.reconciler._listed = list_while_allocating  # type: ignore[method-assign]
    await node.review(20)
    assert node.used() == {0: "C:0:node-a"}
    node.reconciler._listed = node._answer  # type: ignore[method-assign]
    await node.review(39)
    assert node.used() == {0: "C:0:node-a"}
    await node.review(60)
    assert node.used() == {}


async def test_a_checkpoint_that_cannot_be_read_frees_nothing(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.claim(0)
    (node.folder / CHECKPOINT).write_text("{")
    await node.review(0, 100)
    assert node.used() == {0: "node-a"}
    assert "cannot read which devices are in use" in caplog.text


async def test_slots_in_use_without_a_claim_are_claimed(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.write(an_entry("akri.sh/cam", "4", slots={"4": f"{CAM}-2"}), an_entry("example.com/gpu", "gpu-0"))
    node.listed = {(f"akri.sh/{CAM}", f"{CAM}-1"), ("akri.sh/cam", "9")}
    await node.review(0)
    assert node.used() == {1: "node-a", 2: "C:4:node-a"}
    assert "a pod uses '9' of akri.sh/cam, but it is not known which slot that is" in caplog.text


async def test_a_slot_in_use_that_another_pod_holds_stays_with_that_pod(node: Node) -> None:
    node.claim(2, "0")
    node.write(an_entry("akri.sh/cam", "0"), an_entry("akri.sh/cam", "1", slots={"1": f"{CAM}-2"}))
    await node.review(0)
    assert node.used() == {2: "C:0:node-a"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"Data": 1}', '{"Data": {"PodDeviceEntries": [{}]}}', "\xff"])
def test_another_content_is_no_checkpoint(text: str) -> None:
    with pytest.raises(ValueError, match="no checkpoint of a kubelet"):
        read_checkpoint(text.encode())


def test_a_resource_of_another_plugin_names_no_slot() -> None:
    entry = an_entry("akri.sh/cam", "0") | {"AllocResp": "%%%"}
    old = an_entry(f"akri.sh/{CAM}", f"{CAM}-0") | {"DeviceIDs": [f"{CAM}-0"], "AllocResp": None}
    assert read_checkpoint(a_checkpoint(entry, old).encode()) == {
        ("akri.sh/cam", "0"): None,
        (f"akri.sh/{CAM}", f"{CAM}-0"): Slot(CAM, 0),
    }


# --- on disk ---


async def test_claims_of_pods_are_kept_after_the_end_of_the_agent(node: Node) -> None:
    node.claim(0)
    node.claim(1, "3")
    await node.claims.save()
    again = a_node(capacity=3)
    PodClaims(again, node.folder).restore()
    assert again.ledger.usage(CAM) == node.devices.ledger.usage(CAM)
    node.devices.shared.release(node.devices.ledger.claims(CAM))
    await node.claims.save()
    empty = a_node(capacity=3)
    PodClaims(empty, node.folder).restore()
    assert empty.ledger.claims(CAM) == {}


async def test_the_claim_of_a_removed_device_is_kept(node: Node) -> None:
    node.claim(0)
    await node.claims.save()
    node.devices.configure({})
    node.claims._held.pop(Slot(CAM, 9), None)
    await node.claims.save()
    again = a_node(capacity=3)
    PodClaims(again, node.folder).restore()
    assert len(again.ledger.claims(CAM)) == 1


def test_claims_that_cannot_be_read_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    claims = PodClaims(a_node(), tmp_path)
    claims.restore()
    (tmp_path / "pods/claims.json").write_text('{"checksum": "0", "record": []}')
    claims.restore()
    assert "the claims of pods in" in caplog.text


def test_damaged_configurations_are_not_used_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    claims, update = PodClaims(a_node(), tmp_path), grpc.DeviceUpdate()
    update.configurations.deviceConfigurations["camera"].capacity = 1
    claims.remember(update)
    assert claims.remembered() == update
    path = tmp_path / "pods/configurations.json"
    intact = path.read_bytes()
    for position in range(len(intact)):
        for damaged in (intact[:position], intact[:position] + b"\xff" + intact[position + 1 :]):
            caplog.clear()
            path.write_bytes(damaged)
            assert claims.remembered() is None
            assert "the device configurations in" in caplog.text
