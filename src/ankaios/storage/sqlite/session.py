"""The blocking part of the SQLite store: opens, verifies, repairs, and commits.

Input: the path of the database. Output: its content, and a report if it was damaged. Owns the lock, the open database
and the file with the last confirmed commit. Used by one thread.

A damaged database is never changed: the best content (`core/recovery.py`) is written to a new file, the damaged files
are renamed, and the new file takes their place. A crash in between is completed at the next start.
"""

import logging
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from ankaios.storage.core.content_summary import Summary
from ankaios.storage.core.encoding import WriteSet
from ankaios.storage.core.recovery import Content, Head, problem_of, restore
from ankaios.storage.sqlite.backup import new_store_id
from ankaios.storage.sqlite.content_reader import is_damage, read_content
from ankaios.storage.sqlite.database import Database, create_database
from ankaios.storage.sqlite.schema import APPLICATION_ID, VERSION
from ankaios.storage.sqlite.store_files import (
    StoreFiles,
    WriterLock,
    os_errors,
    prepare_directory,
    read_head,
    restrict_mode,
    sync_directory,
    write_head,
)
from ankaios.storage.state_store import CommitUnknown, RecoveryReport, StorageFailed

_HEADER_SIZE, _APPLICATION_ID_OFFSET = 100, 68  # of a SQLite file
_NOTHING_WRITTEN = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY})

_log = logging.getLogger(__name__)


class Opened(Struct, frozen=True):
    content: Content
    last_revision: int
    report: RecoveryReport | None
    unknown_commit_stored: bool | None


class SqliteSession:
    def __init__(self, path: Path) -> None:
        self.files = StoreFiles(path)
        self._lock = WriterLock(self.files.lock)
        self._database: Database | None = None
        self._unknown_sequence: int | None = None

    @property
    def summary(self) -> Summary | None:
        return None if self._database is None else self._database.summary

    def load(self, now: float) -> Opened:
        """Open the database, or open it again after a commit with unknown result."""
        self._close_database()
        prepare_directory(self.files.database)
        self._lock.acquire()
        try:
            finished = self._finish_replacement(now)
            content, report = self._content(now)
            self._database = Database(self.files.database)
        except sqlite3.Error as error:
            raise StorageFailed(f"cannot open '{self.files.database}': {error}") from error
        summary = self._database.summary
        unknown, self._unknown_sequence = self._unknown_sequence, None
        self._confirm()
        stored = None if unknown is None else summary.sequence >= unknown
        return Opened(content, summary.last_revision, report or finished, stored)

    def _content(self, now: float) -> tuple[Content, RecoveryReport | None]:
        """Return verified content; afterwards there is a database with this content."""
        head = read_head(self.files.head)
        if not self.files.has_content():
            return self._create(head)
        self._reject_other_files(head)
        self._protect_wal()
        content = read_content(self.files.database)
        if content.summary is not None:
            self._reject_newer_version(content.summary)
            head = head if head is not None and head.store == content.summary.store else None
        problem = problem_of(content, head)
        if problem is None:
            return content, None
        return self._recover(content, head, problem, now)

    def _create(self, head: Head | None) -> tuple[Content, RecoveryReport | None]:
        """A database that was removed on purpose starts empty; the numbers of commits continue."""
        report, sequence, revision = None, 0, 0
        if head is not None:
            lost = (f"the state of commit {head.sequence}, revision {head.revision}",)
            copy = f"; a copy is in '{self.files.copy}'" if self.files.copy.exists() else ""
            report = RecoveryReport(f"the database '{self.files.database}' is missing{copy}", lost)
            sequence, revision = head.sequence, head.revision
        self._write_replacement(Content(), new_store_id(), sequence, revision)
        self._activate_replacement()
        return read_content(self.files.database), report

    def _reject_other_files(self, head: Head | None) -> None:
        """Only a file that was a store of this program is repaired, and so renamed."""
        if head is not None or not self.files.database.exists():
            return
        with os_errors("read", self.files.database), self.files.database.open("rb") as file:
            header = file.read(_APPLICATION_ID_OFFSET + 4)
        if header[_APPLICATION_ID_OFFSET:] != APPLICATION_ID.to_bytes(4, "big"):
            raise StorageFailed(
                f"cannot use '{self.files.database}': it is not a database of ank-server; choose another path"
            )

    def _protect_wal(self) -> None:
        """SQLite deletes the WAL of a database without header, even if the WAL has the whole content: add zeros."""
        restrict_mode(self.files.database)
        with os_errors("repair", self.files.database):
            if self.files.database.stat().st_size < _HEADER_SIZE:
                os.truncate(self.files.database, _HEADER_SIZE)

    def _reject_newer_version(self, summary: Summary) -> None:
        if summary.version > VERSION:
            raise StorageFailed(
                f"cannot use '{self.files.database}': it has version {summary.version} of the format, "
                f"and this program supports versions up to {VERSION}; install a newer ank-server"
            )

    def _recover(self, damaged: Content, head: Head | None, problem: str, now: float) -> tuple[Content, RecoveryReport]:
        """Replace the database by the best content that exists."""
        restored = restore(damaged, self._copy(damaged, head), head)
        self._write_replacement(restored.content, _identity(damaged, head), restored.sequence, restored.last_revision)
        report = RecoveryReport(problem, restored.lost, str(self.files.damaged(now)))
        _log.warning("Repairing '%s': %s", self.files.database, report)
        self._keep_damaged(now)
        self._activate_replacement()
        return read_content(self.files.database), report

    def _copy(self, damaged: Content, head: Head | None) -> Content | None:
        """Return the copy if it is intact and was made from this database."""
        if not self.files.copy.exists():
            return None
        copy = read_content(self.files.copy, immutable=True)
        same_store = copy.summary is not None and copy.summary.store == _identity(damaged, head, copy.summary.store)
        return copy if same_store and problem_of(copy, None) is None else None

    def _write_replacement(self, content: Content, store: str, sequence: int, last_revision: int) -> None:
        with os_errors("remove", self.files.replacement):
            self.files.replacement.unlink(missing_ok=True)
        create_database(self.files.replacement, content, store, sequence, last_revision)

    def _keep_damaged(self, now: float) -> Path:
        kept_as = self.files.damaged(now)
        with os_errors("rename", self.files.database):
            for path, suffix in ((self.files.database, ""), (self.files.wal, "-wal")):
                if path.exists():
                    path.rename(kept_as.with_name(kept_as.name + suffix))
        return kept_as

    def _activate_replacement(self) -> None:
        with os_errors("rename", self.files.replacement):
            self.files.wal.unlink(missing_ok=True)
            self.files.shared_memory.unlink(missing_ok=True)
            self.files.replacement.replace(self.files.database)
            sync_directory(self.files.database.parent)

    def _finish_replacement(self, now: float) -> RecoveryReport | None:
        """Complete a repair that was interrupted after the new database had been written."""
        if not self.files.replacement.exists() or read_head(self.files.head) is None:
            return None
        if problem_of(read_content(self.files.replacement), None) is not None:
            return None
        kept_as = self._keep_damaged(now) if self.files.has_content() else None
        self._activate_replacement()
        lost = ("the log of the previous start states what was lost",)
        return RecoveryReport(
            "a repair was interrupted and is complete now", lost, None if kept_as is None else str(kept_as)
        )

    def commit(self, writes: WriteSet) -> None:
        database = self._opened()
        expected = database.summary.sequence + 1
        try:
            database.commit(writes)
        except sqlite3.Error as error:
            self._settle(expected, error)
        self._confirm()

    def _opened(self) -> Database:
        if self._database is None:
            raise StorageFailed(f"cannot write to '{self.files.database}': it has to be loaded first")
        return self._database

    def _settle(self, expected: int, error: sqlite3.Error) -> None:
        """Find out whether a failed commit is stored: return if it is, else raise."""
        text = f"cannot write to '{self.files.database}': {error}"
        if _primary_code(error) in _NOTHING_WRITTEN:
            raise StorageFailed(text) from error
        self._close_database()
        if is_damage(error):
            self._fail_unknown(expected, text, error)
        try:
            self._database = Database(self.files.database)
            if self._database.summary.sequence == expected:
                self._database.checkpoint()
                return
            self._database.probe()
        except sqlite3.Error as second:
            self._fail_unknown(expected, f"{text}; then: {second}", error)
        raise StorageFailed(text) from error

    def _fail_unknown(self, expected: int, text: str, cause: sqlite3.Error) -> NoReturn:
        self._close_database()
        self._unknown_sequence = expected
        raise CommitUnknown(f"{text}; it is not known whether the change is stored") from cause

    def _confirm(self) -> None:
        """Write down the last commit outside of the database. If that fails, the commit is still valid."""
        summary = self._opened().summary
        try:
            write_head(self.files.head, Head(summary.store, summary.sequence, summary.last_revision))
        except StorageFailed as failure:
            _log.warning("%s", failure)

    def save_records(self, records: Mapping[str, bytes | None]) -> None:
        try:
            self._opened().save_records(records)
        except sqlite3.Error as error:
            raise StorageFailed(f"cannot write records to '{self.files.database}': {error}") from error

    def probe(self) -> None:
        try:
            self._opened().probe()
        except sqlite3.Error as error:
            raise StorageFailed(f"cannot write to '{self.files.database}': {error}") from error

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


def _identity(damaged: Content, head: Head | None, otherwise: str | None = None) -> str:
    if damaged.summary is not None:
        return damaged.summary.store
    return head.store if head is not None else otherwise or new_store_id()
