"""The store in a SQLite database, for one server with a disk.

Input: changes. Output: durable state; nothing blocks the event loop. Owns one thread, in which everything happens that
may wait for the disk, and a copy of the database, from which damage is repaired.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from ankaios.common.supervision import run_once
from ankaios.storage.core.encoding import encode_value, write_set
from ankaios.storage.sqlite.backup import copied_summary, copy_database
from ankaios.storage.sqlite.session import SqliteSession
from ankaios.storage.state_store import (
    UNKNOWN_TEXT,
    CommitUnknown,
    JsonValue,
    StateChange,
    StorageFailed,
    Stored,
    StoreStatus,
)

_LOAD_LIMIT, _COMMIT_LIMIT = 120.0, 30.0  # seconds; a disk that needs longer is broken
_REVISIONS_PER_COPY = 50
_SECONDS_PER_COPY = 60.0
_COPYING = "the copy of the state database"

T = TypeVar("T")
_log = logging.getLogger(__name__)


class SqliteStore:
    """A `StateStore`; see there for the meaning of its errors."""

    record_interval = 1.0

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since 1970, for the name of a damaged database."""
        self._session = SqliteSession(path.resolve())
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite store")
        self._is_closed = False
        self._copy_task: asyncio.Task[None] | None = None
        self._copied_revision, self._copied_at = 0, float("-inf")
        # The result of the last commit is not known, at least not yet.
        self._is_unknown = False
        self._size = 0
        self._problem: str | None = None

    async def load(self) -> Stored:
        await self.finish_copy()
        stored = await self._run(lambda: self._session.load(self._clock()), _LOAD_LIMIT)
        is_last_stored = self._session.is_last_commit_stored if self._is_unknown else None
        self._is_unknown = False
        self._copied_revision = stored.last_revision
        self._start_copy()
        return replace(stored, unknown_commit_stored=is_last_stored)

    async def commit(self, changes: Sequence[StateChange]) -> None:
        if self._is_unknown:
            raise StorageFailed(f"cannot write to '{self._session.files.database}': it has to be loaded first")
        writes = write_set(changes)  # now, because the caller's data may change while the thread works
        self._is_unknown = True  # also if this task is cancelled
        try:
            await self._run(lambda: self._session.commit(writes), _COMMIT_LIMIT, is_commit=True)
        except StorageFailed as failure:
            self._is_unknown = isinstance(failure, CommitUnknown)
            raise
        self._is_unknown = False
        self._copy_if_due()

    async def save_records(self, records: Mapping[str, JsonValue]) -> None:
        encoded = {name: encode_value(value) for name, value in records.items()}
        await self._run(lambda: self._session.save_records(encoded), _COMMIT_LIMIT)

    def status(self) -> StoreStatus:
        summary = self._session.summary
        revision = 0 if summary is None else summary.last_revision
        location = f"sqlite:{self._session.files.database}"
        return StoreStatus("sqlite", location, revision, self._size, self._problem)

    async def check(self) -> None:
        await self._run(self._session.probe, _COMMIT_LIMIT)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        await self.finish_copy()
        await self._run(self._session.close, _COMMIT_LIMIT)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], T], limit: float, *, is_commit: bool = False) -> T:
        """Run work in the thread, and wait for it up to the limit. The work continues after the limit."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, self._with_size, work)
        future.add_done_callback(asyncio.Future.exception)  # else asyncio reports it as not retrieved
        try:
            done, _ = await asyncio.wait((future,), timeout=limit)
            if not done:
                raise self._no_response(limit, is_commit)
            result, self._size = future.result()
        except StorageFailed as failure:
            self._problem = str(failure)
            raise
        self._problem = None
        return result

    def _with_size(self, work: Callable[[], T]) -> tuple[T, int]:
        return work(), self._session.size()

    def _no_response(self, limit: float, is_commit: bool) -> StorageFailed:
        text = f"the disk of '{self._session.files.database}' did not respond for {limit:g} s"
        return CommitUnknown(f"{text}; {UNKNOWN_TEXT}") if is_commit else StorageFailed(text)

    def _copy_if_due(self) -> None:
        summary = self._session.summary
        revision = 0 if summary is None else summary.last_revision
        is_due = revision - self._copied_revision >= _REVISIONS_PER_COPY
        if is_due and time.monotonic() - self._copied_at >= _SECONDS_PER_COPY:
            self._start_copy()

    def _start_copy(self) -> None:
        if self._copy_task is None or self._copy_task.done():
            self._copied_at = time.monotonic()
            self._copy_task = asyncio.create_task(run_once(_COPYING, self._copy), name=_COPYING)

    async def _copy(self) -> None:
        """A failure does not affect the server: the previous copy still exists."""
        try:
            self._copied_revision = await asyncio.to_thread(self._copy_now)
        except StorageFailed as failure:
            _log.warning("%s", failure)

    def _copy_now(self) -> int:
        files, current = self._session.files, self._session.summary
        existing = copied_summary(files.copy)
        if existing is None or existing != current:
            existing = copy_database(files.database, files.copy)
        return existing.last_revision

    async def finish_copy(self) -> None:
        if self._copy_task is not None:
            await asyncio.wait((self._copy_task,), timeout=_COMMIT_LIMIT)
