import asyncio

import pytest

from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.devices.server_slots import NO_ANSWER, ServerSlots

TAKE = SlotChange(Slot("cam-1", 0), Claim("a", "0", "w"))


def a_server(answer_seconds: float = 5) -> tuple[ServerSlots, list[grpc.SlotRequest]]:
    sent: list[grpc.SlotRequest] = []
    server = ServerSlots(answer_seconds)
    server.send = lambda message: sent.append(message.slotRequest)
    return server, sent


async def test_the_answer_reaches_who_asked() -> None:
    server, sent = a_server()
    first, second = asyncio.create_task(server.ask([TAKE])), asyncio.create_task(server.ask([TAKE]))
    await asyncio.sleep(0)
    server.answered(grpc.SlotResponse(requestId=sent[1].requestId, reason="taken"))
    server.answered(grpc.SlotResponse(requestId=sent[0].requestId, granted=True))
    server.answered(grpc.SlotResponse(requestId="unknown"))
    assert (await first, await second) == (None, "taken")


async def test_without_an_answer_the_request_is_taken_back() -> None:
    server, sent = a_server(answer_seconds=0.01)
    assert await server.ask([TAKE]) == NO_ANSWER
    assert [change.after for change in sent[1].changes] == [""]


async def test_a_new_session_ends_the_wait() -> None:
    server, _ = a_server()
    asking = asyncio.create_task(server.ask([TAKE]))
    await asyncio.sleep(0)
    server.session_began()
    assert await asking == NO_ANSWER


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
