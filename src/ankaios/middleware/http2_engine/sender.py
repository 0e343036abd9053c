"""The sending half of an HTTP/2 connection: all that can be said to the peer.

Comes in: headers, data, endings. Goes out: bytes for the peer (`take_outgoing`), never more than its windows allow.
Owns the queued bytes, the streams, and the windows of both directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.middleware.http2_engine.errors import CANCEL, NO_ERROR, CannotSend
from ankaios.middleware.http2_engine.flow import DEFAULT_WINDOW, ReceiveWindow, SendWindow
from ankaios.middleware.http2_engine.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    LARGEST_STREAM_ID,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    frame_header,
)
from ankaios.middleware.http2_engine.hpack_encoder import NO_TABLE, encode
from ankaios.middleware.http2_engine.settings import (
    ENABLE_PUSH,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    PeerSettings,
    encode_settings,
)
from ankaios.middleware.http2_engine.streams import StreamState, StreamTable

if TYPE_CHECKING:
    from ankaios.middleware.http2_engine.events import Headers

MAX_TEXT = 256  # of a GOAWAY


class Sender:
    """What both sides of a connection can say. Each call only queues bytes for `take_outgoing`."""

    def __init__(
        self, *, client_side: bool, window: int, max_streams: int, max_frame: int, max_header_bytes: int
    ) -> None:
        self._client_side = client_side
        self._window = window
        self._max_streams = max_streams
        self._max_frame = max_frame
        self._max_header_bytes = max_header_bytes
        self._streams = StreamTable(client_side=client_side)
        self._peer = PeerSettings(is_client=not client_side)
        self._sending = SendWindow(DEFAULT_WINDOW)
        self._receiving = ReceiveWindow(window)
        self._outgoing: list[bytes | memoryview] = []
        self._table_prefix = NO_TABLE
        self._over: str | None = None  # why no stream can be opened any more
        self._leaving = False

    def begin(self) -> None:
        """Queue what has to be said first: preface, settings, window. To be called once, before anything else."""
        settings = {
            INITIAL_WINDOW_SIZE: self._window,
            MAX_FRAME_SIZE: self._max_frame,
            MAX_HEADER_LIST_SIZE: self._max_header_bytes,
        }
        if self._client_side:
            self._outgoing.append(PREFACE)
            settings[ENABLE_PUSH] = 0
        else:
            settings[MAX_CONCURRENT_STREAMS] = self._max_streams
        self._outgoing.append(frame(SETTINGS, 0, 0, encode_settings(settings)))
        self._raise_window(0, self._window - DEFAULT_WINDOW)

    def open_stream(self, headers: Headers, *, end: bool = False) -> int:
        """Open a stream (client side only) by a request and get its id. Raises `CannotSend`, e.g. after a GOAWAY."""
        table = self._streams
        if self._over is not None:
            raise CannotSend(self._over)
        if len(table.open) >= self._peer.max_streams or table.next_own > LARGEST_STREAM_ID:
            raise CannotSend("the peer takes no more streams")
        stream = StreamState(table.next_own, self._peer.initial_window, self._window)
        table.next_own += 2
        table.open[stream.id] = stream
        self.send_headers(stream.id, headers, end=end)
        return stream.id

    def send_headers(self, stream_id: int, headers: Headers, *, end: bool) -> None:
        """Response headers, or trailers (with `end`). Names in lower case, pseudo-headers first."""
        stream = self._writable(stream_id)
        block = self._table_prefix + encode(headers)
        self._table_prefix = b""
        limit = self._peer.max_frame
        kind, flags = HEADERS, END_STREAM if end else 0
        for at in range(0, max(len(block), 1), limit):
            last = END_HEADERS if at + limit >= len(block) else 0
            self._outgoing.append(frame(kind, flags | last, stream_id, block[at : at + limit]))
            kind, flags = CONTINUATION, 0
        if end:
            self._end(stream)

    def sendable(self, stream_id: int) -> int:
        """How many bytes the peer takes in the next DATA frame; 0 or less if none, also if the stream is over."""
        stream = self._streams.open.get(stream_id)
        if stream is None or stream.we_ended:
            return 0
        return min(stream.sending.left, self._sending.left, self._peer.max_frame)

    def send_data(self, stream_id: int, data: bytes | memoryview, *, end: bool = False) -> None:
        """One DATA frame. At most `sendable` bytes, which must not change before `take_outgoing`."""
        stream = self._writable(stream_id)
        size = len(data)
        if size and size > self.sendable(stream_id):
            raise CannotSend(f"the peer does not take {size} bytes now")
        stream.sending.left -= size
        self._sending.left -= size
        self._outgoing.append(frame_header(DATA, END_STREAM if end else 0, stream_id, size))
        self._outgoing.append(data)
        if end:
            self._end(stream)

    def end_stream(self, stream_id: int) -> None:
        """Nothing more will be sent on this stream; the peer still may send."""
        self.send_data(stream_id, b"", end=True)

    def reset(self, stream_id: int, code: int = CANCEL) -> None:
        """End the stream for both sides, at once. What the peer still sends on it is dropped silently."""
        if stream_id in self._streams.open:
            self._reset(stream_id, code)

    def ping(self, payload: bytes) -> None:
        """Ask the peer for a sign of life: 8 bytes, which `PingAnswered` brings back."""
        self._outgoing.append(frame(PING, 0, 0, payload))

    def goaway(self, code: int = NO_ERROR, text: str = "") -> None:
        """Say that the connection ends and why. Streams go on as long as the socket does; new ones are refused."""
        self._leaving = True
        numbers = (self._streams.last_of_peer << 32 | code).to_bytes(8, "big")
        self._outgoing.append(frame(GOAWAY, 0, 0, numbers + text.encode("ascii", "replace")[:MAX_TEXT]))

    def acknowledge(self, stream_id: int, size: int) -> None:
        """These received bytes were used: the peer may send as many again. Window updates are bundled."""
        self._raise_window(0, self._receiving.use(size))
        stream = self._streams.open.get(stream_id)
        if stream is not None and not stream.peer_ended:
            self._raise_window(stream_id, stream.receiving.use(size))

    def take_outgoing(self) -> bytes:
        """All that is queued for the peer, exactly once; b"" if nothing is."""
        outgoing, self._outgoing = self._outgoing, []
        return b"".join(outgoing)

    def _writable(self, stream_id: int) -> StreamState:
        stream = self._streams.open.get(stream_id)
        if stream is None or stream.we_ended:
            raise CannotSend(f"stream {stream_id} is over")
        return stream

    def _end(self, stream: StreamState) -> None:
        stream.we_ended = True
        self._streams.end_if_done(stream)

    def _reset(self, stream_id: int, code: int) -> None:
        self._outgoing.append(frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big")))
        self._streams.remember_reset(stream_id)

    def _raise_window(self, stream_id: int, by: int) -> None:
        if by:
            self._outgoing.append(frame(WINDOW_UPDATE, 0, stream_id, by.to_bytes(4, "big")))
