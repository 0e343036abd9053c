"""Claims of slots: with or without the server, and all slots or none."""

import asyncio

import pytest

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.node_devices import NOT_CONNECTED, DeviceChanges
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.slot_allocator import NO_ANSWER, ServerUnreachable, SlotAllocator
from tests.unit.devices.nodes import LOCAL, SHARED, a_node


class Allocator:
    """An allocator of a node with one camera of capacity 2."""

    def __init__(self, shared: bool, answer_seconds: float = 5) -> None:
        self.changes: list[DeviceChanges] = []
        self.sent: list[grpc.SlotRequest] = []
        self.name = SHARED if shared else LOCAL
        self.node = a_node(capacity=2, shared=shared)
        self.node.update_shared({SHARED: base.DeviceInstance()})
        self.has_sent = asyncio.Event()
        self.slots = SlotAllocator(self.node, self._send, self.changes.append, answer_seconds)

    def _send(self, message: grpc.ToServer) -> None:
        self.sent.append(message.slotRequest)
        self.has_sent.set()

    def change(self, index: int, owner: str) -> SlotChange:
        return SlotChange(Slot(self.name, index), Claim("node-a", owner=owner))

    def claim(self, index: int = 0, owner: str = "w") -> asyncio.Task[None]:
        return asyncio.create_task(self.slots.claim([self.change(index, owner)]))

    def answer(self, granted: bool, request: int = -1) -> None:
        self.slots.answered(
            grpc.SlotResponse(requestId=self.sent[request].requestId, granted=granted, reason="it is taken")
        )

    def used(self) -> dict[int, str]:
        return {slot.index: claim.owner for slot, claim in self.node.ledger.claims(self.name).items()}

    async def requested(self, number: int = 1) -> None:
        async with asyncio.timeout(5):
            while len(self.sent) < number:
                self.has_sent.clear()
                await self.has_sent.wait()


async def test_a_local_slot_is_claimed_without_the_server_and_claim_and_release_are_reported() -> None:
    made = Allocator(shared=False)
    change = made.change(0, "w")
    await made.slots.claim([change])
    assert (made.used(), made.sent) == ({0: "w"}, [])
    made.slots.release({change.slot: change.claim})
    assert made.used() == {}
    assert [changes.instances for changes in made.changes] == [{LOCAL}, {LOCAL}]
    assert made.sent == []


async def test_a_shared_slot_is_claimed_when_the_server_grants_it() -> None:
    made = Allocator(shared=True)
    claiming = made.claim()
    await made.requested()
    made.answer(granted=True)
    await claiming
    assert made.used() == {0: "w"}


async def test_each_answer_belongs_to_its_request() -> None:
    made = Allocator(shared=True)
    first, second = made.claim(0, "w1"), made.claim(1, "w2")
    await made.requested(2)
    made.answer(granted=False, request=1)
    made.answer(granted=True, request=0)
    made.slots.answered(grpc.SlotResponse(requestId="unknown"))
    await first
    with pytest.raises(SlotConflict, match="it is taken"):
        await second
    assert made.used() == {0: "w1"}


async def test_a_denied_claim_changes_nothing_but_is_reported() -> None:
    """Another claim may have been denied because of the slot that was claimed briefly."""
    made = Allocator(shared=True)
    claiming = made.claim()
    await made.requested()
    made.answer(granted=False)
    with pytest.raises(SlotConflict, match="it is taken"):
        await claiming
    assert made.used() == {}
    assert [changes.instances for changes in made.changes] == [{SHARED}]


async def test_a_slot_that_was_granted_after_its_device_disappeared_is_released() -> None:
    """Otherwise the server would count it as used by a workload that never got it."""
    made = Allocator(shared=True)
    claiming = made.claim()
    await made.requested()
    made.node.update_shared({SHARED: base.DeviceInstance()})  # sent before the server received the claim
    made.node.observe("cam", "s", [], True, 1)
    made.answer(granted=True)
    with pytest.raises(SlotConflict, match="disappeared"):
        await claiming
    assert [(change.before, change.after) for change in made.sent[1].changes] == [("node-a", "")]


async def test_without_a_session_a_claim_fails_immediately_and_changes_nothing() -> None:
    made = Allocator(shared=True)
    made.node.session_ended()
    with pytest.raises(ServerUnreachable, match=NOT_CONNECTED):
        await made.claim()
    assert (made.used(), made.sent) == ({}, [])
    made.node.session_began()
    made.node.update_shared({SHARED: base.DeviceInstance()})
    claiming = made.claim()
    await made.requested()
    made.answer(granted=True)
    await claiming


async def test_without_an_answer_the_request_is_undone() -> None:
    made = Allocator(shared=True, answer_seconds=0.01)
    with pytest.raises(ServerUnreachable, match=NO_ANSWER):
        await made.claim()
    assert made.used() == {}
    assert [change.after for change in made.sent[1].changes] == [""]


async def test_a_change_of_the_session_ends_the_wait() -> None:
    made = Allocator(shared=True)
    claiming = made.claim()
    await made.requested()
    made.slots.session_changed()
    with pytest.raises(ServerUnreachable, match=NOT_CONNECTED):
        await claiming


async def test_a_claim_that_is_cancelled_is_undone() -> None:
    made = Allocator(shared=True)
    claiming = made.claim()
    await made.requested()
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    assert made.used() == {}
    assert [change.after for change in made.sent[1].changes] == [""]


async def test_a_release_without_claims_sends_and_reports_nothing() -> None:
    made = Allocator(shared=True)
    made.slots.release({})
    assert (made.sent, made.changes) == ([], [])
