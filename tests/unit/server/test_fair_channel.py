"""The channel of the server: which senders wait, and what is dropped at the end of a connection."""

import asyncio

import pytest

from ankaios.common.channels import ChannelClosed
from ankaios.common.messages import AgentGone, ClientGone, FromAgent, FromClient, ToServerMessage
from ankaios.common.pb.ank_base_pb2 import Request
from ankaios.common.pb.grpc_api_pb2 import AgentHello, ToServer
from ankaios.server.core.sender_queues import MOST_OF_SENDER, Sender
from ankaios.server.fair_channel import FairChannel, sender_of


def from_client(connection: str, number: int = 0) -> FromClient:
    return FromClient(connection, Request(requestId=f"{connection}@{number}"))


def from_workload(workload: str, number: int = 0) -> FromAgent:
    return FromAgent("n1", ToServer(request=Request(requestId=f"n1@{workload}@{number}")))


HELLO = FromAgent("n1", ToServer(agentHello=AgentHello(agentName="n1")))


@pytest.mark.parametrize(
    ("message", "sender"),
    [
        (from_client("cli-conn-1"), Sender("cli-conn-1")),
        (ClientGone("cli-conn-1"), Sender("cli-conn-1")),
        (from_workload("web"), Sender("n1", "web")),
        (FromAgent("n1", ToServer(request=Request(requestId="n1@x"))), Sender("n1")),
        (HELLO, Sender("n1")),
        (AgentGone("n1"), Sender("n1")),
    ],
)
def test_the_sender_of_a_message(message: ToServerMessage, sender: Sender) -> None:
    assert sender_of(message) == sender


async def drained(channel: FairChannel) -> list[ToServerMessage]:
    return [await channel.receive() for _ in range(len(channel))]


async def test_a_full_queue_holds_back_its_sender_only() -> None:
    channel = FairChannel()
    for number in range(MOST_OF_SENDER):
        await channel.send(from_client("cli-conn-1", number))
    waiting = asyncio.create_task(channel.send(from_client("cli-conn-1", 99)))
    await asyncio.sleep(0)
    assert not waiting.done()
    await channel.send(from_client("cli-conn-2"))
    assert await channel.receive() == from_client("cli-conn-1", 0)
    await waiting
    assert len(channel) == MOST_OF_SENDER + 1


async def test_requests_of_a_disconnected_client_are_dropped() -> None:
    channel = FairChannel()
    for number in range(10):
        await channel.send(from_client("cli-conn-1", number))
    await channel.send(from_client("cli-conn-2"))
    await channel.send(ClientGone("cli-conn-1"))
    assert sorted(map(repr, await drained(channel))) == sorted(
        map(repr, [from_client("cli-conn-2"), ClientGone("cli-conn-1")])
    )


async def test_reports_of_an_agent_are_handled_before_its_end_but_requests_of_its_workloads_are_dropped() -> None:
    channel = FairChannel()
    await channel.send(HELLO)
    await channel.send(from_workload("web"))
    await channel.send(AgentGone("n1"))
    assert await drained(channel) == [HELLO, AgentGone("n1")]


async def test_the_end_of_a_peer_is_taken_even_if_its_queue_is_full() -> None:
    channel = FairChannel()
    for _ in range(MOST_OF_SENDER):
        assert channel.try_send(HELLO)
    assert not channel.try_send(HELLO)
    assert channel.try_send(AgentGone("n1"))


async def test_a_closed_channel_ends_all_waits() -> None:
    channel = FairChannel()
    for number in range(MOST_OF_SENDER):
        await channel.send(from_client("cli-conn-1", number))
    waiting = asyncio.create_task(channel.send(from_client("cli-conn-1", 99)))
    await asyncio.sleep(0)
    channel.close()
    with pytest.raises(ChannelClosed):
        await waiting
    assert len([message async for message in channel]) == MOST_OF_SENDER


async def test_only_some_messages_are_received_for_a_time() -> None:
    channel = FairChannel()
    await channel.send(from_client("cli-conn-1"))
    await channel.send(from_workload("web"))
    with channel.only(lambda message: isinstance(message, FromAgent), held=Sender("n1", "web")):
        receiving = asyncio.create_task(channel.receive())
        await asyncio.sleep(0)
        assert not receiving.done()
        await channel.send(HELLO)
        assert await receiving == HELLO
        receiving = asyncio.create_task(channel.receive())
        await asyncio.sleep(0)
        assert not receiving.done()
    assert await receiving == from_client("cli-conn-1")
    assert await channel.receive() == from_workload("web")


async def test_messages_of_a_held_sender_wait_until_it_is_released() -> None:
    channel = FairChannel()
    channel.hold(Sender("cli-conn-1"))
    await channel.send(from_client("cli-conn-1"))
    await channel.send(from_client("cli-conn-2"))
    assert await channel.receive() == from_client("cli-conn-2")
    receiving = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)
    assert not receiving.done()
    channel.release(Sender("cli-conn-1"))
    assert await receiving == from_client("cli-conn-1")
