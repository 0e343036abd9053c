"""Watches one workload by asking for its state, and tells each state that is new.

In come a state getter and hints that it is worth a look; out go states, the first one at once and then only changes.
Owned is the task that asks. How long to pause after a state is the getter's choice: runtimes that notice changes by
themselves hint, the others are asked at an interval.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from ankaios.common.execution_state import FAILED_UNKNOWN, REMOVED, ExecutionState
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
        """Called once before the first look; `hint` asks for another one."""
        ...

    async def get_state(self) -> ExecutionState: ...

    def pause(self) -> float | None:
        """Seconds until the next look; None: only when hinted."""
        ...

    def close(self) -> None:
        """Let go of what was held for looking."""
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
        self._told = NEVER_RECEIVED
        getter.open(self.look_now)
        work = keep_running(f"the state checker of '{name}'", self._watch, self._broken)
        self._task = asyncio.create_task(work, name=f"state checker of {name}")

    def look_now(self) -> None:
        """Something may have changed."""
        self._hint.set()

    def stop(self) -> None:
        """Never call the sink again."""
        if self._sink is not None:
            self._sink = None
            self._task.cancel()
            self._getter.close()
            if self._on_stop is not None:
                self._on_stop(self)

    async def _watch(self) -> None:
        while self._sink is not None:
            self._hint.clear()
            state = await self._getter.get_state()
            self._tell(state)
            if state.is_same(REMOVED):
                return
            await self._pause(self._getter.pause())

    def _broken(self, why: str) -> None:
        """As long as nobody can look, the state is not known."""
        self._tell(FAILED_UNKNOWN.because(why))

    def _tell(self, state: ExecutionState) -> None:
        """[impl->swdd~generic-state-checker-sends-workload-state~1]
        [impl->swdd~podman-workload-sends-workload-state~1]
        """
        if self._sink is not None and state != self._told:
            self._told = state
            self._sink(state)

    async def _pause(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hint.wait()
        except TimeoutError:
            _log.debug("%s: no hint within %s s, looking", self._task.get_name(), seconds)


class StateCheckers:
    """The checkers of one connector. Owns them, so none outlives the connector."""

    def __init__(self) -> None:
        self._checkers: set[GenericPollingStateChecker] = set()

    def start(self, name: InstanceName, getter: RuntimeStateGetter, sink: StateSink) -> GenericPollingStateChecker:
        checker = GenericPollingStateChecker(str(name), getter, sink, self._checkers.discard)
        self._checkers.add(checker)
        return checker

    def close(self) -> None:
        for checker in list(self._checkers):
            checker.stop()
