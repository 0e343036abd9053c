"""Claims at the office: with the server's word or without it, whole or not at all."""

import asyncio

import pytest

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.node_devices import NOT_CONNECTED, NodeDevices, Touched
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.plugin_service import AllocationDenied
from ankaios.devices.server_slots import NO_ANSWER, ServerAway, ServerSlots
from ankaios.devices.slot_office import ATTEMPTS, SlotOffice

LOCAL, SHARED = "cam-fbcb99", "cam-8120fe"


class Office:
    """Of a node with one camera of capacity 2."""

    def __init__(self, shared: bool, answer_seconds: float = 5, grace: float = 0) -> None:
        self.noted: list[Touched] = []
        self.sent: list[grpc.SlotRequest] = []
        self.name = SHARED if shared else LOCAL
        self.node = NodeDevices("node-a")
        self.node.session_began()
        self.node.configure({"cam": Configuration("cam", "fake", capacity=2, offline_grace=grace)})
        self.node.observe("cam", "s", [DiscoveredDevice("foo0")], shared, 0)
        self.node.learn({SHARED: base.DeviceInstance()})
        self.news = asyncio.Event()
        self.server = ServerSlots(self._send, answer_seconds)
        self.server.session_began()
        self.office = SlotOffice(self.node, self.server, self.noted.append)

    def _send(self, message: grpc.ToServer) -> None:
        self.sent.append(message.slotRequest)
        self.news.set()

    def change(self, index: int, owner: str) -> SlotChange:
        return SlotChange(Slot(self.name, index), Claim("node-a", owner=owner))

    def answer(self, granted: bool) -> None:
        self.server.answered(
            grpc.SlotResponse(requestId=self.sent[-1].requestId, granted=granted, reason="somebody else has it")
        )

    def used(self) -> dict[int, str]:
        return {slot.index: claim.owner for slot, claim in self.node.ledger.claims(self.name).items()}

    async def asked(self, number: int = 1) -> None:
        async with asyncio.timeout(5):
            while len(self.sent) < number:
                self.news.clear()
                await self.news.wait()


async def test_a_local_slot_is_claimed_without_the_server_and_both_ends_are_told() -> None:
    made = Office(shared=False)
    change = made.change(0, "w")
    await made.office.claim([change])
    assert (made.used(), made.sent) == ({0: "w"}, [])
    made.office.give_back({change.slot: change.claim})
    assert made.used() == {}
    assert [touched.instances for touched in made.noted] == [{LOCAL}, {LOCAL}]


async def test_a_shared_slot_is_claimed_with_the_word_of_the_server() -> None:
    made = Office(shared=True)
    claiming = asyncio.create_task(made.office.claim([made.change(0, "w")]))
    await made.asked()
    made.answer(granted=True)
    await claiming
    assert made.used() == {0: "w"}


async def test_a_refused_claim_leaves_nothing_and_is_told_to_those_who_were_refused_meanwhile() -> None:
    made = Office(shared=True)
    claiming = asyncio.create_task(made.office.claim([made.change(0, "w")]))
    await made.asked()
    made.answer(granted=False)
    with pytest.raises(SlotConflict, match="somebody else"):
        await claiming
    assert made.used() == {}
    assert [touched.instances for touched in made.noted] == [{SHARED}]


async def test_a_slot_that_was_granted_after_its_device_vanished_is_given_back() -> None:
    """Else the server would count it as used by a workload that never got it."""
    made = Office(shared=True)
    claiming = asyncio.create_task(made.office.claim([made.change(0, "w")]))
    await made.asked()
    made.node.learn({SHARED: base.DeviceInstance()})  # on the way before the server heard of the claim
    made.node.observe("cam", "s", [], True, 1)
    made.answer(granted=True)
    with pytest.raises(SlotConflict, match="vanished"):
        await claiming
    assert [(change.before, change.after) for change in made.sent[1].changes] == [("node-a", "")]


async def test_without_a_session_a_claim_fails_at_once_and_changes_nothing() -> None:
    made = Office(shared=True)
    made.server.session_ended()
    with pytest.raises(ServerAway, match=NOT_CONNECTED):
        await made.office.claim([made.change(0, "w")])
    assert (made.used(), made.sent) == ({}, [])


# --- for a kubelet, which does not say for whom it asks


async def test_a_kubelet_is_told_at_once_that_the_server_is_not_connected() -> None:
    made = Office(shared=True)
    made.server.session_ended()
    with pytest.raises(AllocationDenied, match=NOT_CONNECTED):
        await made.office.allocate("cam", True, [["0"]], "")


async def test_a_server_that_does_not_answer_is_asked_once() -> None:
    made = Office(shared=True, answer_seconds=0.01)
    with pytest.raises(AllocationDenied, match=NO_ANSWER):
        await made.office.allocate("cam", True, [["0"]], "")
    assert len([request for request in made.sent if request.changes[0].after]) == 1


async def test_who_is_refused_looks_again_for_some_times() -> None:
    made = Office(shared=True)
    allocating = asyncio.create_task(made.office.allocate("cam", True, [["0"]], ""))
    for attempt in range(1, ATTEMPTS + 1):
        await made.asked(attempt)
        made.answer(granted=False)
    with pytest.raises(AllocationDenied, match=f"others were faster {ATTEMPTS} times.*somebody else has it"):
        await allocating


async def test_a_kubelet_never_waits_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.devices.slot_office.ALLOCATE_SECONDS", 0.01)
    made = Office(shared=True)
    with pytest.raises(AllocationDenied, match="not settled with the server within"):
        await made.office.allocate("cam", True, [["0"]], "")
    assert made.used() == {}
    assert [change.after for change in made.sent[-1].changes] == [""]  # and the server is told to forget it


async def test_what_is_held_of_a_device_that_is_gone_is_not_given_as_nothing() -> None:
    """A workload would run without its device, and count as having it."""
    made = Office(shared=False)
    (id_,) = [device.id for device in made.office.advertised("cam", True)]
    (grant,) = await made.office.allocate("cam", True, [[id_]], "w")
    assert len(grant.annotations) == 1
    made.node.observe("cam", "s", [], False, 1)
    made.node.expire(2)
    with pytest.raises(AllocationDenied, match="a device of 'cam' vanished while it was given"):
        await made.office.allocate("cam", True, [[id_]], "w")
