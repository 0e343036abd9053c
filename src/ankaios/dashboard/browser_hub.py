"""Sends changes to all open pages. A page that does not read in time gets a complete snapshot instead.

Input: patches. Output: one queue of server-sent events for each page. Owns the queues, and the patches that were not
sent yet: the patches of a short time are sent as one event.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

FLUSH_SECONDS = 0.05
MAX_QUEUED = 200
MAX_PAGES = 100
KEEPALIVE_SECONDS = 15.0

Entry = dict[str, Any]


class TooManyPages(Exception):
    pass


def encode_event(kind: str, data: Any) -> bytes:
    """One server-sent event. JSON has no line breaks, so it is a single data line."""
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


class BrowserHub:
    def __init__(self, snapshot: Callable[[], bytes]) -> None:
        self._snapshot = snapshot
        self._pages: set[asyncio.Queue[bytes | None]] = set()
        self._pending: Entry = {}
        self._flush: asyncio.TimerHandle | None = None
        self.page_opened = asyncio.Event()

    @property
    def has_pages(self) -> bool:
        return bool(self._pages)

    def patch(self, patch: Entry, changes: list[Entry]) -> None:
        """Add to the next event. Of several changes of an entry, the last one is sent."""
        if not self._pages:
            return
        for kind, entries in patch.items():
            self._pending.setdefault(kind, {}).update(entries)
        self._pending.setdefault("changes", []).extend(changes)
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._send_pending)

    def _send_pending(self) -> None:
        self._flush = None
        pending, self._pending = self._pending, {}
        self.send("patch", pending)

    def send(self, kind: str, data: Any) -> None:
        if self._pages:
            self._put(encode_event(kind, data))

    def resync(self) -> None:
        """Everything may have changed."""
        self._pending = {}
        if self._pages:
            self._put(self._snapshot())

    def _put(self, event: bytes) -> None:
        for queue in self._pages:
            if queue.qsize() < MAX_QUEUED - 1:
                queue.put_nowait(event)
            else:  # the page does not read: a snapshot replaces the queued events
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(None)

    async def events(self) -> AsyncIterator[bytes]:
        """The events for one page: a snapshot, then all changes."""
        if len(self._pages) >= MAX_PAGES:
            raise TooManyPages
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_QUEUED)
        self._pages.add(queue)
        self.page_opened.set()
        try:
            yield self._snapshot()
            while True:
                try:
                    async with asyncio.timeout(KEEPALIVE_SECONDS):
                        event = await queue.get()
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                yield self._snapshot() if event is None else event
        finally:
            self._pages.discard(queue)
