"""Claims at the office: whom they wake, and how often a failing owner may try."""

import asyncio

import pytest

from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.node_devices import NodeDevices, Touched
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.devices.discovery.base import DiscoveredDevice
from ankaios.devices.server_slots import ServerSlots
from ankaios.devices.slot_office import SlotOffice

A = "cam-fbcb99"


class Office:
    """Of a node with one local camera of capacity 2."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.noted: list[Touched] = []
        self.pauses: list[float] = []
        node = NodeDevices("node-a")
        node.configure({"cam": Configuration("cam", "fake", capacity=2)})
        node.observe("cam", "s", [DiscoveredDevice("foo0")], False, 0)
        self.office = SlotOffice(node, ServerSlots(), self.noted.append)
        monkeypatch.setattr("ankaios.devices.slot_office.PAUSE_SECONDS", 1000)
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def claim(self, index: int, owner: str) -> dict[Slot, Claim]:
        claim = Claim("node-a", owner=owner)
        assert await self.office.claim([SlotChange(Slot(A, index), claim)]) is None
        return {Slot(A, index): claim}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(monkeypatch)


async def test_a_claim_is_told_but_wakes_nobody_and_a_release_does(made: Office) -> None:
    claims = await made.claim(0, "w")
    made.office.give_back(claims)
    assert [(touched.instances, touched.quiet) for touched in made.noted] == [({A}, True), ({A}, False)]


async def test_an_owner_whose_attempt_was_undone_pauses_once_before_the_next(made: Office) -> None:
    made.office.give_back(await made.claim(0, "w"), quiet=True)
    await made.claim(1, "other")
    assert made.pauses == []
    await made.claim(0, "w")
    await made.claim(0, "w")
    (pause,) = made.pauses
    assert 0 < pause <= 1000


async def test_an_owner_that_let_go_in_peace_need_not_pause(made: Office) -> None:
    made.office.give_back(await made.claim(0, "w"))
    await made.claim(0, "w")
    assert made.pauses == []
