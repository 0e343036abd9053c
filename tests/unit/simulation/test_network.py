"""Streams of the simulated network behave like TCP connections for gRPC."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from ankaios.common.pb.ank_base_pb2 import Error
from ankaios.grpc.addresses import TcpAddress
from ankaios.grpc.channel import GrpcChannel
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.server import GrpcServer, unary
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken
from ankaios.simulation.network import SimulatedNetwork
from ankaios.simulation.virtual_time import SimulatedProcess, VirtualTimeLoop

PATH = "/test.Echo/Echo"


class EchoServer:
    """A gRPC server on host `server` and a client on host `client`."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(loop, Random(1))
        self.process = SimulatedProcess("the server", "server")
        self.channel: GrpcChannel

    def start(self) -> None:
        self.process = SimulatedProcess("the server", "server")
        self.process.start(self._serve())

    async def _serve(self) -> None:
        async def echo(request: Error, _: object) -> Error:
            return request

        server = GrpcServer({PATH: unary(Error, echo)}, keepalive=Keepalive(1.0, 2.0))
        server.listen_on(self.network.listening_socket(80))  # type: ignore[arg-type]
        await asyncio.Event().wait()

    async def call(self, text: str = "hello", limit: float = 10) -> str:
        return (await self.channel.unary(PATH, Error(message=text), Error, time_limit=limit)).message


def run(scenario: Callable[[EchoServer], Awaitable[None]]) -> None:
    loop = VirtualTimeLoop()
    echo = EchoServer(loop)
    failures: list[BaseException] = []

    async def client() -> None:
        echo.channel = GrpcChannel(TcpAddress("server", 80, secure=False), keepalive=Keepalive(1.0, 2.0))
        echo.start()
        await asyncio.sleep(1)
        try:
            await scenario(echo)
        except BaseException as error:
            failures.append(error)

    async def main() -> None:
        await SimulatedProcess("the client", "client").start(client())

    loop.run_until_complete(main())
    if failures:
        raise failures[0]


def test_a_call_takes_a_few_delays() -> None:
    async def scenario(echo: EchoServer) -> None:
        began = echo.loop.now
        assert await echo.call("x" * 200_000) == "x" * 200_000
        assert 0 < echo.loop.now - began < 0.5

    run(scenario)


def test_a_connection_to_a_missing_server_is_refused() -> None:
    async def scenario(echo: EchoServer) -> None:
        echo.process.kill()
        with pytest.raises(ConnectionBroken, match="refused"):
            await echo.call()

    run(scenario)


def test_a_killed_process_resets_its_connections() -> None:
    async def scenario(echo: EchoServer) -> None:
        await echo.call()
        echo.process.kill()
        await asyncio.sleep(0.1)
        assert echo.channel.connection is not None and echo.channel.connection.reason is not None
        assert not echo.network.open_connections()

    run(scenario)


def test_a_host_without_power_is_detected_only_by_the_keep_alive() -> None:
    async def scenario(echo: EchoServer) -> None:
        await echo.call()
        echo.network.power_off("server")
        await asyncio.sleep(0.5)
        connection = echo.channel.connection
        assert connection is not None and connection.reason is None
        await asyncio.sleep(5)
        assert connection.reason == "the peer does not respond"

    run(scenario)


def test_data_that_a_short_partition_holds_arrives_after_it() -> None:
    async def scenario(echo: EchoServer) -> None:
        await echo.call()
        echo.network.block("client", "server")
        echo.loop.call_later(1, echo.network.unblock, "server", "client")
        began = echo.loop.now
        assert await echo.call("late") == "late"
        assert echo.loop.now - began > 1

    run(scenario)


def test_a_cut_connection_fails_calls_and_the_next_one_connects_again() -> None:
    async def scenario(echo: EchoServer) -> None:
        await echo.call()
        assert echo.network.open_connections().total() == 1
        echo.network.cut("client", "server")
        assert echo.network.open_connections().total() == 0
        await asyncio.sleep(0.1)
        assert await echo.call("again") == "again"

    run(scenario)


def test_a_call_to_an_unreachable_host_ends_with_its_limit() -> None:
    async def scenario(echo: EchoServer) -> None:
        echo.network.block("client", "server")
        with pytest.raises(CallFailed):
            await echo.call(limit=3)

    run(scenario)
