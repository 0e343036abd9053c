"""Removes the history that etcd keeps of every key, which would fill its disk.

Input: the revision of etcd after each write. Output: a compaction from time to time, always up to a revision that is
one interval old, so that other clients that watch etcd are not affected. Owns the task of the current compaction.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from ankaios.common.supervision import run_once
from ankaios.storage.etcd.etcd_client import EtcdClient
from ankaios.storage.state_store import StorageFailed

INTERVAL = 600.0  # seconds
_LIMIT = 30.0
_NAME = "the compaction of etcd"

_log = logging.getLogger(__name__)


class HistoryCompactor:
    def __init__(self, client: EtcdClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._marked: tuple[float, int] | None = None
        self._task: asyncio.Task[None] | None = None

    def note_write(self, revision: int) -> None:
        """Compact up to the revision that was noted one interval ago, and note this one."""
        now, marked = self._clock(), self._marked
        if marked is None:
            self._marked = (now, revision)
        elif now - marked[0] >= INTERVAL and (self._task is None or self._task.done()):
            self._marked = (now, revision)
            work = run_once(_NAME, lambda: self._compact(marked[1]))
            self._task = asyncio.create_task(work, name=_NAME)

    async def _compact(self, revision: int) -> None:
        try:
            await self._client.compact(revision, _LIMIT)
        except StorageFailed as failure:
            _log.warning("The history of etcd is not compacted: %s", failure)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
