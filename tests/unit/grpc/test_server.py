"""The connections of a server that are not set up."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from ankaios.common.listening_socket import bind_socket
from ankaios.grpc.server import GrpcServer


async def test_a_connection_that_fails_while_its_transport_is_created_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = asyncio.Event()

    async def connect_accepted_socket(new_protocol: Callable[[], object], sock: socket.socket) -> None:
        new_protocol()
        failed.set()
        raise OSError("no more memory")

    monkeypatch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", connect_accepted_socket)
    server = GrpcServer({})
    server.listen_on(bind_socket("127.0.0.1", 0))
    with socket.create_connection(("127.0.0.1", server.port), 10) as client:
        client.send(b"x")
        async with asyncio.timeout(10):
            await failed.wait()
        assert not server._not_admitted
        assert len(server._handshakes) == 0
    await server.close()
