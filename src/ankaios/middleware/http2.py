"""One HTTP/2 connection: streams over a wire.

Comes in: plaintext of the wire. Goes out: opened streams, their bytes and endings. Owns the HTTP/2 state.

The engine knows the protocol; this link does the input and output. A peer cannot send more than the window allows
before it is read.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ankaios.middleware.http2_engine.engine import Http2Engine
from ankaios.middleware.http2_engine.errors import CannotSend, ProtocolError
from ankaios.middleware.http2_engine.events import (
    DataReceived,
    Event,
    GoawayReceived,
    Headers,
    HeadersReceived,
    RequestReceived,
    SettingsReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from ankaios.middleware.keepalive import Keepalive
from ankaios.middleware.peer_conduct import (
    FLOODED,
    PING,
    ChatterLimit,
    goaway_text,
    protocol_error_text,
    reset_text,
)
from ankaios.middleware.stream import Broken, Stream
from ankaios.middleware.wire import Wire

if TYPE_CHECKING:
    from ankaios.middleware.tls import TlsLayer


class Link(Wire):
    """Server side if `accept` is given (called for each stream a peer opens), else client side."""

    def __init__(
        self,
        keepalive: Keepalive,
        setup_timeout: float,
        *,
        tls: "TlsLayer | None" = None,
        accept: Callable[[Stream], None] | None = None,
        on_made: Callable[["Link"], None] | None = None,
        on_end: Callable[["Link"], None] | None = None,
    ) -> None:
        super().__init__(keepalive, setup_timeout, tls)
        self.peer_has_spoken = False
        self._accept = accept
        self._on_made = on_made
        self._on_end = on_end
        self._http2 = Http2Engine(client_side=accept is None)
        self._streams: dict[int, Stream] = {}
        self._chatter = ChatterLimit()
        self._flush_planned = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._on_made is not None:
            self._on_made(self)

    def began(self) -> None:
        self._http2.begin()
        self.flush()

    def ask_for_sign(self) -> None:
        self._http2.ping(PING)
        self.flush()

    def resumed(self) -> None:
        self._pump_all()

    def broke(self, reason: str) -> None:
        for stream in self._streams.values():
            stream.break_off(reason)
        self._streams.clear()
        if self._on_end is not None:
            self._on_end(self)

    def close(self) -> None:
        if self.reason is None and self.ready.is_set():
            self.flush()
        super().close()

    # Incoming

    def received(self, plaintext: bytes) -> None:
        try:
            events = self._http2.receive(plaintext)
        except ProtocolError as error:
            self.flush()
            self.linger(protocol_error_text(error))
            return
        if self._chatter.is_exceeded_by(events, self._loop.time()):
            self.abort(FLOODED)
            return
        for event in events:
            if self.reason is None:  # what follows a farewell came too late
                self._handle(event)
        # Only now, since the engine is already at the end of the events: a stream may have been reset by the last.
        if any(isinstance(event, WindowUpdated | SettingsReceived) for event in events):
            self._pump_all()
        if self.reason is None:
            self.flush()

    def _handle(self, event: Event) -> None:
        match event:
            case DataReceived():
                self._handle_data(event)
            case RequestReceived():
                self._handle_request(event)
            case SettingsReceived():
                self.peer_has_spoken = True
                self.set_up()
            case GoawayReceived():
                self.linger(goaway_text(event))
            case HeadersReceived() | TrailersReceived() | StreamEnded() | StreamReset():
                if stream := self._streams.get(event.stream_id):
                    self._handle_stream_event(stream, event)
            case _:
                pass  # answers to pings and settings, priorities and frames unknown to us need no action

    def _handle_stream_event(
        self, stream: Stream, event: HeadersReceived | TrailersReceived | StreamEnded | StreamReset
    ) -> None:
        match event:
            case StreamEnded():
                stream.receive_end()
            case StreamReset():
                del self._streams[stream.id]
                stream.break_off(reset_text(event))
            case _:
                stream.receive_headers(dict(event.headers))

    def _handle_request(self, event: RequestReceived) -> None:
        assert self._accept is not None  # the engine lets nobody open a stream towards a client
        stream = self._streams[event.stream_id] = Stream(self, event.stream_id)
        stream.receive_headers(dict(event.headers))
        self._accept(stream)

    def _handle_data(self, event: DataReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            self.acknowledge(event.stream_id, len(event.data))
        else:
            stream.receive(event.data)

    def _pump_all(self) -> None:
        for stream in tuple(self._streams.values()):
            stream.pump()

    # Outgoing, for streams

    def open(self, headers: Headers) -> Stream:
        try:
            stream = Stream(self, self._http2.open_stream(headers))
        except CannotSend as error:
            raise Broken(str(error)) from error
        self._streams[stream.id] = stream
        self.flush_soon()
        return stream

    def sendable(self, stream_id: int) -> int:
        """How many bytes the peer takes in the next frame."""
        return self._http2.sendable(stream_id)

    def send_data(self, stream_id: int, data: memoryview) -> None:
        self._http2.send_data(stream_id, data)

    def send_headers(self, stream_id: int, headers: Headers, *, end: bool) -> None:
        self._http2.send_headers(stream_id, headers, end=end)
        self.flush_soon()

    def send_end(self, stream_id: int) -> None:
        self._http2.end_stream(stream_id)
        self.flush_soon()

    def reset(self, stream_id: int, code: int) -> None:
        self._http2.reset(stream_id, code)
        self.flush_soon()

    def acknowledge(self, stream_id: int, size: int) -> None:
        """These bytes were taken out of the window: the peer may send as many again."""
        if size and self.reason is None:
            self._http2.acknowledge(stream_id, size)
            self.flush_soon()

    def forget(self, stream: Stream) -> None:
        """The stream is over for both sides; what nobody will read must not keep the window closed."""
        self._streams.pop(stream.id, None)
        self.acknowledge(stream.id, stream.discard_unread())

    def flush_soon(self) -> None:
        """All that is sent in one round of the loop leaves in one write."""
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._planned_flush)

    def _planned_flush(self) -> None:
        self._flush_planned = False
        if self.reason is None:
            self.flush()

    def flush(self) -> None:
        if data := self._http2.take_outgoing():
            self.write(data)
