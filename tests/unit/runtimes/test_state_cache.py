"""One listing for all concurrent requests."""

import asyncio

import pytest

from ankaios.runtimes.runtime_connector import RuntimeFailed
from ankaios.runtimes.state_cache import StateCache


class Source:
    """Loads 1, 2, 3, … unless scripted to fail or to wait."""

    def __init__(self) -> None:
        self.now = 100.0
        self.loads = 0
        self.errors: list[Exception] = []
        self.gate: asyncio.Event | None = None
        self.cache: StateCache[int] = StateCache(self.load, lambda: self.now)

    async def load(self) -> int:
        self.loads += 1
        number = self.loads
        if self.gate is not None:
            await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return number

    async def get(self, **more: float) -> int:
        return (await self.cache.get(**more)).get()


async def test_a_bug_in_loading_is_an_error_like_others(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    source.errors = [ValueError("a bug")]
    with pytest.raises(RuntimeFailed, match="Internal error: ValueError: a bug"):
        await source.get()
    assert "internal error in the list of containers: ValueError: a bug" in caplog.text
    source.now += 2
    assert await source.get() == 2


async def test_a_recent_listing_is_used_again() -> None:
    """[utest->swdd~podmancli-uses-container-state-cache~1]"""
    source = Source()
    assert await source.get() == 1
    source.now += 1.0
    assert await source.get() == 1


async def test_a_listing_older_than_a_second_is_loaded_again() -> None:
    """[utest->swdd~podmancli-container-state-cache-refresh~1]"""
    source = Source()
    assert await source.get() == 1
    source.now += 1.01
    assert await source.get() == 2


async def test_after_a_reset_the_old_listing_is_not_used() -> None:
    """[utest->swdd~podman-state-getter-reset-cache~1]
    [utest->swdd~podman-kube-state-getter-reset-cache~1]
    """
    source = Source()
    assert await source.get() == 1
    source.now += 0.1
    source.cache.reset()
    assert source.cache.newest() is None
    assert await source.get() == 2


async def test_a_listing_that_started_before_the_given_time_is_not_used() -> None:
    source = Source()
    assert await source.get() == 1
    assert await source.get(not_before=100.0) == 1
    source.now += 0.1
    assert await source.get(not_before=100.1) == 2


async def test_concurrent_requests_share_one_call() -> None:
    source = Source()
    source.gate = asyncio.Event()
    asking = [asyncio.create_task(source.get()) for _ in range(50)]
    await asyncio.sleep(0)
    source.gate.set()
    assert await asyncio.gather(*asking) == [1] * 50
    assert source.loads == 1


async def test_a_call_that_started_before_a_reset_serves_no_later_request() -> None:
    source = Source()
    source.gate = asyncio.Event()
    early = asyncio.create_task(source.get())
    await asyncio.sleep(0)
    source.now += 0.1
    source.cache.reset()
    late = [asyncio.create_task(source.get()) for _ in range(3)]
    await asyncio.sleep(0)
    source.gate.set()
    assert await asyncio.gather(*late) == [2, 2, 2]
    assert await early == 1
    assert source.loads == 2


async def test_a_request_is_served_although_each_call_is_outdated_when_it_ends() -> None:
    """Containers that start and stop all the time reset the cache faster than the runtime can list them."""
    source = Source()

    async def load_during_changes() -> int:
        number = await source.load()
        source.now += 0.1
        source.cache.reset()
        await asyncio.sleep(0)
        return number

    source.cache = StateCache(load_during_changes, lambda: source.now)
    early = asyncio.create_task(source.get())
    await asyncio.sleep(0)
    source.now += 0.1
    source.cache.reset()
    async with asyncio.timeout(10):
        assert await source.get() == 2
        assert await early == 1


async def test_a_failing_call_is_repeated_once_immediately() -> None:
    source = Source()
    source.errors = [RuntimeFailed("first")]
    assert await source.get() == 2


async def test_an_error_is_kept_like_a_result() -> None:
    source = Source()
    source.errors = [RuntimeFailed("first"), RuntimeFailed("second")]
    for _ in range(3):
        with pytest.raises(RuntimeFailed, match="second"):
            await source.get()
    assert source.loads == 2
    source.now += 2
    assert await source.get() == 3


async def test_a_cancelled_request_does_not_affect_others() -> None:
    source = Source()
    source.gate = asyncio.Event()
    first, second = asyncio.create_task(source.get()), asyncio.create_task(source.get())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    source.gate.set()
    assert await second == 1


async def test_listeners_are_called_for_each_new_listing() -> None:
    source = Source()
    notified: list[int] = []
    source.cache.on_new(lambda: notified.append(source.loads))
    await source.get()
    await source.get()
    source.now += 2
    await source.get()
    assert notified == [1, 2]


async def test_a_recent_listing_is_returned_without_a_call() -> None:
    source = Source()
    assert source.cache.newest() is None
    await source.get()
    source.now += 5
    assert source.cache.newest(max_age=4) is None
    newest = source.cache.newest()
    assert newest is not None
    assert newest.get() == 1
    assert source.loads == 1


async def test_closing_ends_the_current_call() -> None:
    source = Source()
    source.gate = asyncio.Event()
    asking = asyncio.create_task(source.get())
    await asyncio.sleep(0)
    await source.cache.close()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await source.cache.close()
