"""Questions to the server about slots: answered, refused, unanswered, or not even asked."""

import asyncio

import pytest

from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.node_devices import NOT_CONNECTED
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict
from ankaios.devices.server_slots import NO_ANSWER, ServerAway, ServerSlots

TAKE = SlotChange(Slot("cam-1", 0), Claim("a", "0", "w"))


def a_server(answer_seconds: float = 5) -> tuple[ServerSlots, list[grpc.SlotRequest]]:
    sent: list[grpc.SlotRequest] = []
    server = ServerSlots(lambda message: sent.append(message.slotRequest), answer_seconds)
    server.session_began()
    return server, sent


async def test_the_answer_reaches_who_asked() -> None:
    server, sent = a_server()
    first, second = asyncio.create_task(server.ask([TAKE])), asyncio.create_task(server.ask([TAKE]))
    await asyncio.sleep(0)
    server.answered(grpc.SlotResponse(requestId=sent[1].requestId, reason="taken"))
    server.answered(grpc.SlotResponse(requestId=sent[0].requestId, granted=True))
    server.answered(grpc.SlotResponse(requestId="unknown"))
    await first
    with pytest.raises(SlotConflict, match="taken"):
        await second


async def test_without_an_answer_the_request_is_taken_back() -> None:
    server, sent = a_server(answer_seconds=0.01)
    with pytest.raises(ServerAway, match=NO_ANSWER):
        await server.ask([TAKE])
    assert [change.after for change in sent[1].changes] == [""]


@pytest.mark.parametrize("ends", [ServerSlots.session_began, ServerSlots.session_ended])
async def test_a_change_of_the_session_ends_the_wait(ends: object) -> None:
    server, _ = a_server()
    asking = asyncio.create_task(server.ask([TAKE]))
    await asyncio.sleep(0)
    assert callable(ends)
    ends(server)
    with pytest.raises(ServerAway, match=NOT_CONNECTED):
        await asking


async def test_without_a_session_nobody_is_asked_and_nobody_waits() -> None:
    server, sent = a_server()
    server.session_ended()
    with pytest.raises(ServerAway, match=NOT_CONNECTED):
        await server.ask([TAKE])
    assert sent == []
    server.session_began()
    asking = asyncio.create_task(server.ask([TAKE]))
    await asyncio.sleep(0)
    server.answered(grpc.SlotResponse(requestId=sent[0].requestId, granted=True))
    await asking


async def test_who_is_cancelled_while_asking_takes_it_back() -> None:
    server, sent = a_server()
    asking = asyncio.create_task(server.ask([TAKE]))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(sent) == 2


def test_nothing_to_say_is_not_said() -> None:
    server, sent = a_server()
    server.tell([])
    assert sent == []
