"""Opens the files of a SQLite store: creates, verifies, and repairs the database.

Input: the files of a store. Output: verified content, and a report if the database was damaged. Blocking; the caller
has the lock.

A damaged database is never changed: the best content (`core/recovery.py`) is written to a new file, the damaged files
are renamed, and the new file takes their place. A crash in between is completed at the next start. The new file also
contains what was lost, so that this is not forgotten if the server ends before it handles the report.
"""

import logging
import os
from pathlib import Path

from msgspec.structs import replace

from ankaios.common.file_replacement import sync_folder
from ankaios.storage.core.content_summary import ConfirmedCommit, ContentSummary
from ankaios.storage.core.encoding import decode_value, encode_value
from ankaios.storage.core.recovery import DatabaseContent, problem_of, restore_content
from ankaios.storage.core.unconfirmed_loss import LOSS_KEY, loss_after
from ankaios.storage.sqlite.backup import copied_summary, new_store_id
from ankaios.storage.sqlite.content_reader import read_content
from ankaios.storage.sqlite.database import create_database
from ankaios.storage.sqlite.schema import APPLICATION_ID, VERSION
from ankaios.storage.sqlite.store_files import (
    StoreFiles,
    read_head,
    restrict_mode,
    translated_os_errors,
)
from ankaios.storage.state_store import RecoveryReport, StorageFailed

_HEADER_SIZE, _WRITE_VERSION_OFFSET, _APPLICATION_ID_OFFSET = 100, 18, 68  # of a SQLite file
_LATEST_WRITE_VERSION = b"\2"  # with a WAL

_log = logging.getLogger(__name__)


def open_files(files: StoreFiles, now: float) -> tuple[DatabaseContent, RecoveryReport | None]:
    """Afterwards there is an intact database with this content. Raises `StorageFailed` or `sqlite3.Error`."""
    return _Opening(files, now).run()


class _Opening:
    def __init__(self, files: StoreFiles, now: float) -> None:
        self.files = files
        self._now = now
        self._head = read_head(files.head)

    def run(self) -> tuple[DatabaseContent, RecoveryReport | None]:
        finished = self._finish_replacement()
        content, report = self._content()
        return content, report or finished

    def _content(self) -> tuple[DatabaseContent, RecoveryReport | None]:
        """Return verified content; afterwards there is a database with this content."""
        head = self._head
        if not self.files.has_content():
            return self._create(head)
        self._reject_other_files(head)
        self._protect_wal()
        content = read_content(self.files.database)
        if content.summary is not None:
            self._reject_newer_version(content.summary)
            head = head if head is not None and head.store == content.summary.store else None
        problem = problem_of(content, head) or self._header_problem()
        if problem is None:
            return content, None
        return self._recover(content, head, problem)

    def _header_problem(self) -> str | None:
        """SQLite reads a database with a higher write version in its header, but never writes to it."""
        with translated_os_errors("read", self.files.database), self.files.database.open("rb") as file:
            header = file.read(_HEADER_SIZE)
        if header[_WRITE_VERSION_OFFSET : _WRITE_VERSION_OFFSET + 1] > _LATEST_WRITE_VERSION:
            return f"the header of '{self.files.database}' is damaged"
        return None

    def _create(self, head: ConfirmedCommit | None) -> tuple[DatabaseContent, RecoveryReport | None]:
        """A database that was removed on purpose starts empty; the numbers of commits continue."""
        content, report, last = DatabaseContent(), None, ConfirmedCommit(new_store_id(), 0, 0)
        head = head or self._head_of_copy()
        if head is not None and head.sequence > 0:
            lost = (f"the state of commit {head.sequence}, revision {head.revision}",)
            problem = f"the database '{self.files.database}' is missing{self._keep_copy()}"
            report = RecoveryReport(problem, lost)
            _log.warning("Creating '%s': %s", self.files.database, report)
            content, last = _with_loss(content, report), replace(head, store=last.store)
        self._write_replacement(content, last)
        self._activate_replacement()
        return read_content(self.files.database), report

    def _head_of_copy(self) -> ConfirmedCommit | None:
        """The copy proves that there was a state, even if all other files are missing."""
        summary = copied_summary(self.files.copy)
        return None if summary is None else summary.commit

    def _keep_copy(self) -> str:
        """Rename the copy, which is replaced when the new database is copied. Returns where it is, for a report."""
        if not self.files.copy.exists():
            return ""
        kept_as = self.files.kept_copy(self._now)
        with translated_os_errors("rename", self.files.copy):
            self.files.copy.rename(kept_as)
        return f"; a copy is in '{kept_as}'"

    def _reject_other_files(self, head: ConfirmedCommit | None) -> None:
        """Only a file that was a store of this program is repaired, and so renamed."""
        if head is not None or not self.files.database.exists():
            return
        with translated_os_errors("read", self.files.database), self.files.database.open("rb") as file:
            header = file.read(_APPLICATION_ID_OFFSET + 4)
        if header[_APPLICATION_ID_OFFSET:] != APPLICATION_ID.to_bytes(4, "big"):
            raise StorageFailed(
                f"cannot use '{self.files.database}': it is not a database of ank-server; choose another path"
            )

    def _protect_wal(self) -> None:
        """SQLite deletes the WAL of a database without header, even if the WAL has the whole content: add zeros."""
        restrict_mode(self.files.database)
        with translated_os_errors("repair", self.files.database):
            if self.files.database.stat().st_size < _HEADER_SIZE:
                os.truncate(self.files.database, _HEADER_SIZE)

    def _reject_newer_version(self, summary: ContentSummary) -> None:
        if summary.version > VERSION:
            raise StorageFailed(
                f"cannot use '{self.files.database}': it has version {summary.version} of the format, "
                f"and this program supports versions up to {VERSION}; install a newer ank-server"
            )

    def _recover(
        self, damaged: DatabaseContent, head: ConfirmedCommit | None, problem: str
    ) -> tuple[DatabaseContent, RecoveryReport]:
        """Replace the database by the best content that exists."""
        restored = restore_content(damaged, self._copy(damaged, head), head)
        report = RecoveryReport(problem, restored.lost, str(self.files.damaged(self._now)))
        content = _with_loss(restored.content, report)
        last = ConfirmedCommit(_identity(damaged, head), restored.sequence, restored.last_revision)
        self._write_replacement(content, last)
        _log.warning("Repairing '%s': %s", self.files.database, report)
        self._keep_damaged()
        self._activate_replacement()
        return read_content(self.files.database), report

    def _copy(self, damaged: DatabaseContent, head: ConfirmedCommit | None) -> DatabaseContent | None:
        """Return the copy if it is intact and was made from this database."""
        if not self.files.copy.exists():
            return None
        copy = read_content(self.files.copy, immutable=True)
        same_store = copy.summary is not None and copy.summary.store == _identity(damaged, head, copy.summary.store)
        return copy if same_store and problem_of(copy, None) is None else None

    def _write_replacement(self, content: DatabaseContent, last: ConfirmedCommit) -> None:
        with translated_os_errors("remove", self.files.replacement):
            self.files.replacement.unlink(missing_ok=True)
        create_database(self.files.replacement, content, last)

    def _keep_damaged(self) -> Path:
        kept_as = self.files.damaged(self._now)
        with translated_os_errors("rename", self.files.database):
            for path, suffix in ((self.files.database, ""), (self.files.wal, "-wal")):
                if path.exists():
                    path.rename(kept_as.with_name(kept_as.name + suffix))
        return kept_as

    def _activate_replacement(self) -> None:
        with translated_os_errors("rename", self.files.replacement):
            self.files.wal.unlink(missing_ok=True)
            self.files.shared_memory.unlink(missing_ok=True)
            self.files.replacement.replace(self.files.database)
            sync_folder(self.files.database.parent)

    def _finish_replacement(self) -> RecoveryReport | None:
        """Complete a repair that was interrupted after the new database had been written."""
        if not self.files.replacement.exists() or self._head is None:
            return None
        if problem_of(read_content(self.files.replacement), None) is not None:
            return None
        kept_as = self._keep_damaged() if self.files.has_content() else None
        self._activate_replacement()
        lost = ("the log of the previous start states what was lost",)
        return RecoveryReport(
            "a repair was interrupted and is complete now", lost, None if kept_as is None else str(kept_as)
        )


def _with_loss(content: DatabaseContent, report: RecoveryReport) -> DatabaseContent:
    if not report.lost:
        return content
    before = content.entries.get(LOSS_KEY)
    after = encode_value(loss_after(None if before is None else decode_value(before), [str(report)]))
    return content if after is None else replace(content, entries={**content.entries, LOSS_KEY: after})


def _identity(damaged: DatabaseContent, head: ConfirmedCommit | None, otherwise: str | None = None) -> str:
    if damaged.summary is not None:
        return damaged.summary.store
    return head.store if head is not None else otherwise or new_store_id()
