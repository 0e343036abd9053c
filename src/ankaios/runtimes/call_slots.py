"""Bounds how many calls to one runtime are under way.

Calls that work hard in parallel block each other, so few may run at a time; but a call that takes long mostly waits,
for a download or for a container to stop, and must not keep others out. So after its patience a call gives its place
away, and only a much higher limit bounds the calls that wait.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CallSlots:
    def __init__(self, working: int, waiting: int = 64, patience: float = 0.5) -> None:
        self._working = asyncio.Semaphore(working)
        self._all = asyncio.Semaphore(working + waiting)
        self._patience = patience

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        async with self._all:
            await self._working.acquire()
            place = _Place(self._working)
            timer = asyncio.get_running_loop().call_later(self._patience, place.give_away)
            try:
                yield
            finally:
                timer.cancel()
                place.give_away()


class _Place:
    """One place that can be given away once."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots: asyncio.Semaphore | None = slots

    def give_away(self) -> None:
        if self._slots is not None:
            self._slots.release()
            self._slots = None
