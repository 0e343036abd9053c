"""The HTTP/2 protocol without input and output: one connection, client or server side.

Comes in: bytes of the peer (`receive`), what shall be sent (`send_…`, `open_stream`, …). Goes out: events, and bytes
for the peer (`take_outgoing`). Owns the state of one connection. Nothing here waits, reads a clock or knows a socket.

    engine = Http2Engine(client_side=True)
    engine.begin()
    stream_id = engine.open_stream(headers)
    engine.send_data(stream_id, data)            # at most engine.sendable(stream_id) bytes
    socket.sendall(engine.take_outgoing())       # after every call that may have queued something
    for event in engine.receive(socket.recv(65536)): ...

The order of the calls: `receive` has applied all of its bytes before it returns. So while its events are handled, a
stream may already be over; then `sendable` is 0, `acknowledge` and `reset` are harmless, and other sending on it
raises `CannotSend`.
"""

from __future__ import annotations

from ankaios.middleware.http2_engine.errors import CANCEL, NO_ERROR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ankaios.middleware.http2_engine.events import Event, Headers

WINDOW = 2 * 1024 * 1024
MAX_STREAMS = 16
MAX_FRAME = 256 * 1024
MAX_HEADER_BYTES = 16 * 1024


class Http2Engine:
    """One end of one connection."""

    def __init__(
        self,
        *,
        client_side: bool,
        window: int = WINDOW,
        max_streams: int = MAX_STREAMS,
        max_frame: int = MAX_FRAME,
        max_header_bytes: int = MAX_HEADER_BYTES,
    ) -> None:
        """`window`: bytes the peer may send before they are acknowledged, on each stream and on the connection."""

    # Sending. Each call only queues bytes for `take_outgoing`.

    def begin(self) -> None:
        """Queue what has to be said first: preface, settings, window. To be called once, before anything else."""
        raise NotImplementedError

    def open_stream(self, headers: Headers, *, end: bool = False) -> int:
        """Open a stream (client side only) by a request and get its id. Raises `CannotSend`, e.g. after a GOAWAY."""
        raise NotImplementedError

    def send_headers(self, stream_id: int, headers: Headers, *, end: bool) -> None:
        """Response headers, or trailers (with `end`). Names in lower case, pseudo-headers first."""
        raise NotImplementedError

    def sendable(self, stream_id: int) -> int:
        """How many bytes the peer takes in the next DATA frame; 0 or less if none, also if the stream is over."""
        raise NotImplementedError

    def send_data(self, stream_id: int, data: bytes | memoryview, *, end: bool = False) -> None:
        """One DATA frame. At most `sendable` bytes, which must not change before `take_outgoing`."""
        raise NotImplementedError

    def end_stream(self, stream_id: int) -> None:
        """Nothing more will be sent on this stream; the peer still may send."""
        raise NotImplementedError

    def reset(self, stream_id: int, code: int = CANCEL) -> None:
        """End the stream for both sides, at once. What the peer still sends on it is dropped silently."""
        raise NotImplementedError

    def ping(self, payload: bytes) -> None:
        """Ask the peer for a sign of life: 8 bytes, which `PingAnswered` brings back."""
        raise NotImplementedError

    def goaway(self, code: int = NO_ERROR, text: str = "") -> None:
        """Say that the connection ends and why. Streams go on as long as the socket does; new ones are refused."""
        raise NotImplementedError

    def acknowledge(self, stream_id: int, size: int) -> None:
        """These received bytes were used: the peer may send as many again. Window updates are bundled."""
        raise NotImplementedError

    def take_outgoing(self) -> bytes:
        """All that is queued for the peer, exactly once; b"" if nothing is."""
        raise NotImplementedError

    # Receiving

    def receive(self, data: bytes) -> list[Event]:
        """Take bytes of the peer, cut anywhere.

        Raises `ProtocolError` if the connection cannot go on; the GOAWAY that tells the peer why is then in
        `take_outgoing`. From then on everything received is ignored.
        """
        raise NotImplementedError
