"""HTTP/2 without I/O: one connection on top of `h2`, with limits on everything a peer can make us store.

Input: bytes of the peer, calls with queued data. Output: changed calls, bytes for the peer. Owns the HTTP/2 state and
the calls of one connection. Nothing here waits, reads a clock, or uses a socket: `async_connection.py` and
`blocking_call.py` do, and both use this class.

    http2 = Http2Connection(CallState, client_side=True)
    call = http2.open_call(headers)
    call.write(data)
    socket.sendall(http2.take_outgoing())        # after every other method
    http2.receive(socket.recv(65536), now)       # updates the calls

What a peer can make us store: one frame of 256 KiB, one header block of 16 KiB, 100 calls, received messages up to the
window of 2 MiB (a server: 256 KiB), a header table of 4 KiB, 64 settings, and responses to what it has sent since
`take_outgoing`.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RemoteSettingsChanged,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import FlowControlError, FrameTooLargeError, ProtocolError
from h2.settings import SettingCodes, Settings

from ankaios.grpc.frame_meter import (
    HEADERS,
    MAX_FRAME_SIZE,
    MAX_HEADER_BYTES,
    MAX_SETTINGS,
    RST_STREAM,
    WINDOW_UPDATE,
    FrameMeter,
)
from ankaios.grpc.wire_format import ConnectionBroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from h2.events import Event
    from hpack import Encoder

    from ankaios.grpc.call_state import CallState
    from ankaios.grpc.wire_format import Headers

logging.getLogger("hpack").setLevel(logging.WARNING)  # its debug lines contain all headers, also tokens

WINDOW = 2 * 1024 * 1024
SERVER_WINDOW = 256 * 1024  # thousands of small requests, which delay what their sender sends after them
MAX_CALLS = 100
MAX_UNSENT = 4 * 1024 * 1024  # bytes for the socket; only a peer that causes responses and does not read reaches it
_DEFAULT_WINDOW = 65535
_MAX_HEADER_TABLE = 4096
_SEND_SIZE = 128 * 1024  # bytes of data for each `take_outgoing`
_SMALLEST_WINDOW_UPDATE = 512  # a correct peer does not confirm fewer bytes at once
_PING = b"ankaios?"
_MAX_GOAWAY_TEXT = 256


class _LimitedH2Connection(H2Connection):
    DEFAULT_MAX_HEADER_LIST_SIZE = MAX_HEADER_BYTES
    MAX_CLOSED_STREAMS = 128


class Http2Connection:
    """One end of one connection.

    `failure` is set when the connection cannot continue; a GOAWAY frame that states the reason is then in
    `take_outgoing`.
    """

    def __init__(
        self,
        new_call: Callable[[Http2Connection, int], CallState],
        *,
        client_side: bool,
        on_output: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_output` is called when there is something for `take_outgoing`."""
        self.calls: dict[int, CallState] = {}
        self.failure: str | None = None
        self.settings_received = False
        self.unprocessed = b""
        self._new_call = new_call
        self._on_output = on_output
        self._with_queued_data: dict[int, CallState] = {}
        self.meter = FrameMeter(client_side=client_side)
        self._h2 = _LimitedH2Connection(H2Configuration(client_side=client_side, header_encoding=None))
        self._h2.max_inbound_frame_size = MAX_FRAME_SIZE
        self._h2.local_settings = Settings(client=client_side, initial_values=_settings(client_side=client_side))
        self._h2.initiate_connection()
        window = WINDOW if client_side else SERVER_WINDOW
        self._h2.increment_flow_control_window(window - _DEFAULT_WINDOW)

    # Receiving

    def receive(self, data: bytes, now: float, max_frames: float = inf) -> list[CallState]:
        """Process bytes of the peer, cut at any place; return the calls that the peer has started.

        After `max_frames` the rest stays in `unprocessed` and has to be received again.
        """
        self.unprocessed = b""
        if self.failure is not None:
            return []
        size = self.meter.measure(data, now, max_frames)
        if self.meter.is_partial:
            self.unprocessed = data[size:]
        try:
            events = self._h2.receive_data(data[:size])
        except ProtocolError as error:
            self.fail(error.error_code, f"{type(error).__name__}: {error}")
            return []
        calls = [call for event in events if (call := self._handle(event)) is not None]
        if violation := self.meter.violation:
            self.fail(violation.code, str(violation))
        elif len(self._h2.remote_settings) > MAX_SETTINGS:
            self.fail(ErrorCodes.ENHANCE_YOUR_CALM, f"the peer has more than {MAX_SETTINGS} settings")
        return calls if self.failure is None else []

    def end(self, reason: str) -> None:
        """The connection cannot continue, so all calls end."""
        if self.failure is None:
            self.failure = reason
            for call in self.calls.values():
                call.end(reason)
            self.calls.clear()
            self._with_queued_data.clear()

    def fail(self, code: ErrorCodes, text: str) -> None:
        """End the connection; the peer gets a GOAWAY frame with the reason."""
        self.end(f"HTTP/2 protocol error: {text}")
        self._h2.clear_outbound_data_buffer()
        self._h2.close_connection(code, text.encode("ascii", "replace")[:_MAX_GOAWAY_TEXT])

    def _handle(self, event: Event) -> CallState | None:
        """Return the call that the event has started."""
        call = self.calls.get(getattr(event, "stream_id", None) or 0)
        match event:
            case DataReceived():
                self._handle_data(call, event)
            case RequestReceived():
                call = self.calls[event.stream_id] = self._new_call(self, event.stream_id)
                call.receive_headers(event.headers)
                return call
            case ResponseReceived() | TrailersReceived() if call is not None:
                call.receive_headers(event.headers)
            case StreamEnded() if call is not None:
                call.receive_end()
                if call.is_complete:
                    self.forget(call)
            case StreamReset() if call is not None:
                self.forget(call)
                call.end("the peer reset the stream" if event.remote_reset else "HTTP/2 protocol error in the stream")
            case RemoteSettingsChanged():
                self.settings_received = True
                self._limit_header_table(self._h2.encoder)
            case ConnectionTerminated():
                self.end(_goaway_text(event))
        return None

    def _limit_header_table(self, encoder: Encoder) -> None:
        """Bound the memory for the header table that the peer keeps for us, and for its announced sizes."""
        if encoder.header_table_size > _MAX_HEADER_TABLE:
            encoder.header_table_size = _MAX_HEADER_TABLE
        sizes = encoder.table_size_changes
        if len(sizes) > 2:  # the smallest and the last one have to be confirmed
            encoder.table_size_changes = [min(sizes), sizes[-1]]

    def _handle_data(self, call: CallState | None, event: DataReceived) -> None:
        if call is not None:
            call.receive_data(event.data)
        unused = event.flow_controlled_length - (len(event.data) if call is not None else 0)
        self.acknowledge(event.stream_id, unused)

    # Sending

    def open_call(self, headers: Headers) -> CallState:
        """Start a call (client side); raises `ConnectionBroken`, for example after a GOAWAY."""
        try:
            stream_id = self._h2.get_next_available_stream_id()
            self._h2.send_headers(stream_id, headers)
        except ProtocolError as error:
            raise ConnectionBroken(f"the peer does not accept more calls: {error}") from error
        for kind, count in ((HEADERS, 2), (RST_STREAM, 1), (WINDOW_UPDATE, 2)):
            self.meter.expected[kind] += count
        call = self.calls[stream_id] = self._new_call(self, stream_id)
        self._on_output()
        return call

    def send_headers(self, call: CallState, headers: Headers) -> None:
        self._h2.send_headers(call.id, headers)
        self._on_output()

    def send_data_now(self, call: CallState, data: bytes) -> bool:
        """Send data of a call that has nothing queued, if the peer's windows allow it; shorter than to queue it."""
        try:
            self._h2.send_data(call.id, data)
        except (FlowControlError, FrameTooLargeError):
            return False
        self.meter.expected[WINDOW_UPDATE] += 2 + len(data) // _SMALLEST_WINDOW_UPDATE
        self._on_output()
        return True

    def send_queued(self, call: CallState) -> None:
        """Let `take_outgoing` send what the call has queued."""
        self._with_queued_data[call.id] = call
        self._on_output()

    def reset(self, call: CallState) -> None:
        """End the call for both sides immediately."""
        with suppress(ProtocolError):  # the stream or the connection is over already
            self._h2.reset_stream(call.id, ErrorCodes.CANCEL)
        self.forget(call)
        self._on_output()

    def acknowledge(self, stream_id: int, size: int) -> None:
        """The peer may send as many further bytes. `h2` combines the window updates."""
        if size and self.failure is None:
            self._h2.acknowledge_received_data(size, stream_id)
            self._on_output()

    def forget(self, call: CallState) -> None:
        """The call is over for both sides; unread data of it must not keep the connection's window closed."""
        self.calls.pop(call.id, None)
        self._with_queued_data.pop(call.id, None)
        self.acknowledge(call.id, call.discard_unread())

    def ping(self) -> None:
        self._h2.ping(_PING)

    @property
    def has_queued_data(self) -> bool:
        return bool(self._with_queued_data)

    def take_outgoing(self, *, with_data: bool = True) -> bytes:
        """Return bytes for the peer; call again until there are none. Without data: responses to frames only."""
        if with_data and self._with_queued_data:
            left = _SEND_SIZE
            for call in tuple(self._with_queued_data.values()):
                left -= self._send_data(call, left)
                if left <= 0:
                    break
        return self._h2.data_to_send()

    def _send_data(self, call: CallState, limit: int) -> int:
        """Send at most this many bytes of a call, as far as the peer's windows allow."""
        sent = 0
        while call.queued_bytes:
            size = min(self._h2.local_flow_control_window(call.id), self._h2.max_outbound_frame_size, limit - sent)
            if size <= 0:  # the other calls are served first next time
                self._with_queued_data[call.id] = self._with_queued_data.pop(call.id)
                break
            data = call.take_queued(size)
            self._h2.send_data(call.id, data)
            sent += len(data)
        else:
            del self._with_queued_data[call.id]
            self._send_end(call)
        if sent:
            self.meter.expected[WINDOW_UPDATE] += 2 + sent // _SMALLEST_WINDOW_UPDATE
        return sent

    def _send_end(self, call: CallState) -> None:
        if call.final_headers is not None:
            self._h2.send_headers(call.id, call.final_headers, end_stream=True)
            if not call.peer_ended:  # the response is complete, so the rest of the request is not needed
                self._h2.reset_stream(call.id, ErrorCodes.NO_ERROR)
            self.forget(call)
            call.end("the call was ended")
        elif call.is_half_closing:
            call.is_half_closing, call.is_half_closed = False, True
            self._h2.end_stream(call.id)
            if call.is_complete:
                self.forget(call)


def _goaway_text(event: ConnectionTerminated) -> str:
    text = (event.additional_data or b"")[:_MAX_GOAWAY_TEXT].decode("ascii", "replace")
    return f"the peer ended the connection ({int(event.error_code or 0)}{', ' if text else ''}{text})"


def _settings(*, client_side: bool) -> dict[SettingCodes, int]:
    settings = {
        SettingCodes.INITIAL_WINDOW_SIZE: WINDOW if client_side else SERVER_WINDOW,
        SettingCodes.MAX_FRAME_SIZE: MAX_FRAME_SIZE,
        SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
        SettingCodes.MAX_CONCURRENT_STREAMS: MAX_CALLS,
    }
    return settings | {SettingCodes.ENABLE_PUSH: 0} if client_side else settings
