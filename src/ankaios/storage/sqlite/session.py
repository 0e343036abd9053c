"""The blocking part of the SQLite store: opens the database, commits, and finds out what a failed commit has done.

Input: the path of the database, sets of writes. Output: the stored state, durable commits, or errors as
`state_store.py` defines them. Owns the lock, the open database and the file with the last confirmed commit. Used by one
thread.
"""

import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from ankaios.storage.core.content_summary import ContentSummary
from ankaios.storage.core.encoding import WriteSet, decode_revision, decode_value
from ankaios.storage.sqlite.content_reader import is_damage
from ankaios.storage.sqlite.database import SqliteDatabase
from ankaios.storage.sqlite.opening import open_files
from ankaios.storage.sqlite.store_files import StoreFiles, WriterLock, prepare_directory, write_head
from ankaios.storage.state_store import UNKNOWN_TEXT, CommitUnknown, StorageFailed, Stored

_NOTHING_WRITTEN = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY})

_log = logging.getLogger(__name__)


class SqliteSession:
    def __init__(self, path: Path) -> None:
        self.files = StoreFiles(path)
        self._lock = WriterLock(self.files.lock)
        self._database: SqliteDatabase | None = None
        self._last_attempt: int | None = None  # the sequence number of the last commit that was begun

    @property
    def summary(self) -> ContentSummary | None:
        return None if self._database is None else self._database.summary

    @property
    def is_last_commit_stored(self) -> bool:
        """Valid after `load`."""
        summary = self.summary
        return summary is not None and self._last_attempt is not None and summary.sequence >= self._last_attempt

    def load(self, now: float) -> Stored:
        """Open the database, or open it again after a commit with unknown result."""
        self._close_database()
        prepare_directory(self.files.database)
        self._lock.acquire()
        with self._translated_errors("open"):
            content, report = open_files(self.files, now)
            self._database = SqliteDatabase(self.files.database)
        self._confirm()
        return Stored(
            entries={key: decode_value(value) for key, value in content.entries.items()},
            revisions=tuple(decode_revision(content.revisions[number]) for number in sorted(content.revisions)),
            records={name: decode_value(value) for name, value in content.records.items()},
            last_revision=self._database.summary.last_revision,
            report=report,
        )

    def commit(self, writes: WriteSet) -> None:
        self._last_attempt = None
        database = self._opened()
        self._last_attempt = database.summary.sequence + 1
        try:
            database.commit(writes)
        except sqlite3.Error as error:
            self._find_out_result(error)
        self._confirm()

    @contextmanager
    def _translated_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StorageFailed(f"cannot {action} '{self.files.database}': {error}") from error

    def _opened(self) -> SqliteDatabase:
        if self._database is None:
            raise StorageFailed(f"cannot write to '{self.files.database}': it has to be loaded first")
        return self._database

    def _find_out_result(self, error: sqlite3.Error) -> None:
        """Find out whether a failed commit is stored: return if it is, else raise."""
        text = f"cannot write to '{self.files.database}': {error}"
        if _primary_code(error) in _NOTHING_WRITTEN:
            raise StorageFailed(text) from error
        self._close_database()
        if is_damage(error):
            self._fail_unknown(text, error)
        try:
            self._database = SqliteDatabase(self.files.database)
            if self.is_last_commit_stored:
                self._database.checkpoint()
                return
            self._database.probe()
        except sqlite3.Error as second:
            self._fail_unknown(f"{text}; then: {second}", error)
        raise StorageFailed(text) from error

    def _fail_unknown(self, text: str, cause: sqlite3.Error) -> NoReturn:
        self._close_database()
        raise CommitUnknown(f"{text}; {UNKNOWN_TEXT}") from cause

    def _confirm(self) -> None:
        """Write down the last commit outside of the database. If that fails, the commit is still valid."""
        try:
            write_head(self.files.head, self._opened().summary.commit)
        except StorageFailed as failure:
            _log.warning("%s", failure)

    def save_records(self, records: Mapping[str, bytes | None]) -> None:
        with self._translated_errors("write records to"):
            self._opened().save_records(records)

    def probe(self) -> None:
        with self._translated_errors("write to"):
            self._opened().probe()

    def size(self) -> int:
        return sum(path.stat().st_size for path in (self.files.database, self.files.wal) if path.exists())

    def close(self) -> None:
        self._close_database()
        self._lock.release()

    def _close_database(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _primary_code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF
