"""Reads everything that can be read from a database, damaged or not, without changing a byte of it.

Input: the path of a database. Output: its verified rows (`DatabaseContent`) and every problem that was found. Rows
behind a damaged page are read from the other end of the table.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from ankaios.storage.core.content_summary import RECORDS, REVISIONS, ContentSummary, entry_set, row_checksum
from ankaios.storage.core.recovery import DatabaseContent
from ankaios.storage.sqlite.schema import SUMMARY, VERSION, intact_schema, read_schema
from ankaios.storage.state_store import EntryKey, StorageFailed

_MAX_PROBLEMS, _MAX_PROBLEM_SIZE = 5, 200
# These state that the database cannot be used now, not that its content is damaged.
_NOT_DAMAGE = frozenset(
    {
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
_UNREADABLE = frozenset({sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS})

# The text of an error of SQLite can contain a damaged name, which Python cannot decode.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)

Row = tuple[Any, ...]


def is_damage(error: Exception) -> bool:
    """Whether the content is damaged; other errors may go away."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    primary = code & 0xFF
    return code in _UNREADABLE if primary == sqlite3.SQLITE_IOERR else primary not in _NOT_DAMAGE


def read_content(path: Path, *, immutable: bool = False) -> DatabaseContent:
    """Raises `StorageFailed` if the database cannot be opened now."""
    try:
        with closing(_connect(path, immutable)) as connection:
            return _ContentReader(connection).read()
    except _FAULTS as error:
        if not is_damage(error):
            raise StorageFailed(f"cannot read the state in '{path}': {error}") from error
        return DatabaseContent(problems=(str(error),))


def _connect(path: Path, immutable: bool) -> sqlite3.Connection:
    options = "mode=ro&immutable=1" if immutable else "mode=ro"
    connection = sqlite3.connect(f"{path.as_uri()}?{options}", uri=True, isolation_level=None)
    connection.text_factory = bytes  # a damaged text may be no valid UTF-8
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


class _ContentReader:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._problems: list[str] = []

    def read(self) -> DatabaseContent:
        self._allow_truncated_files()
        summary = self._summary()
        entries = {
            EntryKey(_text(kind), _text(name)): value
            for kind, name, value, checksum in self._rows("entry", "kind, name, value, checksum")
            if self._is_valid(entry_set(_text(kind)), _text(name), value, checksum)
        }
        revisions = {
            number: value
            for number, value, checksum in self._rows("revision", "number, value, checksum")
            if self._is_valid(REVISIONS, str(number), value, checksum)
        }
        records = self._records() if summary is None or summary.version > 1 else {}
        if summary is not None and summary.version <= VERSION:
            self._check_schema(summary.version)
        self._check_integrity()
        return DatabaseContent(summary, entries, revisions, records, tuple(self._problems[:_MAX_PROBLEMS]))

    def _allow_truncated_files(self) -> None:
        """Without this setting SQLite reads nothing from them. Whether a file is truncated is checked before."""
        try:
            self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except _FAULTS as error:
            self._note(error)
        self._connection.execute("PRAGMA writable_schema = ON")

    def _records(self) -> dict[str, bytes]:
        return {
            _text(name): value
            for name, value, checksum in self._rows("record", "name, value, checksum")
            if self._is_valid(RECORDS, _text(name), value, checksum)
        }

    def _summary(self) -> ContentSummary | None:
        for value, checksum in self._rows("summary", "value, checksum"):
            if self._is_valid(SUMMARY, "", value, checksum):
                with suppress(msgspec.DecodeError):
                    return msgspec.json.decode(value, type=ContentSummary)
        return None

    def _is_valid(self, set_name: str, name: str, value: object, checksum: object) -> bool:
        valid = isinstance(value, bytes) and row_checksum(set_name, name, value) == checksum
        if not valid:
            self._problems.append(f"the checksum of {set_name} '{name}' is wrong")
        return valid

    def _rows(self, table: str, columns: str) -> Iterator[Row]:
        """Yield all rows, in order until a damaged page, then from the end until a damaged page."""
        last = None
        try:
            for rowid, *row in self._connection.execute(f"SELECT rowid, {columns} FROM {table} ORDER BY rowid"):
                yield tuple(row)
                last = rowid
        except _FAULTS as error:
            self._note(error)
            yield from self._rows_from_end(table, columns, last)

    def _rows_from_end(self, table: str, columns: str, last: int | None) -> Iterator[Row]:
        with suppress(sqlite3.DatabaseError, UnicodeDecodeError):  # noted already
            for rowid, *row in self._connection.execute(f"SELECT rowid, {columns} FROM {table} ORDER BY rowid DESC"):
                if last is not None and rowid <= last:
                    return
                yield tuple(row)

    def _check_schema(self, version: int) -> None:
        """A table with a damaged definition can be readable and not writable."""
        try:
            found = read_schema(self._connection)
        except _FAULTS as error:
            self._note(error)
        else:
            if found != intact_schema(version):
                self._problems.append("the definition of a table is damaged")

    def _check_integrity(self) -> None:
        try:
            lines = [_text(line) for (line,) in self._connection.execute("PRAGMA integrity_check(5)")]
        except _FAULTS as error:
            self._note(error)
        else:
            self._problems += [" ".join(line.split())[:_MAX_PROBLEM_SIZE] for line in lines if line != "ok"]

    def _note(self, error: Exception) -> None:
        if not is_damage(error):
            raise error
        text = "a name in the schema is damaged" if isinstance(error, UnicodeDecodeError) else str(error)
        if text not in self._problems:
            self._problems.append(text)


def _text(value: object) -> str:
    """A damaged column may have any type."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
