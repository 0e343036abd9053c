"""A peer that does not respond is noticed in time: interrupted lines (a proxy stops forwarding), frozen processes."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ankaios.common.channels import Channel, ToServerChannel
from ankaios.common.messages import AgentGone, Respond
from ankaios.common.pb.ank_base_pb2 import Error, Response
from ankaios.common.pb.grpc_api_pb2 import FromServer
from ankaios.grpc.keepalive import Keepalive
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.client import connect
from ankaios.middleware.connecting import ConnectionLost, ConnectionSettings
from ankaios.middleware.methods import Method
from ankaios.middleware.server import Limits, MiddlewareServer
from tests.integration.middleware.support import (
    LONG_KEEPALIVE,
    Running,
    a_commander_hello,
    a_request,
    an_agent_hello,
    answering,
    assert_served,
    received,
    running_server,
)
from tests.support.certificates import Authority

QUICK = Keepalive(0.2, 0.3)
LATEST = 3.0  # seconds, by default


class Cable:
    """Forwards bytes between client and server until it is interrupted; then both ends receive nothing."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._plugged = asyncio.Event()
        self._plugged.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    def pull(self) -> None:
        self._plugged.clear()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._forward(source, target))
            self._tasks.add(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._plugged.wait()
                writer.write(data)
                await writer.drain()
            await self._plugged.wait()
            writer.close()

    async def discard(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def cable_to(running: Running) -> AsyncIterator[Cable]:
    cable = Cable(running.server.port)
    listener = await asyncio.start_server(cable.connect, "127.0.0.1", 0)
    scheme = running.url.partition(":")[0]
    cable.url = f"{scheme}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield cable
    finally:
        await cable.discard()
        listener.close()


def quick(url: str) -> ConnectionSettings:
    return ConnectionSettings(url, keepalive=Keepalive(0.2, 0.3))


async def test_both_sides_detect_an_interrupted_line_within_three_seconds_by_default() -> None:
    async with (
        running_server(limits=Limits()) as running,
        cable_to(running) as cable,
        connect(ConnectionSettings(cable.url), Method.AGENT, an_agent_hello("agent_A")) as agent,
    ):
        await running.next()
        cable.pull()
        start = time.monotonic()
        assert await running.next() == AgentGone("agent_A")
        with pytest.raises(ConnectionLost, match="the peer does not respond"):
            await received(agent)
        assert time.monotonic() - start < LATEST + 0.5


async def test_an_interrupted_line_is_detected_while_data_waits_to_be_sent() -> None:
    """Unsent bytes must not keep a lost connection open."""
    async with (
        running_server(limits=Limits(keepalive=QUICK)) as running,
        cable_to(running) as cable,
        connect(quick(cable.url), Method.AGENT, an_agent_hello("agent_A")),
    ):
        await running.next()
        cable.pull()
        for _ in range(20):
            running.server.dispatch(Respond(Response(requestId="agent_A@x", error=Error(message="x" * 1_000_000))))
        assert await running.next() == AgentGone("agent_A")


async def test_an_interrupted_line_is_detected_through_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with (
        running_server(authority.server(), Limits(keepalive=QUICK)) as running,
        cable_to(running) as cable,
    ):
        settings = ConnectionSettings(cable.url, authority.agent("*"), keepalive=Keepalive(0.2, 0.3))
        async with connect(settings, Method.AGENT, an_agent_hello("agent_A")) as agent:
            await running.next()
            cable.pull()
            assert await running.next() == AgentGone("agent_A")
            with pytest.raises(ConnectionLost):
                await received(agent)


async def test_an_idle_connection_is_kept() -> None:
    async with (
        running_server(limits=Limits(keepalive=QUICK)) as running,
        answering(running),
        connect(quick(running.url), Method.CLI, a_commander_hello()) as cli,
    ):
        await asyncio.sleep(2)  # four times the limit for a lost one
        await assert_served(cli)


_FROZEN_AGENT = """
import asyncio, sys
from ankaios.common.pb.grpc_api_pb2 import AgentHello, ToServer
from ankaios.middleware.client import connect
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method

async def main():
    hello = ToServer(agentHello=AgentHello(agentName="agent_A", protocolVersion="1.0.0"))
    async with connect(ConnectionSettings(sys.argv[1]), Method.AGENT, hello) as server:
        await server.receive()

asyncio.run(main())
"""


async def test_a_frozen_process_is_disconnected_and_does_not_affect_others() -> None:
    """Its kernel still receives every byte; only the responses are missing."""
    async with (
        running_server(limits=Limits(keepalive=QUICK)) as running,
        connect(quick(running.url), Method.CLI, a_commander_hello()) as cli,
    ):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _FROZEN_AGENT, running.url, env=environment
        )
        try:
            await running.next()
            process.send_signal(signal.SIGSTOP)
            assert await running.next() == AgentGone("agent_A")
            async with answering(running):
                await assert_served(cli)
        finally:
            process.kill()
            await process.wait()


async def test_a_large_message_over_a_slow_line_counts_as_activity() -> None:
    """The transfer takes several times the keep-alive timeout; its progress counts as activity."""
    async with running_server(limits=Limits(keepalive=Keepalive(0.5, 1.0))) as running:

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", running.server.port)
            back = asyncio.create_task(_copy(far_reader, writer, 1.0))
            await _copy(reader, far_writer, 0.004)
            await back

        async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds_per_16k: float) -> None:
            with contextlib.suppress(OSError):
                while data := await reader.read(16384):
                    writer.write(data)
                    await writer.drain()
                    await asyncio.sleep(seconds_per_16k * len(data) / 16384)
                writer.close()

        listener = await asyncio.start_server(slow, "127.0.0.1", 0, limit=16384)
        async with listener:
            url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            settings = ConnectionSettings(url, keepalive=Keepalive(0.5, 1.0))
            async with connect(settings, Method.CLI, a_commander_hello()) as cli:
                sending = asyncio.create_task(cli.send(a_request("x" * 20_000_000)))
                message = await running.next()
                await sending
                assert len(message.request.requestId) > 20_000_000  # type: ignore[union-attr]


@pytest.mark.parametrize("is_blocking", [False, True])
async def test_a_starting_server_has_a_longer_limit_than_the_keepalive(is_blocking: bool) -> None:
    """It listens before it loads its code; until it has accepted the connection, only the limit for that counts."""
    with socket.create_server(("127.0.0.1", 0)) as early:
        url = f"http://127.0.0.1:{early.getsockname()[1]}"
        settings = ConnectionSettings(url, keepalive=Keepalive(0.05, 0.05), connect_timeout=30.0)
        client = asyncio.to_thread(_request_blocking, settings) if is_blocking else _request(settings)
        waiting = asyncio.create_task(client)
        await asyncio.sleep(0.5)  # several times the keep-alive limit
        inbox: ToServerChannel = Channel(100)
        server = MiddlewareServer(inbox, None, Limits(keepalive=LONG_KEEPALIVE))
        server.listen_on(early)
        async with answering(Running(server, inbox, url)), asyncio.timeout(30):
            response = await waiting
        assert response is not None and response.response.requestId == "id"
        await server.close()


async def _request(settings: ConnectionSettings) -> FromServer:
    async with connect(settings, Method.CLI, a_commander_hello()) as connection:
        await connection.send(a_request("id"))
        return await connection.receive()


def _request_blocking(settings: ConnectionSettings) -> FromServer | None:
    with connect_blocking(settings, Method.CLI, a_commander_hello()) as connection:
        connection.send(a_request("id"))
        return connection.receive(30.0)
