"""The checker polls when needed and reports only new states."""

import asyncio
from collections.abc import Callable

import pytest

from ankaios.common import supervision
from ankaios.common.execution_state import FAILED_UNKNOWN, RUNNING_OK, SUCCEEDED_OK, ExecutionState, exited
from ankaios.runtimes.generic_polling_state_checker import NEVER_RECEIVED, POLL_INTERVAL, GenericPollingStateChecker
from ankaios.simulation.virtual_time import VirtualTimeLoop


class Getter:
    """Returns states from a list, the last one repeatedly; `polls` counts the calls."""

    def __init__(self, *states: ExecutionState, pause: float | None = None) -> None:
        self.states = list(states)
        self.polls = 0
        self.closed = False
        self.polled = asyncio.Event()
        self._pause = pause

    def open(self, hint: Callable[[], None]) -> None:
        self.hint = hint

    async def get_state(self) -> ExecutionState:
        self.polls += 1
        self.polled.set()
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def pause(self) -> float | None:
        return self._pause

    def close(self) -> None:
        self.closed = True

    async def until(self, polls: int) -> None:
        async with asyncio.timeout(60):
            while self.polls < polls:
                self.polled.clear()
                await self.polled.wait()
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_first_state_is_reported_immediately() -> None:
    reported: list[ExecutionState] = []
    checker = GenericPollingStateChecker("web", Getter(RUNNING_OK), reported.append)
    await settle()
    checker.stop()
    assert reported == [RUNNING_OK]


@pytest.mark.parametrize("call", ["get_state", "pause"])
async def test_a_checker_reports_an_internal_error_and_polls_again(
    call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervision, "FIRST_DELAY", 0.0)
    reported: list[ExecutionState] = []
    getter = Getter(RUNNING_OK)
    works, has_failed = getattr(getter, call), list[bool]()

    def fails_once() -> object:
        if not has_failed:
            has_failed.append(True)
            raise ValueError("a bug")
        return works()

    monkeypatch.setattr(getter, call, fails_once)
    checker = GenericPollingStateChecker("web", getter, reported.append)
    await getter.until(2 if call == "pause" else 1)
    why = "Internal error: ValueError: a bug, starting it again in 0 s"
    assert reported[-2:] == [FAILED_UNKNOWN.because(why), RUNNING_OK]
    assert "internal error in the state checker of 'web', starting it again in 0 s: ValueError: a bug" in caplog.text
    assert "Traceback" in caplog.text
    checker.stop()


async def test_a_checker_stopped_after_an_internal_error_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[ExecutionState] = []
    getter = Getter(RUNNING_OK)
    monkeypatch.setattr(getter, "pause", lambda: 1 / 0)
    checker = GenericPollingStateChecker("web", getter, reported.append)
    await settle()
    checker.stop()
    count = len(reported)
    await settle()
    assert (len(reported), getter.closed) == (count, True)


async def test_only_changes_are_reported() -> None:
    """[utest->swdd~generic-state-checker-sends-workload-state~1]
    [utest->swdd~podman-workload-sends-workload-state~1]
    """
    reported: list[ExecutionState] = []
    getter = Getter(RUNNING_OK, RUNNING_OK, exited(1), exited(1), exited(2), RUNNING_OK)
    checker = GenericPollingStateChecker("web", getter, reported.append)
    for polls in range(1, 7):
        await getter.until(polls)
        getter.hint()
    checker.stop()
    assert reported == [RUNNING_OK, exited(1), exited(2), RUNNING_OK]


async def test_the_state_before_the_first_poll_is_not_reported() -> None:
    reported: list[ExecutionState] = []
    getter = Getter(NEVER_RECEIVED)
    checker = GenericPollingStateChecker("web", getter, reported.append)
    await getter.until(1)
    checker.stop()
    assert reported == []


def test_it_polls_every_half_second_and_reports_changes() -> None:
    """[utest->swdd~agent-provides-generic-state-checker-implementation~1]"""
    reported: list[tuple[float, ExecutionState]] = []

    async def watch() -> None:
        time = asyncio.get_running_loop().time
        getter = Getter(RUNNING_OK, RUNNING_OK, SUCCEEDED_OK, pause=POLL_INTERVAL)
        checker = GenericPollingStateChecker("web", getter, lambda state: reported.append((time(), state)))
        await getter.until(4)
        checker.stop()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(watch())
    assert reported == [(0.0, RUNNING_OK), (1.0, SUCCEEDED_OK)]


async def test_without_a_pause_it_polls_only_after_a_hint() -> None:
    getter = Getter(RUNNING_OK)
    checker = GenericPollingStateChecker("web", getter, lambda _: None)
    await settle()
    assert getter.polls == 1
    getter.hint()
    await settle()
    assert getter.polls == 2
    checker.stop()


async def test_a_stopped_checker_reports_nothing() -> None:
    reported: list[ExecutionState] = []
    getter = Getter(RUNNING_OK, exited(1))
    checker = GenericPollingStateChecker("web", getter, reported.append)
    await settle()
    getter.hint()
    checker.stop()
    checker.stop()
    await settle()
    assert reported == [RUNNING_OK]
    assert getter.closed


async def test_a_sink_may_stop_its_own_checker() -> None:
    reported: list[ExecutionState] = []
    getter = Getter(RUNNING_OK, exited(1), pause=0.0)

    def sink(state: ExecutionState) -> None:
        reported.append(state)
        checker.stop()

    checker = GenericPollingStateChecker("web", getter, sink)
    await getter.until(1)
    await settle()
    assert reported == [RUNNING_OK]
