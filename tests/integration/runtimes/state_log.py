"""A sink for states that a test can wait on."""

import asyncio

from ankaios.common.execution_state import ExecutionState

LIMIT = 60.0


class StateLog:
    def __init__(self) -> None:
        self.states: list[ExecutionState] = []
        self._came = asyncio.Event()

    def __call__(self, state: ExecutionState) -> None:
        self.states.append(state)
        self._came.set()

    async def until(self, *wanted: ExecutionState) -> ExecutionState:
        """Wait for one of these states, from now on or before."""
        async with asyncio.timeout(LIMIT):
            while not (found := [state for state in self.states if state in wanted]):
                self._came.clear()
                await self._came.wait()
        return found[0]

    async def first(self) -> ExecutionState:
        async with asyncio.timeout(LIMIT):
            await self._came.wait()
        return self.states[0]
