"""Limits the number of concurrent calls to one runtime.

Calls that use the processor slow each other down, so only a few may run at the same time. A call that takes long mostly
waits for a download or for a container to stop, and must not block other calls. Therefore a call releases its slot
after `release_after` seconds. A second, much higher limit bounds the total number of calls.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager


class CallSlots:
    def __init__(self, working: int, waiting: int = 64, release_after: float = 0.5) -> None:
        self._working = asyncio.Semaphore(working)
        self._all = asyncio.Semaphore(working + waiting)
        self._release_after = release_after

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        async with self._all:
            await self._working.acquire()
            with ExitStack() as permit:  # `close` has an effect only once
                permit.callback(self._working.release)
                timer = asyncio.get_running_loop().call_later(self._release_after, permit.close)
                permit.callback(timer.cancel)
                yield
