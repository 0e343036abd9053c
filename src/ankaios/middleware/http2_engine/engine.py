"""The HTTP/2 protocol (RFC 9113) without input and output: one connection, client or server side.

Comes in: bytes of the peer (`receive`), what shall be sent (the methods of `Sender`). Goes out: events, and bytes for
the peer (`take_outgoing`). Owns the state of one connection. Nothing here waits, reads a clock or knows a socket.

    engine = Http2Engine(client_side=True)
    engine.begin()
    stream_id = engine.open_stream(headers)
    engine.send_data(stream_id, data)            # at most engine.sendable(stream_id) bytes
    socket.sendall(engine.take_outgoing())       # after every call that may have queued something
    for event in engine.receive(socket.recv(65536)): ...

`receive` has applied all of its bytes before it returns. So while its events are handled, a stream may already be over;
then `sendable` is 0, `acknowledge` and `reset` are harmless, and other sending on it raises `CannotSend`.

What a peer can make us hold: one frame, one header block, the state of `max_streams` streams, a header table of 4 KiB,
and answers to what it has sent since the last `take_outgoing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.middleware.http2_engine import events
from ankaios.middleware.http2_engine.control import ControlFrames
from ankaios.middleware.http2_engine.errors import (
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    ProtocolError,
)
from ankaios.middleware.http2_engine.flow import DEFAULT_WINDOW
from ankaios.middleware.http2_engine.frames import (
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    PREFACE,
    WITH_PRIORITY,
    FrameReader,
    without_padding,
)
from ankaios.middleware.http2_engine.header_rules import (
    content_length,
    fault_of_request,
    fault_of_response,
    fault_of_trailers,
    is_interim,
)
from ankaios.middleware.http2_engine.hpack_decoder import HpackDecoder
from ankaios.middleware.http2_engine.settings import SMALLEST_MAX_FRAME
from ankaios.middleware.http2_engine.streams import StreamState

if TYPE_CHECKING:
    from ankaios.middleware.http2_engine.hpack_tables import Field

WINDOW = 2 * 1024 * 1024
MAX_STREAMS = 16
MAX_FRAME = 256 * 1024
MAX_HEADER_BYTES = 16 * 1024
_MAX_CONTINUATIONS = 32
_PRIORITY_SIZE = 5


class _HeaderBlock:
    """Headers whose end has not arrived: until then only their CONTINUATION frames may come."""

    __slots__ = ("content", "ends_stream", "frames", "stream_id")

    def __init__(self, stream_id: int, content: bytes, *, ends_stream: bool) -> None:
        self.stream_id = stream_id
        self.ends_stream = ends_stream
        self.content = bytearray(content)
        self.frames = 0


class Http2Engine(ControlFrames):
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
        """`window`: bytes the peer may send before they are acknowledged, on each stream and on the connection.

        It and `max_frame` are at least what a peer takes for granted before it knows our settings.
        """
        super().__init__(
            client_side=client_side,
            window=max(window, DEFAULT_WINDOW),
            max_streams=max_streams,
            max_frame=max(max_frame, SMALLEST_MAX_FRAME),
            max_header_bytes=max_header_bytes,
        )
        self._reader = FrameReader(b"" if client_side else PREFACE, self._max_frame, max_header_bytes)
        self._decoder = HpackDecoder(max_header_bytes)
        self._block: _HeaderBlock | None = None

    def receive(self, data: bytes) -> list[events.Event]:
        """Take bytes of the peer, cut anywhere.

        Raises `ProtocolError` if the connection cannot go on; the GOAWAY that tells the peer why is then in
        `take_outgoing`. From then on everything received is ignored and nothing can be sent.
        """
        arrived = self._events = []
        if self._failed:
            return arrived
        try:
            for kind, flags, stream_id, payload in self._reader.frames(data):
                if self._block is not None and kind != CONTINUATION:
                    raise ProtocolError(PROTOCOL_ERROR, "a frame comes in the middle of a header block")
                if kind < len(_HANDLERS):
                    _HANDLERS[kind](self, flags, stream_id, payload)
                else:
                    self._chatter(stream_id)
        except ProtocolError as error:
            self._fail(error)
            raise
        return arrived

    # Data

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not self._receiving.fill(len(payload)):
            raise ProtocolError(FLOW_CONTROL_ERROR, "the peer sent more than the window of the connection allows")
        stream = self._streams.find(stream_id)
        data = without_padding(flags, payload)
        if stream is None or not self._takes_data(stream, len(payload), len(data)):
            self._drop_data(stream_id, payload)
            return
        ends = flags & END_STREAM
        if data or not ends:
            self._events.append(events.DataReceived(stream_id, data))
        if len(data) < len(payload):
            self.acknowledge(stream_id, len(payload) - len(data))
        if ends:
            self._peer_ended(stream)

    def _drop_data(self, stream_id: int, payload: bytes) -> None:
        self._answer_late(stream_id)
        if not payload:  # else the window limits how much of this comes, and a peer that cannot know yet sends a lot
            self._chatter(stream_id)
        self.acknowledge(stream_id, len(payload))

    def _takes_data(self, stream: StreamState, size: int, content: int) -> bool:
        if stream.peer_ended:
            self._break(stream, STREAM_CLOSED, "data after the end of the stream")
        elif not stream.has_headers:
            self._break(stream, PROTOCOL_ERROR, "data before the headers")
        elif not stream.receiving.fill(size):
            self._break(stream, FLOW_CONTROL_ERROR, "more data than the window of the stream allows")
        elif not stream.take_content(content):
            self._break(stream, PROTOCOL_ERROR, "more data than the headers announce")
        else:
            return True
        return False

    def _peer_ended(self, stream: StreamState) -> None:
        if stream.length_left:
            self._break(stream, PROTOCOL_ERROR, "less data than the headers announce")
            return
        stream.peer_ended = True
        self._events.append(events.StreamEnded(stream.id))
        self._streams.end_if_done(stream)

    # Headers

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        content = without_padding(flags, payload)
        if flags & WITH_PRIORITY:
            if len(content) < _PRIORITY_SIZE:
                raise ProtocolError(PROTOCOL_ERROR, "a HEADERS frame is too short for its priority")
            content = content[_PRIORITY_SIZE:]
        if not self._streams.is_request(stream_id):
            self._streams.find(stream_id)
        if flags & END_HEADERS:
            self._take_headers(stream_id, content, ends=bool(flags & END_STREAM))
        else:
            self._block = _HeaderBlock(stream_id, content, ends_stream=bool(flags & END_STREAM))

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        block = self._block
        if block is None or block.stream_id != stream_id:
            raise ProtocolError(PROTOCOL_ERROR, "a CONTINUATION frame continues nothing")
        block.content += payload
        block.frames += 1
        if len(block.content) > self._max_header_bytes or block.frames > _MAX_CONTINUATIONS:
            raise ProtocolError(ENHANCE_YOUR_CALM, "a header block is too long")
        if flags & END_HEADERS:
            self._block = None
            self._take_headers(stream_id, bytes(block.content), ends=block.ends_stream)

    def _take_headers(self, stream_id: int, block: bytes, *, ends: bool) -> None:
        fields = self._decoder.decode(block)  # whatever becomes of them: the tables of both sides must stay alike
        stream = self._streams.open.get(stream_id)
        if stream is not None:
            self._take_further_headers(stream, fields, ends=ends)
        elif self._streams.is_request(stream_id):
            self._take_request(stream_id, fields, ends=ends)
        elif self._streams.was_reset(stream_id):
            self._chatter(stream_id)
        else:
            raise ProtocolError(STREAM_CLOSED, f"headers come for stream {stream_id}, which is over")

    def _take_request(self, stream_id: int, fields: list[Field], *, ends: bool) -> None:
        self._streams.last_of_peer = stream_id
        if self._leaving or len(self._streams.open) >= self._max_streams:
            self._refuse(stream_id, REFUSED_STREAM)
        elif fault_of_request(fields):
            self._refuse(stream_id, PROTOCOL_ERROR)
        else:
            stream = StreamState(stream_id, self._peer.initial_window, self._window)
            self._streams.open[stream_id] = stream
            stream.take_headers(content_length(fields))
            self._events.append(events.RequestReceived(stream_id, _readable(fields)))
            if ends:
                self._peer_ended(stream)

    def _take_further_headers(self, stream: StreamState, fields: list[Field], *, ends: bool) -> None:
        is_response = not stream.has_headers
        fault = fault_of_response(fields) if is_response else fault_of_trailers(fields)
        if stream.peer_ended:
            self._break(stream, STREAM_CLOSED, "headers after the end of the stream")
        elif fault:
            self._break(stream, PROTOCOL_ERROR, fault)
        elif not ends and not is_response:
            self._break(stream, PROTOCOL_ERROR, "trailers that do not end the stream")
        elif is_response and is_interim(fields):
            self._take_interim(stream, ends=ends)
        else:
            if is_response:
                stream.take_headers(content_length(fields))
            kind = events.HeadersReceived if is_response else events.TrailersReceived
            self._events.append(kind(stream.id, _readable(fields)))
            if ends:
                self._peer_ended(stream)

    def _take_interim(self, stream: StreamState, *, ends: bool) -> None:
        if ends:
            self._break(stream, PROTOCOL_ERROR, "an interim response ends the stream")
        else:
            self._chatter(stream.id)


def _readable(fields: list[Field]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]


_HANDLERS = (
    Http2Engine._on_data,
    Http2Engine._on_headers,
    Http2Engine._on_priority,
    Http2Engine._on_rst_stream,
    Http2Engine._on_settings,
    Http2Engine._on_push_promise,
    Http2Engine._on_ping,
    Http2Engine._on_goaway,
    Http2Engine._on_window_update,
    Http2Engine._on_continuation,
)
