"""One open SQLite database: transactions of entries, revisions and records.

Input: sets of writes. Output: durable rows, or `sqlite3.Error`. Owns the connection and the current summary. Blocking,
and used by one thread.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from ankaios.storage.core.content_summary import ConfirmedCommit, ContentSummary, SetDigest
from ankaios.storage.core.encoding import WriteSet
from ankaios.storage.core.recovery import DatabaseContent, content_digests
from ankaios.storage.sqlite.rows import rows_of_records, rows_of_state
from ankaios.storage.sqlite.schema import APPLICATION_ID, VERSION, migrate, read_summary, write_summary
from ankaios.storage.sqlite.store_files import restrict_mode

_BUSY_SECONDS = 5.0
_MAX_WAL_BYTES = 16 * 1024 * 1024  # what is kept after a large commit


class SqliteDatabase:
    def __init__(self, path: Path) -> None:
        """Open a database, and migrate it if it is old."""
        self._connection = _connect(path)
        try:
            self.summary = read_summary(self._connection)
            self._configure()
            if self.summary.version < VERSION:
                self._migrate()
        except BaseException:
            self.close()
            raise

    def _configure(self) -> None:
        """`FULL`: a commit returns when it is on the disk."""
        for setting in ("journal_mode = WAL", "synchronous = FULL", f"journal_size_limit = {_MAX_WAL_BYTES}"):
            self._connection.execute(f"PRAGMA {setting}").fetchall()
        self._connection.execute("PRAGMA trusted_schema = OFF")

    def _migrate(self) -> None:
        with self._transaction():
            migrate(self._connection, self.summary.version)
            migrated = replace(self.summary, version=VERSION)
            write_summary(self._connection, migrated)
        self.summary = migrated

    def commit(self, writes: WriteSet) -> None:
        """One transaction, one fsync."""
        with self._transaction():
            sets = dict(self.summary.sets)
            for row, value in rows_of_state(writes.entries, writes.revisions):
                old = row.stored_checksum(self._connection)
                new = row.write(self._connection, value)
                sets[row.set_name] = sets.get(row.set_name, SetDigest()).replaced(old, new)
            last = max(self.summary.last_revision, writes.last_revision)
            after = replace(self.summary, sequence=self.summary.sequence + 1, last_revision=last, sets=sets)
            write_summary(self._connection, after)
        self.summary = after

    def save_records(self, records: Mapping[str, bytes | None]) -> None:
        """Without fsync: records may be lost in a power failure, the state may not."""
        self._connection.execute("PRAGMA synchronous = NORMAL")
        try:
            with self._transaction():
                for row, value in rows_of_records(records):
                    row.write(self._connection, value)
        finally:
            self._connection.execute("PRAGMA synchronous = FULL")

    def probe(self) -> None:
        """Write the summary again. It also overwrites what a failed commit may have left in the WAL."""
        with self._transaction():
            write_summary(self._connection, self.summary)

    def checkpoint(self) -> None:
        """Write everything into the database file."""
        busy, *_ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("the checkpoint was not completed")

    def close(self) -> None:
        with suppress(sqlite3.Error):  # the checkpoint failed; the WAL stays and is used at the next start
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            raise


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False)


def create_database(path: Path, content: DatabaseContent, last: ConfirmedCommit) -> None:
    """Create a complete database with one transaction; an incomplete one has no summary. Numbers continue at `last`."""
    restrict_mode(path)
    summary = ContentSummary(last.store, VERSION, last.sequence, last.revision, content_digests(content))
    connection = _connect(path)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(connection, 0)
        for row, value in (*rows_of_state(content.entries, content.revisions), *rows_of_records(content.records)):
            row.write(connection, value)
        write_summary(connection, summary)
        connection.execute("COMMIT")
    finally:
        connection.close()
