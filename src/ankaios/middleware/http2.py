"""One HTTP/2 connection over one socket, with or without TLS.

Comes in: bytes of the socket. Goes out: opened streams, bytes, and endings with their reason. Owns the socket, the TLS
session, the HTTP/2 state and the timers of one connection.

The library h2 knows the protocol; this link does the input and output. A peer cannot send more than the window allows
before it is read. Whatever ends the connection ends it once: `reason` tells why; `closed` is set when the socket is
gone.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from ankaios.middleware.keepalive import Heartbeat, Keepalive
from ankaios.middleware.stream import Headers, Stream
from ankaios.middleware.tls import TlsFailed, TlsLayer

WINDOW = 2 * 1024 * 1024
MAX_STREAMS = 16
MAX_FRAME = 256 * 1024
MAX_HEADER_BYTES = 16 * 1024
_WRITE_BUFFER = 256 * 1024
_MAX_UNSENT = 16 * _WRITE_BUFFER  # only a peer that provokes answers and does not read them gets there
_LINGER = 1.0  # seconds a refused peer gets to read why
_PING = b"ankaios?"
_DEFAULT_WINDOW = 65535


class Link(asyncio.Protocol):
    """Server side if `accept` is given (called for each stream a peer opens), else client side."""

    def __init__(
        self,
        keepalive: Keepalive,
        setup_timeout: float,
        *,
        tls: TlsLayer | None = None,
        accept: Callable[[Stream], None] | None = None,
        on_made: Callable[["Link"], None] | None = None,
        on_end: Callable[["Link"], None] | None = None,
    ) -> None:
        self.tls = tls
        self.tls_failure: TlsFailed | None = None
        self.reason: str | None = None
        self.peer_has_spoken = False  # HTTP/2, that is
        self.ready = asyncio.Event()
        self.closed = asyncio.Event()
        self._accept = accept
        self._on_made = on_made
        self._on_end = on_end
        self._setup_timeout = setup_timeout
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._http2 = H2Connection(H2Configuration(client_side=accept is None, header_encoding=None))
        self._streams: dict[int, Stream] = {}
        self._paused = False
        self._flush_planned = False
        self._setup_timer: asyncio.TimerHandle | None = None
        self._heartbeat = Heartbeat(self._loop, keepalive, self._ping, self._peer_is_silent)

    # The socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        self._setup_timer = self._loop.call_later(
            self._setup_timeout, self.abort, "the connection set-up took too long"
        )
        if self._on_made is not None:
            self._on_made(self)
        if self.reason is not None:
            return
        if self.tls is None:
            self._begin()
        else:
            self._decrypt(b"")

    def data_received(self, data: bytes) -> None:
        if self.reason is not None:
            return
        self._heartbeat.heard()
        plaintext = data if self.tls is None else self._decrypt(data)
        if plaintext:
            self._feed(plaintext)

    def eof_received(self) -> None:
        self._end("the peer closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection broke: {exc}" if exc else "the connection was closed")
        self.closed.set()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pump_all()

    def _decrypt(self, data: bytes) -> bytes:
        assert self.tls is not None
        was_established = self.tls.established
        try:
            plaintext = self.tls.receive(data)
        except TlsFailed as failure:
            self.tls_failure = failure
            self._write_raw(self.tls.take_outgoing())
            self._linger(f"TLS failed: {failure.reason}")
            return b""
        self._write_raw(self.tls.take_outgoing())
        if self.tls.established and not was_established:
            self._begin()
        return plaintext

    def _write_raw(self, data: bytes) -> None:
        if data:
            self._transport.write(data)

    # Life

    @property
    def peer_address(self) -> str:
        address = self._transport.get_extra_info("peername")
        return f"{address[0]}:{address[1]}" if address else "unknown"

    def _begin(self) -> None:
        self._http2.initiate_connection()
        self._http2.update_settings(
            {
                SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
                SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
                SettingCodes.MAX_FRAME_SIZE: MAX_FRAME,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
            }
        )
        self._http2.increment_flow_control_window(WINDOW - _DEFAULT_WINDOW)
        self.flush()
        self._heartbeat.start()
        self.ready.set()

    def _ping(self) -> None:
        self._http2.ping(_PING)
        self.flush()

    def _peer_is_silent(self) -> None:
        self.abort("the peer does not answer")

    def abort(self, reason: str) -> None:
        """Cut the connection now; nothing that waits is sent."""
        self._end(reason)
        self._transport.abort()

    def close(self) -> None:
        """End the connection after what is in the socket's buffer, which gets a second to leave."""
        if self.reason is None and self.ready.is_set():
            self.flush()
        self._end("the connection was closed")
        if self.tls is not None and self.tls.established:
            self.tls.close()
            self._write_raw(self.tls.take_outgoing())
        self._transport.close()
        self._loop.call_later(_LINGER, self._transport.abort)

    def _linger(self, reason: str) -> None:
        """End the connection, but let the peer read what was written: unread input would reset the socket."""
        self._end(reason)
        if not self._transport.is_closing():
            self._transport.write_eof()
            self._loop.call_later(_LINGER, self._transport.abort)

    def _end(self, reason: str) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        self._heartbeat.stop()
        if self._setup_timer is not None:
            self._setup_timer.cancel()
        for stream in self._streams.values():
            stream.break_off(reason)
        self._streams.clear()
        self.ready.set()
        if self._on_end is not None:
            self._on_end(self)

    # HTTP/2, incoming

    def _feed(self, plaintext: bytes) -> None:
        try:
            events = self._http2.receive_data(plaintext)
        except ProtocolError as error:
            self.flush()
            self._linger(f"HTTP/2 protocol error: {error}")
            return
        for event in events:
            self._handle(event)
        # Only now, since h2 is already at the end of the events: a stream may have been reset by the last of them.
        if any(isinstance(event, WindowUpdated | RemoteSettingsChanged) for event in events):
            self._pump_all()
        if self.reason is None:
            self.flush()

    def _handle(self, event: Event) -> None:
        match event:
            case DataReceived():
                self._handle_data(event)
            case RequestReceived():
                self._handle_request(event)
            case RemoteSettingsChanged():
                self.peer_has_spoken = True
                if self._setup_timer is not None:
                    self._setup_timer.cancel()
            case ConnectionTerminated():
                self._linger(f"the peer ended the connection ({_goaway_text(event)})")
            case ResponseReceived() | TrailersReceived() | StreamEnded() | StreamReset():
                if stream := self._streams.get(event.stream_id):
                    self._handle_stream_event(stream, event)
            case _:
                pass  # answers to pings and settings, priorities and frames unknown to us need no action

    def _handle_stream_event(
        self, stream: Stream, event: ResponseReceived | TrailersReceived | StreamEnded | StreamReset
    ) -> None:
        match event:
            case StreamEnded():
                stream.receive_end()
            case StreamReset():
                del self._streams[stream.id]
                stream.break_off("the peer reset the stream")
            case _:
                stream.receive_headers(_readable(event.headers))

    def _handle_request(self, event: RequestReceived) -> None:
        assert self._accept is not None  # h2 lets nobody open a stream towards a client
        stream = self._streams[event.stream_id] = Stream(self, event.stream_id)
        stream.receive_headers(_readable(event.headers))
        self._accept(stream)

    def _handle_data(self, event: DataReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            self.acknowledge(event.stream_id, event.flow_controlled_length)
            return
        stream.receive(event.data)
        self.acknowledge(event.stream_id, event.flow_controlled_length - len(event.data))

    def _pump_all(self) -> None:
        for stream in tuple(self._streams.values()):
            stream.pump()

    # HTTP/2, outgoing; for streams

    @property
    def writable(self) -> bool:
        return not self._paused and self.reason is None

    def open(self, headers: Headers) -> Stream:
        stream = Stream(self, self._http2.get_next_available_stream_id())
        self._streams[stream.id] = stream
        self.send_headers(stream.id, headers, end=False)
        return stream

    def sendable(self, stream_id: int) -> int:
        """How many bytes the peer takes in the next frame."""
        return min(self._http2.local_flow_control_window(stream_id), self._http2.max_outbound_frame_size)

    def send_data(self, stream_id: int, data: memoryview) -> None:
        self._http2.send_data(stream_id, data)

    def send_headers(self, stream_id: int, headers: Headers, *, end: bool) -> None:
        self._http2.send_headers(stream_id, headers, end_stream=end)
        self.flush_soon()

    def send_end(self, stream_id: int) -> None:
        self._http2.end_stream(stream_id)
        self.flush_soon()

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        self._http2.reset_stream(stream_id, code)
        self.flush_soon()

    def acknowledge(self, stream_id: int, size: int) -> None:
        """These bytes were taken out of the window: the peer may send as many again."""
        if size and self.reason is None:
            with suppress(ProtocolError):  # the connection was ended by what arrived together with the data
                self._http2.acknowledge_received_data(size, stream_id)
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
        data = self._http2.data_to_send()
        if not data:
            return
        if self.tls is not None:
            self.tls.send(data)
            data = self.tls.take_outgoing()
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > _MAX_UNSENT:
            self.abort("the peer does not read")


def _readable(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def _goaway_text(event: ConnectionTerminated) -> str:
    words = (event.additional_data or b"").decode("ascii", "replace")
    return f"{event.error_code}" + (f", {words}" if words else "")
