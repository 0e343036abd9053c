"""Failing tasks, and their effect on others."""

import asyncio
import logging

import pytest

from ankaios.common.errors import Fatal, StartupFailed
from ankaios.common.supervision import (
    MAX_REASON,
    Supervisor,
    failures_in_a_row,
    internal_error,
    keep_running,
    restart_delay,
    run_once,
)


class Pauses:
    """Replaces sleep: records the delays without sleeping."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept: list[float] = []
        self._sleep = asyncio.sleep
        monkeypatch.setattr("asyncio.sleep", self)

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self._sleep(0)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    return Pauses(monkeypatch)


class Fails:
    """Work that fails a given number of times, then ends."""

    def __init__(self, times: int, error: Exception | None = None) -> None:
        self.runs = 0
        self._times = times
        self._error = error or ValueError("wrong")

    async def __call__(self) -> None:
        self.runs += 1
        await asyncio.sleep(0)
        if self.runs <= self._times:
            raise self._error


def test_delays_double_up_to_a_limit() -> None:
    assert [restart_delay(failures) for failures in (1, 2, 3, 4, 7, 8, 10_000)] == [1, 2, 4, 8, 60, 60, 60]


async def test_work_that_fails_is_started_again_and_each_failure_is_logged_and_reported(
    pauses: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    work, reported = Fails(3), list[str]()
    await keep_running("a task", work, reported.append)
    assert work.runs == 4
    assert [pause for pause in pauses.slept if pause] == [1.0, 2.0, 4.0]
    assert reported[0] == "Internal error: ValueError: wrong, starting it again in 1 s"
    assert len(reported) == len(caplog.records) == 3
    assert "internal error in a task, starting it again in 1 s: ValueError: wrong" in caplog.text
    assert "Traceback" in caplog.text and "raise self._error" in caplog.text


def test_a_failure_after_a_long_time_counts_as_the_first() -> None:
    assert [failures_in_a_row(3, lasted) for lasted in (0.0, 60.0, 61.0)] == [4, 4, 1]


async def test_work_that_ends_is_not_started_again(caplog: pytest.LogCaptureFixture) -> None:
    work, reported = Fails(1), list[str]()
    await run_once("a task", work, reported.append)
    assert work.runs == 1
    assert reported == ["Internal error: ValueError: wrong, giving it up"]
    assert "internal error in a task, giving it up" in caplog.text


async def test_a_report_that_fails_is_logged_too(pauses: Pauses, caplog: pytest.LogCaptureFixture) -> None:
    def report(why: str) -> None:
        raise KeyError(why)

    await keep_running("a task", Fails(1), report)
    assert "internal error in the failure report of a task: KeyError" in caplog.text


async def test_one_task_does_not_end_the_others(pauses: Pauses) -> None:
    going_on = asyncio.Event()
    async with Supervisor() as tasks:
        tasks.run_once("fails", Fails(1))
        tasks.keep_running("fails again and again", Fails(10))
        task = tasks.run_once("goes on", lambda: _wait(going_on))
        for _ in range(30):
            await asyncio.sleep(0)
        assert not task.done()
        going_on.set()
    assert task.done()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


@pytest.mark.parametrize(
    "error", [StartupFailed("a", "b"), ExceptionGroup("inner", [ValueError(), StartupFailed("a", "b")])]
)
@pytest.mark.parametrize("how", [keep_running, run_once])
async def test_a_fatal_error_ends_all_tasks(error: Exception, how: object) -> None:
    with pytest.raises(BaseExceptionGroup) as group:
        async with Supervisor() as tasks:
            start = tasks.keep_running if how is keep_running else tasks.run_once
            start("fails", Fails(1, error))
            await asyncio.Event().wait()
    assert group.value.subgroup(Fatal) is not None


async def test_a_task_can_be_cancelled_while_it_pauses() -> None:
    task = asyncio.create_task(keep_running("a task", Fails(100)))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_reason_is_short_for_a_long_exception_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    assert len(internal_error("x", ValueError("y" * 100_000))) < MAX_REASON + 50
    assert internal_error("x", RecursionError()) == "Internal error: RecursionError"


def test_of_a_group_the_first_reason_is_shown() -> None:
    inner = ExceptionGroup("inner", [KeyError("a"), ValueError("b")])
    assert internal_error("x", ExceptionGroup("outer", [inner])) == "Internal error: KeyError: 'a'"
