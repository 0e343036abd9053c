"""What the peer says about streams and the connection: settings, windows, resets, pings, farewells.

Comes in: the content of control frames, with the right size. Goes out: events and answers, or a `ProtocolError`.
Owns nothing: the state is that of the sending half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.middleware.http2_engine import events
from ankaios.middleware.http2_engine.errors import FLOW_CONTROL_ERROR, PROTOCOL_ERROR, STREAM_CLOSED, ProtocolError
from ankaios.middleware.http2_engine.frames import ACK, PING, SETTINGS, frame
from ankaios.middleware.http2_engine.sender import MAX_TEXT, Sender

if TYPE_CHECKING:
    from ankaios.middleware.http2_engine.streams import StreamState

_LOWEST_31_BITS = 2**31 - 1


class ControlFrames(Sender):
    """The answers to frames that carry neither headers nor data, and to faults."""

    _events: list[events.Event]  # of the running `receive`
    _failed = False

    def _on_priority(self, _flags: int, stream_id: int, _payload: bytes) -> None:
        if stream_id == 0:
            raise ProtocolError(PROTOCOL_ERROR, "a PRIORITY frame belongs to no stream")
        self._chatter(stream_id)

    def _on_rst_stream(self, _flags: int, stream_id: int, payload: bytes) -> None:
        stream = self._streams.find(stream_id)
        if stream is None:
            self._chatter(stream_id)
            return
        del self._streams.open[stream_id]
        code = int.from_bytes(payload, "big")
        self._events.append(events.StreamReset(stream_id, code, "", by_peer=True))

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        _check_no_stream(stream_id)
        if flags & ACK:
            self._chatter(0)
            return
        before = self._peer.initial_window
        self._peer.read(payload)
        change = self._peer.initial_window - before
        for stream in self._streams.open.values():
            if not stream.sending.grow(change):
                raise ProtocolError(FLOW_CONTROL_ERROR, "a window has become too large")
        self._outgoing.append(frame(SETTINGS, ACK, 0))
        self._events.append(events.SettingsReceived(0))

    def _on_push_promise(self, _flags: int, _stream_id: int, _payload: bytes) -> None:
        raise ProtocolError(PROTOCOL_ERROR, "the peer pushes, which it was not allowed to")

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        _check_no_stream(stream_id)
        if flags & ACK:
            self._events.append(events.PingAnswered(payload))
        else:
            self._outgoing.append(frame(PING, ACK, 0, payload))
            self._chatter(0)

    def _on_goaway(self, _flags: int, stream_id: int, payload: bytes) -> None:
        _check_no_stream(stream_id)
        self._over = "the peer ends the connection"
        last = int.from_bytes(payload[:4], "big") & _LOWEST_31_BITS
        text = payload[8 : 8 + MAX_TEXT].decode("ascii", "replace")
        self._events.append(events.GoawayReceived(int.from_bytes(payload[4:8], "big"), last, text))

    def _on_window_update(self, _flags: int, stream_id: int, payload: bytes) -> None:
        by = int.from_bytes(payload, "big") & _LOWEST_31_BITS
        if stream_id == 0:
            if by == 0 or not self._sending.grow(by):
                raise ProtocolError(FLOW_CONTROL_ERROR if by else PROTOCOL_ERROR, "an impossible window update")
            self._events.append(events.WindowUpdated(0))
            return
        stream = self._streams.find(stream_id)
        if stream is None:
            self._chatter(stream_id)
        elif by == 0 or not stream.sending.grow(by):
            self._break(stream, FLOW_CONTROL_ERROR if by else PROTOCOL_ERROR, "an impossible window update")
        else:
            self._events.append(events.WindowUpdated(stream_id))

    # What is wrong, or not needed

    def _fail(self, error: ProtocolError) -> None:
        self._failed = True
        self._over = "the connection has failed"
        self._streams.open.clear()
        self.goaway(error.code, str(error))

    def _break(self, stream: StreamState, code: int, text: str) -> None:
        """The peer broke the rules on one stream, which ends that stream only."""
        self._reset(stream.id, code)
        self._events.append(events.StreamReset(stream.id, code, text, by_peer=False))

    def _refuse(self, stream_id: int, code: int) -> None:
        self._reset(stream_id, code)
        self._chatter(stream_id)

    def _answer_late(self, stream_id: int) -> None:
        """Something came for a stream that is over: no fault if the peer cannot have known."""
        if not self._streams.was_reset(stream_id):
            self._reset(stream_id, STREAM_CLOSED)

    def _chatter(self, stream_id: int) -> None:
        self._events.append(events.Chatter(stream_id))


def _check_no_stream(stream_id: int) -> None:
    if stream_id:
        raise ProtocolError(PROTOCOL_ERROR, "a frame for the whole connection belongs to a stream")
