"""Commands that go on until somebody has seen enough: a signal ends them politely, a second one at once."""

from __future__ import annotations

import asyncio
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import FrameType
    from typing import Any

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)


async def until_signal(work: Coroutine[Any, Any, None], name: str) -> bool:
    """Do the work. True if it came to its end, False if a signal ended it."""
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(work, name=name)

    def end(number: int, _: FrameType | None) -> None:
        # A reader that does not read blocks the loop in its write: then only the second signal helps.
        signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(task.cancel)

    for number in ENDING_SIGNALS:
        signal.signal(number, end)
    await asyncio.wait({task})
    if task.cancelled():
        return False
    task.result()
    return True
