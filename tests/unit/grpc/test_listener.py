"""Sockets that the listener accepts."""

import asyncio
import socket

from ankaios.common.listening_socket import bind_socket
from ankaios.grpc.listener import Listener
from ankaios.grpc.open_handshakes import OpenHandshakes, connection_limits


async def test_small_messages_are_sent_without_waiting_for_acknowledgements() -> None:
    accepted: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
    listener = Listener(
        bind_socket("127.0.0.1", 0),
        OpenHandshakes(connection_limits(1024)),
        accepted.set_result,
        lambda _: None,
        first_byte_timeout=30,
    )
    with socket.create_connection(("127.0.0.1", listener.port), 30) as client:
        client.send(b"x")
        async with asyncio.timeout(30):
            with await accepted as connection:
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    listener.close()
