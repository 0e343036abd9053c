"""Supervises the tasks of a program, so that an unexpected failure of one task does not end the others.

Input: named functions, and how their failure is reported. Output: tasks. An unexpected exception is a bug: it is logged
with its traceback and reported in the affected state. Work without an end is restarted after a delay that doubles with
each failure up to a limit. Only `Fatal` errors and cancellation end the program. A `Supervisor` owns its tasks.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from ankaios.common.errors import Fatal
from ankaios.common.growing_delay import growing_delay

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
MAX_REASON = 500

Work = Callable[[], Coroutine[Any, Any, None]]
FailureReport = Callable[[str], None]

log = logging.getLogger(__name__)


def restart_delay(failures: int) -> float:
    """Return the seconds until work is restarted after this number of failures in a row."""
    return growing_delay(failures, FIRST_DELAY, LONGEST_DELAY)


def failures_in_a_row(before: int, lasted: float) -> int:
    """Return the number of failures after one more. A failure after a long run counts as the first one."""
    return 1 if lasted > LONGEST_DELAY else before + 1


def internal_error(where: str, error: BaseException, consequence: str = "") -> str:
    """Log an unexpected exception. Return the text for users."""
    first = first_error(error)
    reason = f"{type(first).__name__}: {first}" if str(first) else type(first).__name__
    shown = reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]}…"
    log.error("internal error in %s%s: %s", where, f", {consequence}" if consequence else "", shown, exc_info=error)
    return f"Internal error: {shown}"


def first_error(error: BaseException) -> BaseException:
    """Return the first exception of a group; most groups have only one."""
    return first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _ignore(why: str) -> None:
    del why


async def keep_running(name: str, work: Work, report: FailureReport = _ignore) -> None:
    """Run the work, and restart it after an error, until it ends without one."""
    clock = asyncio.get_running_loop().time
    failures = 0
    while True:
        began = clock()
        try:
            await work()
            return
        except Exception as error:
            _raise_fatal(error)
            failures = failures_in_a_row(failures, clock() - began)
            delay = restart_delay(failures)
            _report(name, error, f"starting it again in {delay:g} s", report)
        await asyncio.sleep(delay)


async def run_once(name: str, work: Work, report: FailureReport = _ignore) -> None:
    """Run work that must not be repeated after an error."""
    try:
        await work()
    except Exception as error:
        _raise_fatal(error)
        _report(name, error, "giving it up", report)


def _raise_fatal(error: Exception) -> None:
    if isinstance(error, Fatal) or (isinstance(error, BaseExceptionGroup) and error.subgroup(Fatal) is not None):
        raise error


def _report(name: str, error: Exception, consequence: str, report: FailureReport) -> None:
    try:
        report(f"{internal_error(name, error, consequence)}, {consequence}")
    except Exception as again:
        internal_error(f"the failure report of {name}", again)


class Supervisor(asyncio.TaskGroup):
    """A task group in which one task cannot end the others, unless its error is `Fatal`."""

    def keep_running(self, name: str, work: Work, report: FailureReport = _ignore) -> asyncio.Task[None]:
        return self.create_task(keep_running(name, work, report), name=name)

    def run_once(self, name: str, work: Work, report: FailureReport = _ignore) -> asyncio.Task[None]:
        return self.create_task(run_once(name, work, report), name=name)
