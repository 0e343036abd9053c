"""Runs several coroutines at the same time, as one piece of work of the caller.

Input: coroutines by name. Output: their results, or the first failure as it is. Owns the tasks until the call ends.

`asyncio.TaskGroup` is not used for this: before Python 3.13 it drops a cancellation of the caller that arrives together
with a failure, so that a caller that handles the failure would continue; and it raises a group of exceptions.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


async def run_concurrently(work: Mapping[str, Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results in the order of the work. A failure or a cancellation cancels the rest of the work."""
    if not work:
        return []
    tasks = [asyncio.create_task(each, name=name) for name, each in work.items()]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)  # so that none of them uses what the caller closes now
