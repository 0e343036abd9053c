"""Lists the existing workloads of each runtime and retries until it succeeds, so that no workload is started twice.

Input: the runtimes to list. Output: the existing workloads of each runtime and, until then, the reason why its
workloads wait. The module owns the listing tasks. Runtimes that no workload waits for are listed later, so that they do
not compete with urgent listings for the processor.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress

from ankaios.agent.core.runtime_manager import Found
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.supervision import Supervisor

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 5.0  # seconds until a runtime that works again is listed
REPORT_AFTER = 3.0
POSTPONEMENT = 0.3

log = logging.getLogger(__name__)


class Listings:
    """`ask` lists the workloads of a runtime, `answer` receives the list, `report_delay` the reason of a delay."""

    def __init__(
        self,
        ask: Callable[[str], Awaitable[list[Found]]],
        answer: Callable[[str, list[Found]], None],
        report_delay: Callable[[str, str], None],
        tasks: Supervisor,
    ) -> None:
        self._ask = ask
        self._answer = answer
        self._report_delay = report_delay
        self._tasks = tasks
        self._running: dict[str, asyncio.Task[None]] = {}
        self._postponed: dict[str, asyncio.Event] = {}

    def begin(self, runtimes: Iterable[str], awaited: Collection[str]) -> None:
        """List these runtimes, and cancel all other listings.

        Runtimes in `awaited` are listed immediately; if it is empty, all are.
        """
        for listing in self._running.values():
            listing.cancel()
        names = list(runtimes)
        self._postponed = {runtime: asyncio.Event() for runtime in names if awaited and runtime not in awaited}
        self._running = {runtime: self._start_listing(runtime) for runtime in names}

    def _start_listing(self, runtime: str) -> asyncio.Task[None]:
        name = f"the list of existing workloads of '{runtime}'"
        return self._tasks.keep_running(
            name, lambda: self._until_answered(runtime), lambda why: self._report_delay(runtime, why)
        )

    def hurry(self, awaited: Iterable[str]) -> None:
        """List these runtimes immediately, because workloads wait for them now."""
        for runtime in awaited:
            if runtime in self._postponed:
                self._postponed[runtime].set()

    async def _until_answered(self, runtime: str) -> None:
        if runtime in self._postponed:
            with suppress(TimeoutError):
                async with asyncio.timeout(POSTPONEMENT):
                    await self._postponed[runtime].wait()
        pause, attempt = FIRST_PAUSE, 1
        while True:
            timer = asyncio.get_running_loop().call_later(
                REPORT_AFTER, self._report_delay, runtime, _no_answer(runtime)
            )
            try:
                found = await self._ask(runtime)
                break
            except (Rejected, Unavailable) as error:
                self._report_failure(runtime, attempt, error)
            finally:
                timer.cancel()
            await asyncio.sleep(pause)
            pause, attempt = min(2 * pause, LONGEST_PAUSE), attempt + 1
        self._answer(runtime, found)

    def _report_failure(self, runtime: str, attempt: int, error: Exception) -> None:
        level = logging.WARNING if attempt == 1 else logging.DEBUG
        log.log(level, "cannot list the workloads of the runtime '%s', retrying: %s", runtime, error)
        self._report_delay(runtime, f"Retry {attempt}: {error}")


def _no_answer(runtime: str) -> str:
    return f"The runtime '{runtime}' has not listed its workloads within {REPORT_AFTER:g} s, waiting for it"
