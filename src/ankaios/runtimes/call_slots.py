"""Limits the number of concurrent calls to one runtime.

Calls that use the processor slow each other down, so only a few may run at the same time. A call that takes long mostly
waits for a download or for a container to stop, and must not block other calls. Therefore a call releases its slot
after `release_after` seconds. A second, much higher limit bounds the total number of calls.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CallSlots:
    def __init__(self, working: int, waiting: int = 64, release_after: float = 0.5) -> None:
        self._working = asyncio.Semaphore(working)
        self._all = asyncio.Semaphore(working + waiting)
        self._release_after = release_after

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        async with self._all:
            await self._working.acquire()
            permit = _Permit(self._working)
            timer = asyncio.get_running_loop().call_later(self._release_after, permit.release)
            try:
                yield
            finally:
                timer.cancel()
                permit.release()


class _Permit:
    """A permit of a semaphore. Only the first `release` has an effect."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots: asyncio.Semaphore | None = slots

    def release(self) -> None:
        if self._slots is not None:
            self._slots.release()
            self._slots = None
