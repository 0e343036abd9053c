"""A client below gRPC: opens a stream over real HTTP/2 and writes any bytes."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from ankaios.common.pb.grpc_api_pb2 import ToServer
from ankaios.grpc.async_call import AsyncCall
from ankaios.grpc.async_connection import AsyncConnection
from ankaios.grpc.wire_format import length_prefixed, request_headers
from ankaios.middleware.methods import Method
from tests.integration.middleware.support import LONG_KEEPALIVE, TIME_LIMIT, Running


@asynccontextmanager
async def raw_connection(running: Running) -> AsyncIterator[AsyncConnection]:
    connection = AsyncConnection(AsyncCall, keepalive=LONG_KEEPALIVE, setup_timeout=TIME_LIMIT)
    await asyncio.get_running_loop().create_connection(lambda: connection, "127.0.0.1", running.server.port)
    try:
        yield connection
    finally:
        connection.abort("the test is over")


def opened(connection: AsyncConnection, method: Method, hello: ToServer | None = None) -> AsyncCall:
    call = connection.open_call(request_headers(method.value, secure=False, authority="test"))
    if hello is not None:
        call.write(length_prefixed(hello.SerializeToString()))
    return call


@asynccontextmanager
async def raw_call(running: Running, method: Method, hello: ToServer) -> AsyncIterator[AsyncCall]:
    """A call whose hello was accepted."""
    async with raw_connection(running) as connection:
        call = opened(connection, method, hello)
        async with asyncio.timeout(TIME_LIMIT):
            while call.headers is None:
                await call._wait_for_change()
        yield call


async def final_headers_of(call: AsyncCall) -> Mapping[str, str]:
    """The trailers, after everything else was received and ignored."""
    async with asyncio.timeout(TIME_LIMIT):
        while not call.peer_ended:
            call.request_more()
            await call._wait_for_change()
    return call.trailers or call.headers or {}
