"""An independent gRPC implementation (grpcio) on the other end, as client and as server, in plain text."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
import pytest

from ankaios.common.messages import AgentGone, ClientGone, FromAgent, FromClient, Respond, ToAgent
from ankaios.common.pb.ank_base_pb2 import Error, Response
from ankaios.common.pb.grpc_api_pb2 import DeviceReport, FromServer, Goodbye, SlotRequest, ToServer
from ankaios.grpc.keepalive import Keepalive
from ankaios.middleware.client import connect
from ankaios.middleware.connecting import (
    AccessRefused,
    CannotConnect,
    ConnectionLost,
    ConnectionSettings,
    VersionRefused,
)
from ankaios.middleware.methods import Method
from ankaios.middleware.server import Limits
from tests.integration.middleware.support import (
    TIME_LIMIT,
    Running,
    a_commander_hello,
    a_greeting,
    a_request,
    an_agent_hello,
    an_answer,
    answering,
    assert_served,
    received,
    running_server,
)

BIG = 5_000_000
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def call(channel: grpc.aio.Channel, method: Method) -> Any:
    make = channel.stream_stream(
        method.value, request_serializer=ToServer.SerializeToString, response_deserializer=FromServer.FromString
    )
    return make(timeout=TIME_LIMIT)


def channel_to(running: Running) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"127.0.0.1:{running.server.port}", options=UNLIMITED)


async def test_a_grpcio_agent_gets_headers_immediately_and_exchanges_messages() -> None:
    """The headers come before any message: the original client sends nothing before it received them."""
    async with running_server() as running, channel_to(running) as channel:
        stream = call(channel, Method.AGENT)
        await stream.write(an_agent_hello("agent_A"))
        await asyncio.wait_for(stream.initial_metadata(), TIME_LIMIT)
        assert await running.next() == FromAgent("agent_A", an_agent_hello("agent_A"))
        running.server.dispatch(ToAgent("agent_A", a_greeting()))
        assert await stream.read() == a_greeting()
        stream.cancel()
        assert await running.next() == AgentGone("agent_A")


@pytest.mark.parametrize("method", [Method.CLI, Method.COMMAND])
async def test_a_grpcio_client_sends_goodbye_and_its_call_ends_with_ok(method: Method) -> None:
    async with running_server() as running, channel_to(running) as channel:
        stream = call(channel, method)
        await stream.write(a_commander_hello())
        await stream.write(a_request("id"))
        message = await running.next()
        assert isinstance(message, FromClient)
        running.server.dispatch(Respond(an_answer(message.request.requestId)))
        assert (await stream.read()).response.requestId == "id"
        await stream.write(ToServer(goodbye=Goodbye()))
        assert await stream.read() is grpc.aio.EOF
        assert await stream.code() is grpc.StatusCode.OK
        assert await running.next() == ClientGone(message.connection)


@pytest.mark.parametrize(
    ("method", "hello", "code", "text"),
    [
        (Method.AGENT, ToServer(), grpc.StatusCode.INVALID_ARGUMENT, "Empty"),
        (Method.AGENT, None, grpc.StatusCode.INVALID_ARGUMENT, "Empty"),
        (Method.CLI, an_agent_hello(), grpc.StatusCode.INVALID_ARGUMENT, "No CommanderHello received."),
        (
            Method.COMMAND,
            a_commander_hello("2.1.0"),
            grpc.StatusCode.FAILED_PRECONDITION,
            "Unsupported protocol version '2.1.0'. Currently supported '1'",
        ),
    ],
)
async def test_a_grpcio_client_reads_the_status_of_a_refusal(
    method: Method, hello: ToServer | None, code: grpc.StatusCode, text: str
) -> None:
    async with running_server() as running, channel_to(running) as channel:
        stream = call(channel, method)
        if hello is not None:
            await stream.write(hello)
        await stream.done_writing()
        assert await stream.code() is code
        assert await stream.details() == text


async def test_an_unknown_method_is_unimplemented() -> None:
    async with running_server() as running, channel_to(running) as channel:
        stream = channel.stream_stream("/grpc_api.Other/Thing")(timeout=TIME_LIMIT)
        await stream.done_writing()
        assert await stream.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_large_messages_pass_in_both_directions() -> None:
    async with running_server() as running, channel_to(running) as channel:
        stream = call(channel, Method.CLI)
        await stream.write(a_commander_hello())
        await stream.write(a_request("x" * BIG))
        message = await running.next()
        assert isinstance(message, FromClient)
        assert message.request.requestId.endswith("@" + "x" * BIG)
        answer = Response(requestId=f"{message.connection}@id", error=Error(message="y" * BIG))
        running.server.dispatch(Respond(answer))
        assert (await stream.read()).response.error.message == "y" * BIG


async def test_a_request_that_is_too_large_is_refused_with_a_text() -> None:
    async with (
        running_server(limits=Limits(max_message_size=100_000)) as running,
        answering(running),
        running.client() as other,
        channel_to(running) as channel,
    ):
        stream = call(channel, Method.CLI)
        await stream.write(a_commander_hello())
        await stream.initial_metadata()
        with pytest.raises(grpc.aio.AioRpcError):
            await stream.write(a_request("x" * BIG))
            await stream.read()
            await stream.write(a_request())
        assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "exceeds the limit of 100000 bytes" in (await stream.details() or "")
        await assert_served(other)


async def test_many_small_messages_pass_in_order() -> None:
    async with running_server() as running, channel_to(running) as channel:
        stream = call(channel, Method.AGENT)
        await stream.write(an_agent_hello("agent_A"))
        await running.next()
        for number in range(2_000):
            running.server.dispatch(Respond(an_answer(f"agent_A@web@{number}")))
        for number in range(2_000):
            assert (await stream.read()).response.requestId == f"web@{number}"


Behaviour = Callable[[AsyncIterator[ToServer], grpc.aio.ServicerContext[Any, Any]], AsyncIterator[FromServer]]


class GrpcioServer:
    """A server of Eclipse Ankaios, simulated with grpcio."""

    def __init__(self, behaviour: Behaviour) -> None:
        # grpcio rejects frequent pings by default; the original accepts them.
        self._server = grpc.aio.server(options=[*UNLIMITED, ("grpc.http2.min_ping_interval_without_data_ms", 10)])
        handler = grpc.stream_stream_rpc_method_handler(
            behaviour, request_deserializer=ToServer.FromString, response_serializer=FromServer.SerializeToString
        )
        for method in Method:
            _, service, name = method.value.split("/")
            self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {name: handler})])
        self._port = self._server.add_insecure_port("127.0.0.1:0")

    async def __aenter__(self) -> ConnectionSettings:
        await self._server.start()
        return ConnectionSettings(f"http://127.0.0.1:{self._port}", keepalive=Keepalive(0.1))

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)


async def echo(requests: AsyncIterator[ToServer], context: Any) -> AsyncIterator[FromServer]:
    await anext(requests)
    await context.send_initial_metadata(())
    async for message in requests:
        if message.HasField("goodbye"):
            return
        yield FromServer(response=an_answer(message.request.requestId))


async def test_the_client_exchanges_messages_with_a_grpcio_server() -> None:
    async with GrpcioServer(echo) as settings, connect(settings, Method.CLI, a_commander_hello()) as cli:
        await assert_served(cli, "small")
        await assert_served(cli, "x" * BIG)
        await asyncio.sleep(0.5)  # some pings
        await assert_served(cli, "later")
        await cli.send(ToServer(goodbye=Goodbye()))
        with pytest.raises(ConnectionLost, match="the server ended the connection"):
            await cli.receive()


async def test_a_server_without_device_support_gets_no_device_messages() -> None:
    """To a server of Eclipse Ankaios it would be a message without content, at which it ends the stream."""
    messages = []

    async def listen(requests: AsyncIterator[ToServer], context: Any) -> AsyncIterator[FromServer]:
        await anext(requests)
        await context.send_initial_metadata(())
        async for message in requests:
            messages.append(message)
            yield FromServer(response=an_answer(message.request.requestId))

    async with GrpcioServer(listen) as settings, connect(settings, Method.AGENT, an_agent_hello()) as agent:
        await agent.send(ToServer(deviceReport=DeviceReport(complete=True)))
        await agent.send(ToServer(slotRequest=SlotRequest(requestId="1")))
        await assert_served(agent)
    assert [message.WhichOneof("ToServerEnum") for message in messages] == ["request"]


async def test_the_client_reads_the_status_of_a_grpcio_server() -> None:
    codes = {
        grpc.StatusCode.FAILED_PRECONDITION: VersionRefused,
        grpc.StatusCode.UNAUTHENTICATED: AccessRefused,
        grpc.StatusCode.UNAVAILABLE: CannotConnect,
        grpc.StatusCode.UNIMPLEMENTED: CannotConnect,
    }
    for code, error in codes.items():

        async def refuse(
            requests: AsyncIterator[ToServer], context: Any, code: grpc.StatusCode = code
        ) -> AsyncIterator[FromServer]:
            await anext(requests)
            await context.abort(code, "because 'ä'")
            yield FromServer()

        async with GrpcioServer(refuse) as settings:
            with pytest.raises(error) as failure:
                async with connect(settings, Method.AGENT, an_agent_hello()):
                    pass
            assert "because 'ä'" in (getattr(failure.value, "reason", None) or str(failure.value))


async def test_the_end_and_the_failure_of_a_stream_are_reported() -> None:
    async def fail(requests: AsyncIterator[ToServer], context: Any) -> AsyncIterator[FromServer]:
        await anext(requests)
        yield a_greeting()
        await anext(requests)
        await context.abort(grpc.StatusCode.INTERNAL, "something broke")

    async with GrpcioServer(fail) as settings, connect(settings, Method.AGENT, an_agent_hello()) as agent:
        assert await received(agent) == a_greeting()
        await agent.send(a_request())
        with pytest.raises(ConnectionLost, match=r"something broke \(INTERNAL\)"):
            await received(agent)


async def test_a_stopped_grpcio_server_is_a_lost_connection() -> None:
    server = GrpcioServer(echo)
    settings = await server.__aenter__()
    async with connect(settings, Method.CLI, a_commander_hello()) as cli:
        await assert_served(cli)
        await server.__aexit__()
        with pytest.raises(ConnectionLost):
            await received(cli)
