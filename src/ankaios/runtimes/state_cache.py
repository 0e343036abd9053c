"""The last listing of a runtime, shared by all who ask for states.

In comes a function that loads a listing; out go listings that are young enough for who asks. However many ask at the
same moment, one call to the runtime serves them. An error is kept like a result, so a broken runtime is not asked
more often than a healthy one.
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
    """`asked` is when the call began: what changed later may be missing in it."""

    asked: float
    took: float
    value: T | RuntimeFailed

    def get(self) -> T:
        if isinstance(self.value, RuntimeFailed):
            raise self.value.with_traceback(None)  # it may be raised for many who ask
        return self.value


class StateCache(Generic[T]):
    """[impl->swdd~podmancli-uses-container-state-cache~1]"""

    def __init__(self, load: Callable[[], Awaitable[T]], clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._newest: Loaded[T] | None = None
        self._flight: asyncio.Task[Loaded[T]] | None = None
        self._valid_from = 0.0
        self._listeners: list[Callable[[], None]] = []

    def reset(self) -> None:
        """Forget what was loaded or is being loaded: something changed just now."""
        self._valid_from = self._clock()

    def on_new(self, listener: Callable[[], None]) -> None:
        """Tell the listener whenever a new listing, or error, has come."""
        self._listeners.append(listener)

    def newest(self, max_age: float = inf) -> Loaded[T] | None:
        """What is there without asking, unless it was reset since or is too old."""
        wanted = max(self._valid_from, self._clock() - max_age)
        return self._newest if self._newest is not None and self._newest.asked >= wanted else None

    async def get(self, max_age: float = MAX_AGE, not_before: float = 0.0) -> Loaded[T]:
        """The newest listing if it was asked for at most `max_age` ago and not before the given moment, else a new one.

        [impl->swdd~podmancli-container-state-cache-refresh~1]
        """
        now = self._clock()
        while True:
            found = self.newest()
            if found is not None:
                # An error is no knowledge: it only spares who has just failed.
                limit = min(max_age, MAX_AGE) if isinstance(found.value, RuntimeFailed) else max_age
                if found.asked >= max(now - limit, not_before):
                    return found
            await self._fly()

    def begin(self, asked: float, load: Callable[[], Awaitable[T]]) -> None:
        """A call that somebody made before is under way, `load` waits for its result."""
        self._flight = asyncio.create_task(self._load_once(asked, load), name="list containers")

    async def _fly(self) -> None:
        """Wait for the call under way, or begin one; the caller judges whether its result is young enough."""
        if self._flight is None:
            self.begin(self._clock(), self._load)
        assert self._flight
        await asyncio.shield(self._flight)

    async def _load_once(self, asked: float, load: Callable[[], Awaitable[T]]) -> Loaded[T]:
        try:
            value = await self._load_twice(load)
            loaded = Loaded(asked, self._clock() - asked, value)
            self._newest = loaded
        finally:
            self._flight = None
        for listener in self._listeners:
            listener()
        return loaded

    async def _load_twice(self, load: Callable[[], Awaitable[T]]) -> T | RuntimeFailed:
        """A failing call is repeated once at once. An internal error is kept like any other, too."""
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
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.wait([self._flight])
