"""One HTTP/2 stream: exact reads, queued writes.

Comes in: data, headers and endings from the link. Goes out: frames, as far as the peer's window and the socket allow.
Owns the received bytes nobody has read yet (never more than the window) and the bytes not yet sent (the writer looks
at `queued_bytes` and `queued_count` and decides when it is too much).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ankaios.middleware.http2_engine.errors import CANCEL, NO_ERROR

if TYPE_CHECKING:
    from ankaios.middleware.http2 import Link
    from ankaios.middleware.http2_engine.events import Headers

_FLUSH_AT = 64 * 1024
_ACKNOWLEDGE_AT = 64 * 1024  # times the streams of a link: must stay below half of its window


class Broken(Exception):
    """The stream cannot be used any more; the text says why."""


class Stream:
    """Made by a link, when a request arrives or is sent."""

    def __init__(self, link: Link, stream_id: int) -> None:
        self.link = link
        self.id = stream_id
        self.headers: dict[str, str] | None = None
        self.trailers: dict[str, str] | None = None
        self.headers_sent = False
        self.queued_bytes = 0
        self.broken: str | None = None
        self._inbox = bytearray()
        self._consumed = 0
        self._peer_ended = False
        self._changed = asyncio.Event()
        self._queue: deque[memoryview] = deque()
        self._sent = asyncio.Event()
        self._last_headers: Headers | None = None
        self._half_close = False

    @property
    def queued_count(self) -> int:
        return len(self._queue)

    async def read(self, size: int) -> bytearray:
        """Exactly `size` bytes, or fewer if the peer ended the stream before."""
        taken = bytearray()
        while True:
            part = self._inbox[: size - len(taken)]
            if part:
                taken += part
                del self._inbox[: len(part)]
                self._acknowledge(len(part))
            if len(taken) == size or (self._peer_ended and not self._inbox):
                return taken
            await self._wait_for_change()

    def _acknowledge(self, size: int) -> None:
        self._consumed += size
        if self._consumed >= _ACKNOWLEDGE_AT:
            self.link.acknowledge(self.id, self._consumed)
            self._consumed = 0

    async def response_headers(self) -> dict[str, str]:
        while self.headers is None:
            if self._peer_ended:
                raise Broken("the stream ended without headers")
            await self._wait_for_change()
        return self.headers

    async def _wait_for_change(self) -> None:
        if self.broken is not None:
            raise Broken(self.broken)
        self._changed.clear()
        await self._changed.wait()

    def send_headers(self, headers: Headers) -> None:
        """Sent at once; only legal before anything was written."""
        self._check()
        self.headers_sent = True
        self.link.send_headers(self.id, headers, end=False)

    def write(self, data: bytes) -> None:
        """Never waits: what the peer does not take yet is queued."""
        self._check()
        self._queue.append(memoryview(data))
        self.queued_bytes += len(data)
        self.pump()

    async def drain(self, limit: int) -> None:
        """Wait until at most `limit` bytes are queued."""
        while self.queued_bytes > limit:
            self._check()
            self._sent.clear()
            await self._sent.wait()
        self._check()

    def finish(self, headers: Headers) -> None:
        """End the stream with these headers or trailers, after all that is queued."""
        if self.broken is None and self._last_headers is None:
            self._last_headers = headers
            self.pump()

    def half_close(self) -> None:
        """Nothing more will be written; the peer may still send."""
        if self.broken is None and not self._half_close:
            self._half_close = True
            self.pump()

    def cut(self, headers: Headers, reason: str) -> None:
        """End the stream now: with these headers if nothing is queued before them, else without."""
        self.finish(headers)
        if self.broken is None:
            self.link.reset(self.id, CANCEL)
            self.break_off(reason)
            self.link.forget(self)

    def pump(self) -> None:
        """Send what the peer's window and the socket take now."""
        unflushed = 0
        while self._queue and self.link.writable and self.broken is None:
            size = self.link.sendable(self.id)
            if size <= 0:
                break
            unflushed += self._send_chunk(size)
            if unflushed >= _FLUSH_AT:
                self.link.flush()
                unflushed = 0
        self.link.flush_soon()
        self._sent.set()
        if not self._queue and self.broken is None:
            self._send_end()

    def _send_chunk(self, size: int) -> int:
        head = self._queue[0]
        chunk = head[:size]
        self.link.send_data(self.id, chunk)
        if len(chunk) == len(head):
            self._queue.popleft()
        else:
            self._queue[0] = head[size:]
        self.queued_bytes -= len(chunk)
        return len(chunk)

    def _send_end(self) -> None:
        if self._last_headers is not None:
            self.link.send_headers(self.id, self._last_headers, end=True)
            if not self._peer_ended:
                # The peer need not send the rest of its request; the answer is complete.
                self.link.reset(self.id, NO_ERROR)
            self.break_off("the stream was ended")
            self.link.forget(self)
        elif self._half_close:
            self._half_close = False
            self.link.send_end(self.id)

    def _check(self) -> None:
        if self.broken is not None:
            raise Broken(self.broken)

    # What follows is called by the link.

    def receive(self, data: bytes) -> None:
        self._inbox += data
        self._changed.set()

    def receive_headers(self, headers: dict[str, str]) -> None:
        if self.headers is None:
            self.headers = headers
        else:
            self.trailers = headers
        self._changed.set()

    def receive_end(self) -> None:
        self._peer_ended = True
        self._changed.set()

    def break_off(self, reason: str) -> None:
        """From now on every read (after what has arrived) and every write says why it is over."""
        if self.broken is None:
            self.broken = reason
            self._queue.clear()
            self.queued_bytes = 0
        self._changed.set()
        self._sent.set()

    def discard_unread(self) -> int:
        """How many bytes of the window nobody has acknowledged."""
        size = self._consumed + len(self._inbox)
        self._consumed = 0
        self._inbox.clear()
        return size
