"""Bounded channels: order, back pressure, and their end."""

import asyncio

import pytest

from ankaios.common.channels import Channel, ChannelClosed, ToServerChannel
from ankaios.common.messages import (
    AgentGone,
    BroadcastLogsCancel,
    FromAgent,
    FromServerMessage,
    Respond,
    ToAgent,
    ToServerMessage,
    error_response,
)
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer


async def test_messages_to_the_server_arrive_in_order() -> None:
    """[utest->swdd~to-server-channel~1]"""
    channel: ToServerChannel = Channel(3)
    sent: list[ToServerMessage] = [FromAgent("a", ToServer()), AgentGone("a"), FromAgent("a", ToServer())]
    for message in sent:
        await channel.send(message)
    assert [await channel.receive() for _ in sent] == sent


async def test_messages_from_the_server_arrive_in_order() -> None:
    """[utest->swdd~from-server-channel~1]"""
    channel: Channel[FromServerMessage] = Channel(3)
    sent: list[FromServerMessage] = [
        Respond(error_response("a@b", "x")),
        ToAgent("a", FromServer()),
        BroadcastLogsCancel("i"),
    ]
    for message in sent:
        assert channel.try_send(message)
    assert [await channel.receive() for _ in sent] == sent


async def test_a_receiver_waits_for_a_message() -> None:
    """[utest->swdd~to-server-channel~1]"""
    channel: Channel[int] = Channel(1)
    receiving = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)
    assert not receiving.done()
    await channel.send(7)
    assert await receiving == 7


async def test_a_full_channel_blocks_send_and_rejects_try_send() -> None:
    channel: Channel[int] = Channel(1)
    await channel.send(1)
    assert not channel.try_send(2)
    waiting = asyncio.create_task(channel.send(2))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert len(channel) == 1
    assert await channel.receive() == 1
    await waiting
    assert await channel.receive() == 2


async def test_waiting_senders_continue_in_their_order() -> None:
    channel: Channel[str] = Channel(1)
    await channel.send("first")
    senders = [asyncio.create_task(channel.send(name)) for name in ("a", "b", "c")]
    await asyncio.sleep(0)
    assert [await channel.receive() for _ in range(4)] == ["first", "a", "b", "c"]
    await asyncio.gather(*senders)


async def test_a_cancelled_sender_wakes_the_next_one() -> None:
    channel: Channel[str] = Channel(1)
    await channel.send("first")
    gone, stays = asyncio.create_task(channel.send("gone")), asyncio.create_task(channel.send("stays"))
    await asyncio.sleep(0)
    assert await channel.receive() == "first"  # wakes the one that is cancelled now
    gone.cancel()
    await stays
    assert await channel.receive() == "stays"


async def test_after_close_the_rest_is_received_and_nothing_sent() -> None:
    channel: Channel[int] = Channel(2)
    await channel.send(1)
    channel.close()
    assert channel.closed
    with pytest.raises(ChannelClosed):
        await channel.send(2)
    assert [item async for item in channel] == [1]
    with pytest.raises(ChannelClosed):
        await channel.receive()


async def test_close_wakes_all_waiting_tasks() -> None:
    full: Channel[int] = Channel(1)
    await full.send(1)
    empty: Channel[int] = Channel(1)
    waiting = [asyncio.create_task(full.send(2)), asyncio.create_task(empty.receive())]
    await asyncio.sleep(0)
    full.close()
    empty.close()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, ChannelClosed) for outcome in outcomes)


async def test_a_consumer_that_begins_before_the_end_of_an_earlier_one_is_woken() -> None:
    channel: Channel[str] = Channel(3)
    earlier = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)

    async def next_consumer() -> str:
        earlier.cancel()  # ends after this has begun to wait
        return await channel.receive()

    later = asyncio.create_task(next_consumer())
    await asyncio.wait([earlier])
    await channel.send("message")
    async with asyncio.timeout(30):
        assert await later == "message"


async def test_the_first_consumer_receives_the_message_of_a_cancelled_second_one() -> None:
    channel: Channel[str] = Channel(3)
    first = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)
    second = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)
    await channel.send("message")
    second.cancel()
    await asyncio.wait([second])
    async with asyncio.timeout(30):
        assert await first == "message"


async def test_the_first_consumer_continues_after_a_second_one_has_ended() -> None:
    channel: Channel[str] = Channel(3)
    first = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)
    second = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)
    await channel.send("for the second")
    assert await second == "for the second"
    await channel.send("for the first")
    async with asyncio.timeout(30):
        assert await first == "for the first"
