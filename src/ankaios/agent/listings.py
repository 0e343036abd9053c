"""Asks each runtime what exists until it answers: only it knows what must not be started twice.

Comes in: the runtimes to ask. Goes out: what each one found and, until it has answered, why its workloads have to wait.
Owned here: the questions under way. Runtimes that no workload waits for are asked a moment later, so that those who
wait need not share the processor with a question that has time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress

from ankaios.agent.core.runtime_manager import Found
from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.supervision import Supervisor

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 5.0  # seconds after which a runtime that was out of order is found to be well again
SILENCE = 3.0
AFTERWARDS = 0.3

log = logging.getLogger(__name__)


class Listings:
    """`ask` lists what exists in a runtime, `answer` takes the list, `report_delay` tells why there is none yet."""

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
        """Ask these and nobody else: at once those that workloads wait for, or all if there are none of them."""
        for question in self._running.values():
            question.cancel()
        names = list(runtimes)
        self._postponed = {runtime: asyncio.Event() for runtime in names if awaited and runtime not in awaited}
        self._running = {runtime: self._ask_for(runtime) for runtime in names}

    def _ask_for(self, runtime: str) -> asyncio.Task[None]:
        name = f"the list of existing workloads of '{runtime}'"
        return self._tasks.keep_running(
            name, lambda: self._until_answered(runtime), lambda why: self._report_delay(runtime, why)
        )

    def hurry(self, awaited: Iterable[str]) -> None:
        """Now workloads wait for these."""
        for runtime in awaited:
            if runtime in self._postponed:
                self._postponed[runtime].set()

    async def _until_answered(self, runtime: str) -> None:
        if runtime in self._postponed:
            with suppress(TimeoutError):
                async with asyncio.timeout(AFTERWARDS):
                    await self._postponed[runtime].wait()
        pause, attempt = FIRST_PAUSE, 1
        while True:
            silent = asyncio.get_running_loop().call_later(SILENCE, self._report_delay, runtime, _no_answer(runtime))
            try:
                found = await self._ask(runtime)
                break
            except (Rejected, Unavailable) as error:
                self._complain(runtime, attempt, error)
            finally:
                silent.cancel()
            await asyncio.sleep(pause)
            pause, attempt = min(2 * pause, LONGEST_PAUSE), attempt + 1
        self._answer(runtime, found)

    def _complain(self, runtime: str, attempt: int, error: Exception) -> None:
        level = logging.WARNING if attempt == 1 else logging.DEBUG
        log.log(level, "cannot list the workloads of the runtime '%s', asking again: %s", runtime, error)
        self._report_delay(runtime, f"Retry {attempt}: {error}")


def _no_answer(runtime: str) -> str:
    return f"The runtime '{runtime}' has not said within {SILENCE:g} s what exists already, waiting for it"
