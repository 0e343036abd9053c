"""A store in memory that waits and fails as the test requires."""

import asyncio
from collections.abc import Callable, Sequence

from ankaios.storage.state_store import CommitUnknown, RecoveryReport, StateChange, StorageFailed, Stored
from tests.support.memory_store import MemoryStore


class FailingStore(MemoryStore):
    """Commits wait until `go` is set. `failures` are raised by the next commits, `failed_checks` by the next checks.

    A failed or cancelled commit is stored if `stores_failed` is set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.go.set()
        self.batches: list[list[StateChange]] = []
        self.failures: list[StorageFailed] = []
        self.failed_checks: list[StorageFailed] = []
        self.failed_loads: list[StorageFailed] = []
        self.stores_failed = False
        self.report: RecoveryReport | None = None
        self._unknown: bool | None = None

    async def commit(self, changes: Sequence[StateChange]) -> None:
        self.batches.append(list(changes))
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            await self._fail(changes)
            self._unknown = self.stores_failed
            raise
        if not self.failures:
            await super().commit(changes)
            return
        failure = self.failures.pop(0)
        await self._fail(changes)
        self._unknown = self.stores_failed if isinstance(failure, CommitUnknown) else None
        raise failure

    async def _fail(self, changes: Sequence[StateChange]) -> None:
        if self.stores_failed:
            await super().commit(changes)

    async def load(self) -> Stored:
        if self.failed_loads:
            raise self.failed_loads.pop(0)
        stored = await super().load()
        report, self.report = self.report, None
        unknown, self._unknown = self._unknown, None
        return Stored(stored.entries, stored.revisions, stored.records, stored.last_revision, report, unknown)

    async def check(self) -> None:
        if self.failed_checks:
            raise self.failed_checks.pop(0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that causes no event."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
