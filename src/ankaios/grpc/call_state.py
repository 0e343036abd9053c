"""The state of one gRPC call over one HTTP/2 stream, without I/O: received messages, queued data, the end.

Input: events of the connection, data to send. Output: messages, and data as far as the peer takes it. Owns the received
bytes that were not read yet (never more than the window) and the data that was not sent yet (the caller checks
`queued_bytes` and `queued_count` and decides when it is too much).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, MessageBuffer, Status

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeVar

    from google.protobuf.message import Message

    from ankaios.grpc.http2_connection import Http2Connection
    from ankaios.grpc.wire_format import Headers

    M = TypeVar("M", bound=Message)

# The sum over all calls of a connection stays below half of its window.
_ACKNOWLEDGE_AT = 1024


class CallState:
    """Made by an `Http2Connection`. Subclasses override `changed` and `progressed` to wake up waiting tasks."""

    def __init__(self, http2: Http2Connection, stream_id: int) -> None:
        self.id = stream_id
        self.headers: dict[str, str] | None = None
        self.trailers: dict[str, str] | None = None
        self.peer_ended = False
        self.broken: str | None = None
        self.headers_sent = False
        self.queued_bytes = 0
        self.received_bytes = 0
        self.final_headers: Headers | None = None
        self.is_half_closing = False
        self.is_half_closed = False
        self._http2 = http2
        self._inbox = MessageBuffer()
        self._unacknowledged = 0
        self._queue: deque[bytes | memoryview] = deque()

    @property
    def queued_count(self) -> int:
        return len(self._queue)

    @property
    def is_complete(self) -> bool:
        """Both sides of the stream have ended."""
        return self.peer_ended and self.is_half_closed

    def changed(self) -> None:
        """Something was received, or the call is over."""

    def inbox_shrunk(self, size: int) -> None:
        """So many received bytes are not stored any more."""

    def progressed(self) -> None:
        """Queued data was sent, or the call is over."""

    # Receiving

    def take_message(self, kind: type[M], limit: int) -> M | None:
        """Return the next message that has arrived; None if there is none yet, or if the peer has ended the call."""
        before = len(self._inbox)
        message = self._inbox.take(kind, limit)
        self.inbox_shrunk(before - len(self._inbox))
        if message is None and self.peer_ended and self._inbox:
            raise CallFailed(Status.INVALID_ARGUMENT, "the stream ended in the middle of a message")
        self._acknowledge(self._unacknowledged - len(self._inbox))
        return message

    def request_more(self) -> None:
        """The caller waits for a message: the peer may send as many further bytes as have arrived."""
        self._acknowledge(self._unacknowledged)

    def _acknowledge(self, size: int) -> None:
        if size >= _ACKNOWLEDGE_AT:
            self._unacknowledged -= size
            self._http2.acknowledge(self.id, size)

    # Sending

    def send_headers(self, headers: Headers) -> None:
        self.check()
        self.headers_sent = True
        self._http2.send_headers(self, headers)

    def write(self, data: bytes) -> None:
        """Never waits: data that the peer does not take yet stays in the queue."""
        self.check()
        self._queue.append(data)
        self.queued_bytes += len(data)
        self._http2.send_queued(self)

    def finish(self, headers: Headers) -> None:
        """End the call with these headers or trailers after everything that is queued."""
        if self.broken is None and self.final_headers is None:
            self.final_headers = headers
            self._http2.send_queued(self)

    def half_close(self) -> None:
        """Nothing more will be written; the peer may still send."""
        if self.broken is None and not self.is_half_closed:
            self.is_half_closing = True
            self._http2.send_queued(self)

    def reset(self, reason: str) -> None:
        """End the call for both sides immediately; queued data is dropped."""
        if self.broken is None and not self.is_complete:
            self._http2.reset(self)
            self.end(reason)

    def check(self) -> None:
        if self.broken is not None:
            raise ConnectionBroken(self.broken)

    # Called by the connection

    def receive_data(self, data: bytes) -> None:
        self._inbox.add(data)
        self.received_bytes += len(data)
        self._unacknowledged += len(data)
        self.changed()

    def receive_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        received = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        if self.headers is None:
            self.headers = received
        else:
            self.trailers = received
        self.changed()

    def receive_end(self) -> None:
        self.peer_ended = True
        self.changed()

    def take_queued(self, size: int) -> bytes | memoryview:
        """Return at most this many queued bytes; small items are combined."""
        data = self._queue.popleft()
        if len(data) > size:
            self._queue.appendleft(memoryview(data)[size:])
            data = memoryview(data)[:size]
        elif self._queue and len(data) + len(self._queue[0]) <= size:
            items = [data]
            while self._queue and len(data) + len(self._queue[0]) <= size:
                size -= len(self._queue[0])
                items.append(self._queue.popleft())
            data = b"".join(items)
        self.queued_bytes -= len(data)
        self.progressed()
        return data

    def end(self, reason: str) -> None:
        """From now on every read (after the messages that have arrived) and every write fails with this reason."""
        if self.broken is None:
            self.broken = reason
            self._queue.clear()
            self.queued_bytes = 0
        self.changed()
        self.progressed()

    def discard_inbox(self) -> None:
        """Drop received messages that were not read."""
        self.inbox_shrunk(len(self._inbox))
        self._inbox = MessageBuffer()

    def discard_unread(self) -> int:
        """Return how many bytes of the window are not acknowledged."""
        size, self._unacknowledged = self._unacknowledged, 0
        return size
