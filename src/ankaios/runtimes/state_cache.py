"""Caches the last listing of a runtime for all state checkers.

Input: a function that loads a listing. Output: listings that are not older than the caller accepts. One call of the
runtime serves all concurrent requests. An error is cached like a result, so that a failing runtime is not called more
often than a working one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import Generic, TypeVar

from msgspec import Struct

from ankaios.common.supervision import internal_error
from ankaios.runtimes.runtime_connector import RuntimeFailed

T = TypeVar("T")
MAX_AGE = 1.0  # seconds. [impl->swdd~podman-workload-monitor-interval~1]


class Loaded(Generic[T], Struct, frozen=True):
    """`asked` is the start time of the call: later changes may be missing in `value`."""

    asked: float
    took: float
    value: T | RuntimeFailed

    def get(self) -> T:
        if isinstance(self.value, RuntimeFailed):
            raise self.value.with_traceback(None)  # the same error may be raised for many callers
        return self.value


class StateCache(Generic[T]):
    """[impl->swdd~podmancli-uses-container-state-cache~1]"""

    def __init__(self, load: Callable[[], Awaitable[T]], clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._newest: Loaded[T] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._valid_from = 0.0
        self._listeners: list[Callable[[], None]] = []

    def reset(self) -> None:
        """Invalidate the loaded listing and the one that is being loaded, after a container changed."""
        self._valid_from = self._clock()

    def on_new(self, listener: Callable[[], None]) -> None:
        """Call the listener after each new listing or error."""
        self._listeners.append(listener)

    def newest(self, max_age: float = inf) -> Loaded[T] | None:
        """Return the cached listing, unless it is invalid or too old. Does not call the runtime."""
        wanted = max(self._valid_from, self._clock() - max_age)
        return self._newest if self._newest is not None and self._newest.asked >= wanted else None

    async def get(self, max_age: float = MAX_AGE, not_before: float = 0.0) -> Loaded[T]:
        """Return the cached listing if it started at most `max_age` ago and not before `not_before`, else a new one.

        Waits for at most two calls: a `reset` after this request does not invalidate the listing for it, because a
        runtime whose containers start and stop all the time would never have a valid one.
        [impl->swdd~podmancli-container-state-cache-refresh~1]
        """
        now, earliest = self._clock(), max(self._valid_from, not_before)
        while True:
            found = self._newest
            if found is not None:
                # A cached error is used only for a short time, to limit the rate of failing calls.
                limit = min(max_age, MAX_AGE) if isinstance(found.value, RuntimeFailed) else max_age
                if found.asked >= max(now - limit, earliest):
                    return found
            await asyncio.shield(self._loading or self.begin(self._clock(), self._load))

    def begin(self, asked: float, load: Callable[[], Awaitable[T]]) -> asyncio.Task[None]:
        """Start a task with `load`, which waits for the result of a call that started at `asked`."""
        self._loading = asyncio.create_task(self._load_once(asked, load), name="list containers")
        return self._loading

    async def _load_once(self, asked: float, load: Callable[[], Awaitable[T]]) -> None:
        try:
            value = await self._load_twice(load)
            self._newest = Loaded(asked, self._clock() - asked, value)
        finally:
            self._loading = None
        for listener in self._listeners:
            listener()

    async def _load_twice(self, load: Callable[[], Awaitable[T]]) -> T | RuntimeFailed:
        """Repeat a failed call once, immediately. Internal errors are cached like other errors."""
        try:
            try:
                return await load()
            except RuntimeFailed:
                return await self._load()
        except RuntimeFailed as fault:
            return fault
        except Exception as error:
            return RuntimeFailed(internal_error("the list of containers", error))

    async def close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
