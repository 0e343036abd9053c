"""All four kinds of calls with an independent gRPC implementation (grpcio), as server and as client.

A client of etcd needs unary calls, server streaming and bidirectional streaming, metadata, deadlines, and TLS with
client certificates: these are tested here.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from ankaios.grpc.addresses import TcpAddress, UnixAddress
from ankaios.grpc.channel import GrpcChannel
from ankaios.grpc.server import GrpcServer, server_streaming, unary
from ankaios.grpc.server_call import ServerCall
from ankaios.grpc.tls import TlsSession, client_context
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, Status
from tests.support.certificates import Authority

TIME_LIMIT = 10.0
SERVICE = "test.Texts"
BIG = 5_000_000
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def path_of(method: str) -> str:
    return f"/{SERVICE}/{method}"


def text(value: str) -> StringValue:
    return StringValue(value=value)


# grpcio as the server


class Texts:
    """The service, written for grpcio."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()

    async def upper(self, request: StringValue, context: Any) -> StringValue:
        metadata = dict(context.invocation_metadata())
        if request.value == "fail":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no 'ä' here")
        if request.value == "wait":
            await self._wait()
        if request.value == "time":
            return text(f"{context.time_remaining():.0f}")
        return text(request.value.upper() + metadata.get("suffix", ""))

    async def _wait(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    async def count(self, request: StringValue, _context: Any) -> AsyncIterator[StringValue]:
        for number in range(int(request.value)):
            yield text(str(number))
        if request.value == "3":
            await self._wait()

    async def join(self, requests: AsyncIterator[StringValue], _context: Any) -> StringValue:
        return text("".join([request.value async for request in requests]))

    async def echo(self, requests: AsyncIterator[StringValue], context: Any) -> AsyncIterator[StringValue]:
        await context.send_initial_metadata((("greeting", "hi"),))
        async for request in requests:
            yield text(request.value[::-1])


@asynccontextmanager
async def grpcio_server(
    address: str, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[tuple[Texts, int]]:
    service = Texts()
    codec = {"request_deserializer": StringValue.FromString, "response_serializer": StringValue.SerializeToString}
    handlers = {
        "Upper": grpc.unary_unary_rpc_method_handler(service.upper, **codec),
        "Count": grpc.unary_stream_rpc_method_handler(service.count, **codec),
        "Join": grpc.stream_unary_rpc_method_handler(service.join, **codec),
        "Echo": grpc.stream_stream_rpc_method_handler(service.echo, **codec),
    }
    server = grpc.aio.server(options=UNLIMITED)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    await server.start()
    try:
        yield service, port
    finally:
        await server.stop(None)


@asynccontextmanager
async def channel_to_grpcio() -> AsyncIterator[tuple[Texts, GrpcChannel]]:
    async with asyncio.timeout(3 * TIME_LIMIT), grpcio_server("127.0.0.1:0") as (service, port):
        channel = GrpcChannel(TcpAddress("127.0.0.1", port))
        try:
            yield service, channel
        finally:
            channel.close()


async def upper(channel: GrpcChannel, value: str, **options: Any) -> str:
    response = await channel.unary(path_of("Upper"), text(value), StringValue, time_limit=TIME_LIMIT, **options)
    return response.value


async def test_a_unary_call_with_metadata() -> None:
    async with channel_to_grpcio() as (_, channel):
        assert await upper(channel, "hello") == "HELLO"
        assert await upper(channel, "hello", metadata={"suffix": "!"}) == "HELLO!"


async def test_many_calls_share_a_connection() -> None:
    async with channel_to_grpcio() as (_, channel):
        assert await upper(channel, "first") == "FIRST"
        before = channel.connection
        answers = await asyncio.gather(*(upper(channel, f"x{number}") for number in range(500)))
        assert answers == [f"X{number}" for number in range(500)]
        assert channel.connection is before
        assert channel.connection is not None
        assert not channel.connection.http2.calls


async def test_a_large_message_passes_in_both_directions() -> None:
    async with channel_to_grpcio() as (_, channel):
        assert await upper(channel, "x" * BIG) == "X" * BIG


async def test_the_status_of_the_server_is_raised() -> None:
    async with channel_to_grpcio() as (_, channel):
        with pytest.raises(CallFailed) as failure:
            await upper(channel, "fail")
        assert (failure.value.status, failure.value.text) == (Status.NOT_FOUND, "no 'ä' here")
        with pytest.raises(CallFailed) as failure:
            await channel.unary(path_of("Other"), text(""), StringValue, time_limit=TIME_LIMIT)
        assert failure.value.status is Status.UNIMPLEMENTED
        assert await upper(channel, "still") == "STILL"


async def test_a_deadline_is_sent_and_ends_the_call() -> None:
    async with channel_to_grpcio() as (service, channel):
        assert await upper(channel, "time") == f"{TIME_LIMIT:.0f}"
        with pytest.raises(CallFailed) as failure:
            await channel.unary(path_of("Upper"), text("wait"), StringValue, time_limit=0.2)
        assert failure.value.status is Status.DEADLINE_EXCEEDED
        await service.cancelled.wait()
        assert await upper(channel, "still") == "STILL"


async def test_server_streaming_and_its_cancellation() -> None:
    async with channel_to_grpcio() as (service, channel):
        async with channel.call(path_of("Count")) as call:
            await call.send(text("2"))
            call.half_close()
            received = [await call.receive(StringValue) for _ in range(3)]
        assert received == [text("0"), text("1"), None]
        async with channel.call(path_of("Count")) as call:
            await call.send(text("3"))
            call.half_close()
            for number in range(3):
                assert await call.receive(StringValue) == text(str(number))
        await service.cancelled.wait()


async def test_client_streaming() -> None:
    async with channel_to_grpcio() as (_, channel), channel.call(path_of("Join")) as call:
        for letter in "abc":
            await call.send(text(letter))
        call.half_close()
        assert await call.receive(StringValue) == text("abc")
        assert await call.receive(StringValue) is None


async def test_bidirectional_streaming() -> None:
    async with channel_to_grpcio() as (_, channel), channel.call(path_of("Echo")) as call:
        headers = await call.response_headers()
        assert headers["greeting"] == "hi"
        for number in range(100):
            await call.send(text(f"message {number}"))
            assert await call.receive(StringValue) == text(f"message {number}"[::-1])
        call.half_close()
        assert await call.receive(StringValue) is None


async def test_a_call_after_the_server_was_restarted_connects_again(tmp_path: Path) -> None:
    address = str(tmp_path / "s")
    channel = GrpcChannel(UnixAddress(address))
    for _ in range(2):
        async with asyncio.timeout(TIME_LIMIT), grpcio_server(f"unix:{address}"):
            while True:
                try:
                    assert await upper(channel, "x") == "X"
                    break
                except ConnectionBroken:
                    await asyncio.sleep(0.01)
    with pytest.raises(ConnectionBroken):
        await upper(channel, "x")
    channel.close()


async def test_a_closed_channel_makes_no_connection(tmp_path: Path) -> None:
    async with asyncio.timeout(TIME_LIMIT), grpcio_server(f"unix:{tmp_path}/s"):
        channel = GrpcChannel(UnixAddress(f"{tmp_path}/s"))
        channel.close()
        with pytest.raises(ConnectionBroken, match="the channel was closed"):
            await upper(channel, "x")


@pytest.mark.parametrize("algorithm", ["rsa", "ecdsa"])
async def test_tls_with_client_certificates(tmp_path: Path, algorithm: str) -> None:
    """grpcio does not support Ed25519."""
    authority = Authority(tmp_path, algorithm)
    server, client = authority.server("localhost"), authority.cli()
    credentials = grpc.ssl_server_credentials(
        [(server.key.text.encode(), server.crt.text.encode())], server.ca.text.encode(), require_client_auth=True
    )
    async with asyncio.timeout(TIME_LIMIT), grpcio_server("127.0.0.1:0", credentials) as (_, port):
        channel = GrpcChannel(
            TcpAddress("127.0.0.1", port), tls=lambda: TlsSession(client_context(client), server_name="localhost")
        )
        assert await upper(channel, "secret") == "SECRET"
        channel.close()


# grpcio as the client


@asynccontextmanager
async def our_server(path: Path) -> AsyncIterator[tuple[asyncio.Event, grpc.aio.Channel]]:
    ended = asyncio.Event()

    async def upper(request: StringValue, metadata: Mapping[str, str]) -> StringValue:
        if request.value == "fail":
            raise CallFailed(Status.NOT_FOUND, "no 'ä' here")
        if request.value == "bug":
            raise RuntimeError("a bug")
        return text(request.value.upper() + metadata.get("suffix", ""))

    async def count(request: StringValue, _metadata: Mapping[str, str]) -> AsyncGenerator[StringValue, None]:
        try:
            for number in range(int(request.value)):
                yield text(str(number))
            if request.value == "3":
                await asyncio.sleep(TIME_LIMIT)
        finally:
            ended.set()

    async def join(call: ServerCall) -> None:
        parts = []
        while (request := await call.receive(StringValue)) is not None:
            parts.append(request.value)
        await call.send(text("".join(parts)))

    async def echo(call: ServerCall) -> None:
        call.accept([("greeting", "hi")])
        while (request := await call.receive(StringValue)) is not None:
            await call.send(text(request.value[::-1]))

    handlers = {
        "Upper": unary(StringValue, upper),
        "Count": server_streaming(StringValue, count),
        "Join": join,
        "Echo": echo,
    }
    server = GrpcServer({path_of(name): handler for name, handler in handlers.items()})
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        server.listen_on(bound)
        try:
            async with asyncio.timeout(TIME_LIMIT), grpc.aio.insecure_channel(f"unix:{path}", UNLIMITED) as channel:
                yield ended, channel
        finally:
            await server.close()


def stub(channel: grpc.aio.Channel, kind: str, method: str) -> Any:
    make = getattr(channel, kind)
    return make(
        path_of(method), request_serializer=StringValue.SerializeToString, response_deserializer=StringValue.FromString
    )


async def test_grpcio_makes_unary_calls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with our_server(tmp_path / "s") as (_, channel):
        call = stub(channel, "unary_unary", "Upper")
        assert await call(text("hello"), metadata=(("suffix", "!"),)) == text("HELLO!")
        assert await call(text("x" * BIG)) == text("X" * BIG)
        for value, code, details in (
            ("fail", grpc.StatusCode.NOT_FOUND, "no 'ä' here"),
            ("bug", grpc.StatusCode.INTERNAL, "internal error of the server"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await call(text(value))
            assert (failure.value.code(), failure.value.details()) == (code, details)
        assert "a bug" in caplog.text
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await stub(channel, "unary_unary", "Other")(text(""))
        assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_grpcio_makes_many_calls_at_once(tmp_path: Path) -> None:
    async with our_server(tmp_path / "s") as (_, channel):
        call = stub(channel, "unary_unary", "Upper")
        answers = await asyncio.gather(*(call(text(f"x{number}")) for number in range(300)))
        assert [answer.value for answer in answers] == [f"X{number}" for number in range(300)]


async def test_a_handler_ends_when_grpcio_cancels_its_call(tmp_path: Path) -> None:
    async with our_server(tmp_path / "s") as (ended, channel):
        stream = stub(channel, "unary_stream", "Count")(text("3"))
        for number in range(3):
            assert await stream.read() == text(str(number))
        assert not ended.is_set()
        stream.cancel()
        await ended.wait()


async def test_grpcio_streams_in_all_directions(tmp_path: Path) -> None:
    async with our_server(tmp_path / "s") as (_, channel):
        counted = stub(channel, "unary_stream", "Count")(text("2"))
        assert [item.value async for item in counted] == ["0", "1"]
        assert await stub(channel, "stream_unary", "Join")(iter([text("a"), text("b")])) == text("ab")
        echoed = stub(channel, "stream_stream", "Echo")()
        for value in ("abc", "x" * BIG):
            await echoed.write(text(value))
            assert await echoed.read() == text(value[::-1])
        assert ("greeting", "hi") in list(await echoed.initial_metadata())
        await echoed.done_writing()
        assert await echoed.read() is grpc.aio.EOF
        assert await echoed.code() is grpc.StatusCode.OK
