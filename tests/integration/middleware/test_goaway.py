"""A peer that sends GOAWAY, as a server built with tonic does when it stops gracefully."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from h2.connection import H2Connection
from hyperframe.frame import Frame, GoAwayFrame, PingFrame

from ankaios.common.config import PemMaterial
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.served_connection import ServedConnection
from ankaios.grpc.server import GrpcServer
from ankaios.grpc.server_call import ServerCall
from ankaios.grpc.tls import server_context
from ankaios.grpc.wire_format import RESPONSE_HEADERS, length_prefixed, request_headers
from ankaios.middleware.client import connect
from ankaios.middleware.connecting import ConnectionLost, ConnectionSettings
from ankaios.middleware.methods import Method
from tests.integration.middleware.support import (
    LONG_KEEPALIVE,
    TIME_LIMIT,
    a_commander_hello,
    a_greeting,
    received,
    running_server,
)
from tests.support.certificates import Authority

EVERY_STREAM = 2**31 - 1


class LeavingServer(GrpcServer):
    """Accepts every call, sends a message, and then any frames."""

    def __init__(self, pem: PemMaterial | None) -> None:
        super().__init__({}, tls=server_context(pem) if pem is not None else None, keepalive=LONG_KEEPALIVE)
        self._leaving: list[ServedConnection] = []

    def new_connection(self) -> ServedConnection:
        with socket.socket() as sock:
            connection = ServedConnection(self, sock)
        self._leaving.append(connection)
        return connection

    def accept(self, call: ServerCall) -> None:
        call.send_headers(RESPONSE_HEADERS)
        call.write(length_prefixed(a_greeting().SerializeToString()))

    def send(self, *frames: Frame) -> None:
        for connection in self._leaving:
            connection._write(b"".join(it.serialize() for it in frames))

    def abort(self) -> None:
        for connection in self._leaving:
            connection.abort("the test is over")


@asynccontextmanager
async def leaving_server(pem: PemMaterial | None) -> AsyncIterator[tuple[LeavingServer, str]]:
    server = LeavingServer(pem)
    listener = await asyncio.get_running_loop().create_server(server.new_connection, "127.0.0.1", 0)
    try:
        yield server, f"{'https' if pem else 'http'}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        server.abort()
        listener.close()


@pytest.mark.parametrize("with_ping", [True, False])
@pytest.mark.parametrize("secure", [True, False])
async def test_a_goaway_of_the_server_is_a_lost_connection(secure: bool, with_ping: bool, tmp_path: Path) -> None:
    authority = Authority(tmp_path) if secure else None
    farewell = [GoAwayFrame(0, last_stream_id=EVERY_STREAM), *([PingFrame(0, opaque_data=b"shutdown")] * with_ping)]
    async with leaving_server(authority.server() if authority else None) as (server, url):
        settings = ConnectionSettings(url, authority.cli() if authority else None, keepalive=Keepalive(5.0))
        async with connect(settings, Method.CLI, a_commander_hello()) as cli:
            assert await received(cli) == a_greeting()
            server.send(*farewell)
            with pytest.raises(ConnectionLost, match="the peer ended the connection"):
                await received(cli)


async def test_a_call_that_follows_a_goaway_is_not_served() -> None:
    client = H2Connection()
    client.initiate_connection()
    beginning = client.data_to_send()
    client.send_headers(1, request_headers(Method.CLI.value, secure=False, authority="x"))
    async with running_server() as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port)
        writer.write(beginning + GoAwayFrame(0).serialize() + client.data_to_send())
        async with asyncio.timeout(TIME_LIMIT):
            await reader.read()
        assert not running.server._grpc._calls
        writer.close()
