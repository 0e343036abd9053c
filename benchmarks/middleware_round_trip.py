"""Limit: a round trip through both ends of the middleware costs at most 1.7 times the CPU time of bare h2.

Two sizes count: a small request with a small response, and a small request with a response of 10 MB. The middleware
also has limits, keep-alive, a channel, and routes by request id; bare h2 only echoes. Both ends run in one process, so
only CPU time is measured. Runs alternate and the best of each counts, because other load only adds time.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from ankaios.common.channels import Channel, ToServerChannel
from ankaios.common.messages import FromClient, Respond
from ankaios.common.pb.ank_base_pb2 import CompleteStateRequest, Error, Request, Response
from ankaios.common.pb.grpc_api_pb2 import CommanderHello, FromServer, ToServer
from ankaios.middleware.client import connect
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from ankaios.middleware.server import MiddlewareServer
from benchmarks.comparison import run_benchmark

MAX_RATIO, RUNS, WINDOW = 1.7, 7, 2**21
SIZES = {"small": (0, 2_000), "10 MB": (10_000_000, 15)}
REQUEST = ToServer(request=Request(requestId="id", completeStateRequest=CompleteStateRequest()))
HEADERS = [(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "a")]

Call = Callable[[], Awaitable[object]]


async def cpu_per_call(call: Call, calls: int) -> float:
    await call()
    start = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - start) / calls


async def through_middleware(size: int, calls: int) -> float:
    channel: ToServerChannel = Channel(100)
    server = MiddlewareServer(channel, None)
    await server.start("127.0.0.1", 0)

    async def respond() -> None:
        async for message in channel:
            if isinstance(message, FromClient):
                response = Response(requestId=message.request.requestId, error=Error(message="x" * size))
                server.dispatch(Respond(response))

    responding = asyncio.create_task(respond(), name="responding")
    hello = ToServer(commanderHello=CommanderHello(protocolVersion="1.0.0"))
    async with connect(ConnectionSettings(f"http://127.0.0.1:{server.port}"), Method.CLI, hello) as connection:

        async def call() -> object:
            await connection.send(REQUEST)
            return await connection.receive()

        cost = await cpu_per_call(call, calls)
    await server.close()
    responding.cancel()
    return cost


class BareEnd(asyncio.Protocol):
    """One end of a connection of plain h2: sends messages as far as the window allows, and collects received ones."""

    def __init__(self, *, client_side: bool, on_message: Callable[[bytes], None]) -> None:
        self._h2 = H2Connection(H2Configuration(client_side=client_side))
        self._on_message = on_message
        self._received = bytearray()
        self._unsent = memoryview(b"")
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW)
        if self._h2.config.client_side:
            self._h2.send_headers(1, HEADERS)
        self._transport.write(self._h2.data_to_send())

    def data_received(self, data: bytes) -> None:
        for event in self._h2.receive_data(data):
            if isinstance(event, RequestReceived):
                self._h2.send_headers(event.stream_id, [(":status", "200")])
            elif isinstance(event, DataReceived):
                self._received += event.data
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self._take_messages()
        self._flush()

    def _take_messages(self) -> None:
        while len(self._received) >= 5 and len(self._received) >= (
            end := 5 + int.from_bytes(self._received[1:5], "big")
        ):
            message = bytes(self._received[5:end])
            del self._received[:end]
            self._on_message(message)

    def send(self, payload: bytes) -> None:
        self._unsent = memoryview(b"\0" + len(payload).to_bytes(4, "big") + payload)
        self._flush()

    def _flush(self) -> None:
        while self._unsent:
            size = min(self._h2.local_flow_control_window(1), self._h2.max_outbound_frame_size)
            if not size:
                break
            self._h2.send_data(1, self._unsent[:size])
            self._unsent = self._unsent[size:]
        self._transport.write(self._h2.data_to_send())


async def through_bare_h2(size: int, calls: int) -> float:
    ends: list[BareEnd] = []
    answers: asyncio.Queue[FromServer] = asyncio.Queue()

    def respond(payload: bytes) -> None:
        request = ToServer.FromString(payload).request
        response = Response(requestId=request.requestId, error=Error(message="x" * size))
        ends[0].send(FromServer(response=response).SerializeToString())

    def make_server() -> BareEnd:
        ends.append(BareEnd(client_side=False, on_message=respond))
        return ends[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(make_server, "127.0.0.1", 0)
    _, client = await loop.create_connection(
        lambda: BareEnd(client_side=True, on_message=lambda data: answers.put_nowait(FromServer.FromString(data))),
        "127.0.0.1",
        server.sockets[0].getsockname()[1],
    )

    async def call() -> object:
        client.send(REQUEST.SerializeToString())
        return await answers.get()

    cost = await cpu_per_call(call, calls)
    client._transport.close()
    server.close()
    return cost


def measure() -> dict[str, float]:
    times: dict[str, float] = {}
    for name, (size, calls) in SIZES.items():
        for _ in range(RUNS):
            for kind, run in ((name, through_middleware), (f"{name}, bare h2", through_bare_h2)):
                times[kind] = min(times.get(kind, float("inf")), asyncio.run(run(size, calls)))
    return times


def check(times: dict[str, float]) -> int:
    kept = True
    for name in SIZES:
        ours, bare = times[name], times[f"{name}, bare h2"]
        kept = kept and ours / bare <= MAX_RATIO
        print(f"{name}: middleware {ours * 1e6:.0f} µs, bare h2 {bare * 1e6:.0f} µs, ratio {ours / bare:.2f}")
    print("within the limit" if kept else f"limit exceeded: more than {MAX_RATIO} times the cost of bare h2")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(run_benchmark(measure, check))
