"""Polls the state of one workload and reports each new state.

Input: a state getter, and hints that the state may have changed. Output: states; the first one immediately, then only
changes. The module owns the polling task. The getter decides how long to pause after a state: connectors that detect
changes give hints, the others are polled at an interval.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from ankaios.common.execution_state import FAILED_UNKNOWN, ExecutionState
from ankaios.common.supervision import keep_running
from ankaios.common.workload import InstanceName
from ankaios.runtimes.runtime_connector import StateSink

POLL_INTERVAL = 0.5
NEVER_RECEIVED = FAILED_UNKNOWN.because("Never received an execution state.")

_log = logging.getLogger(__name__)


class RuntimeStateGetter(Protocol):
    """Gets the current state of one workload.

    [impl->swdd~agent-general-runtime-state-getter-interface~1]
    """

    def open(self, hint: Callable[[], None]) -> None:
        """Called once before the first `get_state`; a call of `hint` triggers another one."""
        ...

    async def get_state(self) -> ExecutionState: ...

    def pause(self) -> float | None:
        """Return the seconds until the next `get_state`; None: only after a hint."""
        ...

    def close(self) -> None:
        """Release the resources of the getter."""
        ...


class GenericPollingStateChecker:
    """[impl->swdd~agent-provides-generic-state-checker-implementation~1]
    [impl->swdd~agent-general-state-checker-interface~1]
    [impl->swdd~podman-workload-monitors-workload-state~1]
    """

    def __init__(
        self,
        name: str,
        getter: RuntimeStateGetter,
        sink: StateSink,
        on_stop: Callable[["GenericPollingStateChecker"], None] | None = None,
    ) -> None:
        self._on_stop = on_stop
        self._getter = getter
        self._sink: StateSink | None = sink
        self._hint = asyncio.Event()
        self._reported = NEVER_RECEIVED
        getter.open(self.poll_now)
        work = keep_running(f"the state checker of '{name}'", self._watch, self._broken)
        self._task = asyncio.create_task(work, name=f"state checker of {name}")

    def poll_now(self) -> None:
        """Get the state now, because it may have changed."""
        self._hint.set()

    def stop(self) -> None:
        """Stop the task; the sink is not called any more."""
        if self._sink is not None:
            self._sink = None
            self._task.cancel()
            self._getter.close()
            if self._on_stop is not None:
                self._on_stop(self)

    async def _watch(self) -> None:
        while self._sink is not None:
            self._hint.clear()
            self._report(await self._getter.get_state())
            await self._pause(self._getter.pause())

    def _broken(self, why: str) -> None:
        """Report an unknown state as long as the task fails."""
        self._report(FAILED_UNKNOWN.because(why))

    def _report(self, state: ExecutionState) -> None:
        """[impl->swdd~generic-state-checker-sends-workload-state~1]
        [impl->swdd~podman-workload-sends-workload-state~1]
        """
        if self._sink is not None and state != self._reported:
            self._reported = state
            self._sink(state)

    async def _pause(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hint.wait()
        except TimeoutError:
            _log.debug("%s: no hint within %s s, polling", self._task.get_name(), seconds)


class StateCheckers:
    """Owns the checkers of one connector, so that none outlives the connector."""

    def __init__(self) -> None:
        self._checkers: set[GenericPollingStateChecker] = set()

    def start(self, name: InstanceName, getter: RuntimeStateGetter, sink: StateSink) -> GenericPollingStateChecker:
        checker = GenericPollingStateChecker(str(name), getter, sink, self._checkers.discard)
        self._checkers.add(checker)
        return checker

    def close(self) -> None:
        for checker in list(self._checkers):
            checker.stop()
