"""Promise: a round trip through both ends of the middleware costs at most 1.25 times the CPU time of bare grpclib.

Two sizes count: a small question with a small answer, and a small question with an answer of 10 MB. The middleware also
passes its channel and routes by request id; grpclib only echoes. Both ends run in one process, so that CPU time is all
there is. Runs alternate and the best of each counts, since other work on the machine can only add.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from grpclib.client import Channel as GrpclibChannel
from grpclib.const import Cardinality, Handler
from grpclib.server import Server as GrpclibServer

from ankaios.common.channels import Channel, ToServerChannel
from ankaios.common.messages import FromClient, Respond
from ankaios.common.pb.ank_base_pb2 import CompleteStateRequest, Error, Request, Response
from ankaios.common.pb.grpc_api_pb2 import CommanderHello, FromServer, ToServer
from ankaios.middleware.client import ConnectionSettings, Method, connect
from ankaios.middleware.server import MiddlewareServer

MAX_RATIO, RUNS = 1.25, 7
SIZES = {"small": (0, 2_000), "10 MB": (10_000_000, 15)}
PATH = "/bench.Echo/Echo"
QUESTION = ToServer(request=Request(requestId="id", completeStateRequest=CompleteStateRequest()))

Ask = Callable[[], Awaitable[object]]


async def cpu_per_call(ask: Ask, calls: int) -> float:
    await ask()
    start = time.process_time()
    for _ in range(calls):
        await ask()
    return (time.process_time() - start) / calls


async def through_middleware(size: int, calls: int) -> float:
    channel: ToServerChannel = Channel(100)
    server = MiddlewareServer(channel, None)
    await server.start("127.0.0.1", 0)

    async def answer() -> None:
        async for message in channel:
            if isinstance(message, FromClient):
                answered = Response(requestId=message.request.requestId, error=Error(message="x" * size))
                server.dispatch(Respond(answered))

    answering = asyncio.create_task(answer(), name="answering")
    hello = ToServer(commanderHello=CommanderHello(protocolVersion="1.0.0"))
    async with connect(ConnectionSettings(f"http://127.0.0.1:{server.port}"), Method.CLI, hello) as connection:

        async def ask() -> object:
            await connection.send(QUESTION)
            return await connection.receive()

        cost = await cpu_per_call(ask, calls)
    await server.close()
    answering.cancel()
    return cost


class Echo:
    """What is asked of a handler by grpclib."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __mapping__(self) -> dict[str, Handler]:
        return {PATH: Handler(self.echo, Cardinality.STREAM_STREAM, ToServer, FromServer)}

    async def echo(self, stream: Any) -> None:
        await stream.send_initial_metadata()
        async for message in stream:
            answered = Response(requestId=message.request.requestId, error=Error(message="x" * self._size))
            await stream.send_message(FromServer(response=answered))


async def through_grpclib(size: int, calls: int) -> float:
    server = GrpclibServer([Echo(size)])
    listening = socket.create_server(("127.0.0.1", 0))
    port: int = listening.getsockname()[1]
    await server.start(sock=listening)
    channel = GrpclibChannel("127.0.0.1", port)
    async with channel.request(PATH, Cardinality.STREAM_STREAM, ToServer, FromServer) as stream:

        async def ask() -> object:
            await stream.send_message(QUESTION)
            return await stream.recv_message()

        cost = await cpu_per_call(ask, calls)
        await stream.end()
    channel.close()
    server.close()
    await server.wait_closed()
    return cost


def main() -> int:
    kept = True
    for name, (size, calls) in SIZES.items():
        ours, bare = [], []
        for _ in range(RUNS):
            ours.append(asyncio.run(through_middleware(size, calls)))
            bare.append(asyncio.run(through_grpclib(size, calls)))
        ratio = min(ours) / min(bare)
        kept = kept and ratio <= MAX_RATIO
        print(f"{name}: middleware {min(ours) * 1e6:.0f} µs, grpclib {min(bare) * 1e6:.0f} µs, ratio {ratio:.2f}")
    print("promise kept" if kept else f"promise broken: more than {MAX_RATIO} times the cost of bare grpclib")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
