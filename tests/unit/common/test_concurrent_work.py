"""Several coroutines as one piece of work: results, the first failure, and a cancellation that is never lost."""

import asyncio

import pytest

from ankaios.common.concurrent_work import run_concurrently


class Failed(Exception):
    pass


async def result(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def failure() -> int:
    raise Failed


async def test_results_are_in_the_order_of_the_work() -> None:
    assert await run_concurrently({"one": result(1), "two": result(2)}) == [1, 2]
    assert await run_concurrently({}) == []


async def test_a_failure_is_raised_as_it_is_after_the_rest_has_ended() -> None:
    ended = []

    async def hang() -> int:
        try:
            return await asyncio.sleep(1000, 0)
        finally:
            ended.append(True)

    with pytest.raises(Failed):
        await run_concurrently({"fails": failure(), "hangs": hang()})
    assert ended == [True]


async def test_a_cancellation_together_with_a_failure_is_not_lost() -> None:
    """Otherwise a task that repeats failed work would continue forever after its cancellation."""
    failing, rounds = asyncio.Event(), 0

    async def fail() -> int:
        failing.set()
        raise Failed

    async def repeat() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            try:
                await run_concurrently({"fails": fail()})
            except Failed:
                await asyncio.sleep(0)

    task = asyncio.create_task(repeat())
    await failing.wait()
    task.cancel()
    await asyncio.wait((task,), timeout=30)
    assert task.cancelled()
    assert rounds == 1
