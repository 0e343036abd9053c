"""Waiting for a condition that sends no notification."""

import asyncio
from collections.abc import Callable

LIMIT_SECONDS = 30


async def until(reached: Callable[[], bool]) -> None:
    """Return as soon as the condition holds; fail after a generous limit."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
