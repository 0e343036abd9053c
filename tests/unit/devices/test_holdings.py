"""What a workload was given is written down whole, and only if it is really its own."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ankaios.common.device_grant import DeviceGrant
from ankaios.devices.claim_store import Allocation, ClaimStore
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.holdings import Holdings
from ankaios.devices.server_slots import ServerSlots
from ankaios.devices.slot_office import SlotOffice

SLOT, CLAIM = Slot("cam-fbcb99", 0), Claim("node-a", "0", "w1")
CAMERA = Allocation("akri.sh/cam", None, ("0",), DeviceGrant({"CAMERA": "1"}))


class Node:
    """With a camera that `w1` has claimed."""

    def __init__(self, folder: Path) -> None:
        self.devices = NodeDevices("node-a")
        self.devices.configure({"cam": Configuration("cam", "fake")})
        self.devices.observe("cam", "s", [DiscoveredDevice("foo0")], False, 0)
        self.devices.begin([SlotChange(SLOT, CLAIM)])
        office = SlotOffice(self.devices, ServerSlots(lambda message: None), lambda touched: None)
        manager = DeviceManager(folder / "plugins", lambda resource, came: None)
        self.store = ClaimStore(folder / "claims")
        self.holdings = Holdings(office, manager, self.store, folder / "files")
        self.holdings.restore()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_what_is_kept_is_found_again_after_a_restart(node: Node, tmp_path: Path) -> None:
    gpu = Allocation("x/gpu", "pod/a", ("g0",), DeviceGrant({"GPU": "g0"}))
    grants = await node.holdings.keep("w1", [CAMERA, gpu])
    assert [(grant.container, "CAMERA" in grant.envs, "GPU" in grant.envs) for grant in grants] == [
        (None, True, False),
        ("pod/a", False, True),
    ]
    later = Holdings(
        SlotOffice(NodeDevices("node-a"), ServerSlots(lambda message: None), lambda touched: None),
        DeviceManager(tmp_path / "plugins", lambda resource, came: None),
        node.store,
        tmp_path / "files",
    )
    later.restore()
    assert later.records == node.holdings.records
    assert later.holds("w1", SLOT)
    later.release("w1")
    assert (later.records, list(node.store.load()), list((tmp_path / "files").iterdir())) == ({}, [], [])


async def test_what_goes_to_somebody_else_while_it_is_written_down_is_not_kept(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a workload would start with a device that is in use."""

    async def taken_away_meanwhile(function: Callable[..., Any], *values: Any) -> Any:
        node.devices.end({SLOT: CLAIM})
        return function(*values)

    monkeypatch.setattr(asyncio, "to_thread", taken_away_meanwhile)
    with pytest.raises(SlotConflict, match="'w1' has lost a device"):
        await node.holdings.keep("w1", [CAMERA])
    assert "w1" not in node.holdings.records


async def test_what_went_to_somebody_else_before_is_not_kept_either(node: Node) -> None:
    node.devices.end({SLOT: CLAIM})
    with pytest.raises(SlotConflict, match="'w1' has lost a device"):
        await node.holdings.keep("w1", [CAMERA])


async def test_a_slot_is_lost_even_if_the_disk_refuses_to_note_it(
    node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await node.holdings.keep("w1", [CAMERA])
    (tmp_path / "claims").rename(tmp_path / "gone")
    with caplog.at_level(logging.WARNING):
        node.holdings.lose("w1", SLOT)
        node.holdings.lose("w1", SLOT)
    assert node.holdings.is_lost(node.holdings.records["w1"])
    assert caplog.text.count("cannot keep the claims of 'w1'") == 1
