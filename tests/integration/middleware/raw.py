"""A peer below gRPC: opens a stream over real HTTP/2 and writes whatever bytes a test wants."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ankaios.common.pb.grpc_api_pb2 import ToServer
from ankaios.middleware.grpc_call import frame, request_headers
from ankaios.middleware.http2 import Link
from ankaios.middleware.methods import Method
from ankaios.middleware.stream import Stream
from tests.integration.middleware.support import CALM, PATIENCE, Running


@asynccontextmanager
async def raw_link(running: Running) -> AsyncIterator[Link]:
    link = Link(CALM, PATIENCE)
    await asyncio.get_running_loop().create_connection(lambda: link, "127.0.0.1", running.server.port)
    try:
        yield link
    finally:
        link.abort("the test is over")


@asynccontextmanager
async def raw_call(running: Running, method: Method, hello: ToServer) -> AsyncIterator[Stream]:
    """A call that was let in."""
    async with raw_link(running) as link:
        stream = link.open(request_headers(method, "http", "test", "raw"))
        stream.write(frame(hello.SerializeToString()))
        async with asyncio.timeout(PATIENCE):
            await stream.response_headers()
        yield stream


async def ending(stream: Stream) -> dict[str, str]:
    """The trailers, after everything else was read and thrown away."""
    async with asyncio.timeout(PATIENCE):
        while await stream.read(1):
            pass
    return stream.trailers or stream.headers or {}
