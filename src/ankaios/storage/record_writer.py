"""Writes the records of workloads in the background, several at a time.

Input: the current records of a workload, whenever they change. Output: calls of `StateStore.save_records`, at most one
for each interval of the store. Owns the records that are not written yet: one value for each workload, so the memory
does not grow while the store is unavailable.
"""

import asyncio
import logging

from ankaios.storage.state_store import JsonValue, StateStore, StorageFailed

_RETRY_SECONDS = 5.0

_log = logging.getLogger(__name__)


class RecordWriter:
    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._waiting: dict[str, JsonValue] = {}
        self._changed = asyncio.Event()
        self._is_failing = False

    def put(self, name: str, value: JsonValue) -> None:
        """Replace the records of a workload; None removes them. The caller does not change the value afterwards."""
        self._waiting[name] = value
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled. The owner calls `flush` afterwards if the last records matter."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(self._store.record_interval)
            if not await self._try_flush():
                await asyncio.sleep(_RETRY_SECONDS)

    async def _try_flush(self) -> bool:
        try:
            await self.flush()
        except StorageFailed as failure:
            if not self._is_failing:
                _log.warning("Records of workloads are not stored: %s", failure)
            self._is_failing = True
            return False
        self._is_failing = False
        return True

    async def flush(self) -> None:
        """Write what is waiting; raises `StorageFailed`, and what was not written waits again."""
        writing, self._waiting = self._waiting, {}
        self._changed.clear()
        if not writing:
            return
        try:
            await self._store.save_records(writing)
        except BaseException:
            self._waiting = {**writing, **self._waiting}
            self._changed.set()
            raise
