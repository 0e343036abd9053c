"""A server's call whose client ends it while the handler works."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ankaios.common.listening_socket import bind_socket
from ankaios.grpc.server import GrpcServer
from ankaios.grpc.server_call import ServerCall
from ankaios.grpc.wire_format import ConnectionBroken
from tests.unit.grpc.h2_peer import END_HEADERS, HEADERS, PREFACE, REQUEST, SETTINGS, a_server, raw_frame


@pytest.fixture
async def call() -> AsyncIterator[ServerCall]:
    calls: asyncio.Queue[ServerCall] = asyncio.Queue()

    async def handle(call: ServerCall) -> None:
        calls.put_nowait(call)
        await asyncio.Event().wait()

    server = GrpcServer({dict(REQUEST)[":path"]: handle})
    server.listen_on(bind_socket("127.0.0.1", 0))
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    request = raw_frame(
        HEADERS, END_HEADERS, 1, a_server().peer.encoder.encode([*REQUEST, ("content-type", "application/grpc")])
    )
    writer.write(PREFACE + raw_frame(SETTINGS, 0, 0) + request)
    async with asyncio.timeout(10):
        accepted = await calls.get()
    yield accepted
    writer.close()
    await server.close()


async def test_work_is_cancelled_when_the_client_ends_the_call(call: ServerCall) -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        asyncio.get_running_loop().call_soon(call.end, "the client has gone")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(ConnectionBroken, match="the client has gone"):
        await call.respond(work)
    assert cancelled.is_set()


async def test_work_is_not_started_for_a_call_that_has_ended(call: ServerCall) -> None:
    async def work() -> None:
        raise AssertionError

    call.end("the client has gone")
    with pytest.raises(ConnectionBroken, match="the client has gone"):
        await call.respond(work)


async def test_a_time_limit_of_the_work_itself_is_not_the_end_of_the_call(call: ServerCall) -> None:
    async def work() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await call.respond(work)
