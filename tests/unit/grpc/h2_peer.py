"""Peers that use `h2` without the code under test, and raw frames."""

import struct

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event

from ankaios.grpc.call_state import CallState
from ankaios.grpc.http2_connection import Http2Connection

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "a"), ("te", "trailers")]
RESPONSE = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8


def raw_frame(kind: int, flags: int, stream_id: int, content: bytes = b"", size: int | None = None) -> bytes:
    """A message, with a wrong `size` if one is given."""
    header = struct.pack(">IBBI", len(content) if size is None else size, kind, flags, stream_id)
    return header[1:] + content


class Pair:
    """The code under test and a peer of plain h2; `exchange` carries the bytes in both directions."""

    def __init__(self, *, client_side: bool) -> None:
        self.http2 = Http2Connection(CallState, client_side=client_side)
        self.peer = H2Connection(H2Configuration(client_side=not client_side))
        self.peer.initiate_connection()
        self.events: list[Event] = []
        self.now = 100.0
        self.exchange()

    def exchange(self) -> list[CallState]:
        """Exchange bytes until both sides have sent all; returns the calls that the peer has started."""
        calls: list[CallState] = []
        while True:
            sent = self.http2.take_outgoing()
            self.events += self.peer.receive_data(sent)
            received = self.peer.data_to_send()
            if not sent and not received:
                return calls
            calls += self.http2.receive(received, self.now)

    def receive(self, *frames: bytes, times: int = 1) -> None:
        self.http2.receive(b"".join(frames) * times, self.now)

    def data(self) -> bytes:
        return b"".join(event.data for event in self.events if isinstance(event, DataReceived))


def a_server() -> Pair:
    return Pair(client_side=False)


def a_client() -> Pair:
    return Pair(client_side=True)


def a_called_server() -> tuple[Pair, CallState]:
    """A server with a call on stream 1."""
    pair = a_server()
    pair.peer.send_headers(1, REQUEST)
    (call,) = pair.exchange()
    return pair, call
