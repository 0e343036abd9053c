"""One HTTP/2 connection: streams over a wire.

Comes in: plaintext of the wire. Goes out: opened streams, their bytes and endings. Owns the HTTP/2 state.

The library h2 knows the protocol; this link does the input and output. A peer cannot send more than the window allows
before it is read.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

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

from ankaios.middleware.keepalive import Keepalive
from ankaios.middleware.stream import Headers, Stream
from ankaios.middleware.tls import TlsLayer
from ankaios.middleware.wire import Wire

WINDOW = 2 * 1024 * 1024
MAX_STREAMS = 16
MAX_FRAME = 256 * 1024
MAX_HEADER_BYTES = 16 * 1024
_MAX_CHATTER_PER_SECOND = 1_000
_SUBSTANCE = (DataReceived, WindowUpdated, ResponseReceived, TrailersReceived, StreamEnded)
_PING = b"ankaios?"
_DEFAULT_WINDOW = 65535


class Link(Wire):
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
        super().__init__(keepalive, setup_timeout, tls)
        self.peer_has_spoken = False
        self._accept = accept
        self._on_made = on_made
        self._on_end = on_end
        self._http2 = H2Connection(H2Configuration(client_side=accept is None, header_encoding=None))
        self._streams: dict[int, Stream] = {}
        self._counting_since, self._chatter = 0.0, 0
        self._flush_planned = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._on_made is not None:
            self._on_made(self)

    def began(self) -> None:
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

    def ask_for_sign(self) -> None:
        self._http2.ping(_PING)
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
            events = self._http2.receive_data(plaintext)
        except ProtocolError as error:
            self.flush()
            self.linger(_protocol_error_text(error))
            return
        if self._chatters(events):
            self.abort("the peer floods the connection with frames that carry nothing")
            return
        for event in events:
            self._handle(event)
        # Only now, since h2 is already at the end of the events: a stream may have been reset by the last of them.
        if any(isinstance(event, WindowUpdated | RemoteSettingsChanged) for event in events):
            self._pump_all()
        if self.reason is None:
            self.flush()

    def _chatters(self, events: list[Event]) -> bool:
        """Pings, settings, resets, empty data: cheap to send, dear to handle, and an honest peer has few of them."""
        now = self._loop.time()
        if now - self._counting_since > 1.0:
            self._counting_since, self._chatter = now, 0
        self._chatter += sum(not isinstance(event, _SUBSTANCE) or _is_empty(event) for event in events)
        return self._chatter > _MAX_CHATTER_PER_SECOND

    def _handle(self, event: Event) -> None:
        match event:
            case DataReceived():
                self._handle_data(event)
            case RequestReceived():
                self._handle_request(event)
            case RemoteSettingsChanged():
                self.peer_has_spoken = True
                self.set_up()
            case ConnectionTerminated():
                self.linger(f"the peer ended the connection ({_goaway_text(event)})")
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

    # Outgoing, for streams

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
        if data := self._http2.data_to_send():
            self.write(data)


def _is_empty(event: Event) -> bool:
    return isinstance(event, DataReceived) and not event.data


def _readable(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def _protocol_error_text(error: ProtocolError) -> str:
    # After a GOAWAY h2 takes nothing more, not even the PING that a server sends along when it ends gracefully.
    if "ConnectionState.CLOSED" in str(error):
        return "the peer ended the connection"
    return f"HTTP/2 protocol error: {error}"


def _goaway_text(event: ConnectionTerminated) -> str:
    words = (event.additional_data or b"").decode("ascii", "replace")
    return f"{event.error_code}" + (f", {words}" if words else "")
