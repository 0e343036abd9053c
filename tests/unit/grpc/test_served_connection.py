"""The server side of a connection: its server, and limits for peers."""

import socket

from ankaios.grpc.frame_budget import SLICE, TOTAL_SECONDS
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.served_connection import ServedConnection, SharedBudgets
from ankaios.grpc.server import GrpcServer
from ankaios.grpc.server_call import ServerCall
from tests.unit.grpc.fake_socket import PING_OF_PEER, SETTINGS_FRAME, Connected, answers
from tests.unit.grpc.h2_peer import END_HEADERS, HEADERS, REQUEST, a_server, raw_frame

START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS_FRAME


class RecordingServer(GrpcServer):
    """Records the changes of its connections."""

    def __init__(self, budgets: SharedBudgets | None = None) -> None:
        super().__init__({}, keepalive=Keepalive(1.0, 2.0), setup_timeout=5.0, budgets=budgets)
        self.changes: list[str] = []

    def accept(self, call: ServerCall) -> None:
        self.changes.append(f"call {call.id}")

    def connection_started(self, connection: ServedConnection) -> None:
        self.changes.append("started")

    def forget_handshake(self, sock: socket.socket) -> None:
        self.changes.append("set up")

    def connection_ended(self, connection: ServedConnection) -> None:
        self.changes.append(f"ended: {connection.reason}")


def a_server_connection(budgets: SharedBudgets | None = None, server: GrpcServer | None = None) -> Connected:
    with socket.socket() as sock:
        return Connected(ServedConnection(server or RecordingServer(budgets), sock))


async def test_the_server_is_informed_of_each_change() -> None:
    server = RecordingServer()
    connected = a_server_connection(server=server)
    connected.receive(START + raw_frame(HEADERS, END_HEADERS, 1, a_server().peer.encoder.encode(REQUEST)))
    assert isinstance(connected.connection, ServedConnection)
    connected.connection.admit()
    connected.connection.admit()
    connected.connection.abort("over")
    connected.connection.connection_lost(None)
    assert server.changes == ["started", "call 1", "set up", "ended: over", "set up"]


async def test_a_connection_that_has_used_its_share_waits_for_the_next_slice_of_time() -> None:
    budgets = SharedBudgets(1000)
    connected = a_server_connection(budgets)
    budgets.frames.allowance(connected.connection, connected.loop.now)
    budgets.frames.spend(connected.connection, 1, TOTAL_SECONDS)
    connected.receive(START + PING_OF_PEER * 30)
    connected.loop.advance(0)
    assert answers(connected) == 0
    assert not connected.transport.reads
    connected.loop.advance(2 * SLICE)
    assert connected.transport.is_reading()
    assert answers(connected) == 30


async def test_the_end_of_a_waiting_connection_ends_the_wait() -> None:
    connected = a_server_connection(SharedBudgets(1000))
    connected.receive(START + PING_OF_PEER * 600)
    connected.connection.abort("over")
    connected.written()
    connected.loop.advance(SLICE)
    assert connected.written() == b""


async def test_a_client_that_makes_no_call_is_disconnected() -> None:
    connected = a_server_connection(SharedBudgets(1000))
    connected.connection._keepalive = None
    connected.receive(START)
    connected.loop.advance(5)
    assert connected.ends == ["the connection was not set up in time"]
