"""Which streams there are: open ones with their state, those that are over, those that were never opened.

Comes in: ids of frames, openings and endings. Goes out: the state of a stream, or a `ProtocolError` for an id that
cannot be. Owns the states of the open streams; of those that are over only a few ids.
"""

from __future__ import annotations

from ankaios.middleware.http2_engine.errors import PROTOCOL_ERROR, ProtocolError
from ankaios.middleware.http2_engine.flow import ReceiveWindow, SendWindow

_REMEMBERED = 128


class StreamState:
    """One open stream. It is over when both sides have ended it, or one has reset it."""

    __slots__ = ("has_headers", "id", "length_left", "peer_ended", "receiving", "sending", "we_ended")

    def __init__(self, stream_id: int, send_window: int, receive_window: int) -> None:
        self.id = stream_id
        self.has_headers = False  # of the peer: from then on only trailers may follow
        self.length_left: int | None = None  # of the data that its headers announced
        self.peer_ended = False
        self.we_ended = False
        self.sending = SendWindow(send_window)
        self.receiving = ReceiveWindow(receive_window)

    def take_headers(self, content_length: int | None) -> None:
        self.has_headers = True
        self.length_left = content_length

    def take_content(self, size: int) -> bool:
        """False if that is more than was announced."""
        if self.length_left is None:
            return True
        self.length_left -= size
        return self.length_left >= 0


class StreamTable:
    """All streams of one connection. Clients open odd ones, each with a higher id than the one before."""

    def __init__(self, *, client_side: bool) -> None:
        self.open: dict[int, StreamState] = {}
        self.next_own = 1 if client_side else 2
        self.last_of_peer = 0
        self._client_side = client_side
        self._reset: dict[int, None] = {}  # in the order of the resets

    def find(self, stream_id: int) -> StreamState | None:
        """None if the stream is over."""
        stream = self.open.get(stream_id)
        if stream is None and (stream_id == 0 or self._is_idle(stream_id)):
            raise ProtocolError(PROTOCOL_ERROR, f"a frame belongs to stream {stream_id}, which was not opened")
        return stream

    def is_request(self, stream_id: int) -> bool:
        """Headers with this id open a stream. Nobody opens one towards a client, as pushes are not allowed."""
        return not self._client_side and stream_id & 1 == 1 and stream_id > self.last_of_peer

    def _is_idle(self, stream_id: int) -> bool:
        if stream_id & 1 == self._client_side:
            return stream_id >= self.next_own
        return stream_id > self.last_of_peer

    def end_if_done(self, stream: StreamState) -> None:
        if stream.peer_ended and stream.we_ended:
            del self.open[stream.id]

    def remember_reset(self, stream_id: int) -> None:
        """We reset it, so what the peer sent before it noticed is no fault."""
        self.open.pop(stream_id, None)
        self._reset[stream_id] = None
        if len(self._reset) > _REMEMBERED:
            del self._reset[next(iter(self._reset))]

    def was_reset(self, stream_id: int) -> bool:
        return stream_id in self._reset
