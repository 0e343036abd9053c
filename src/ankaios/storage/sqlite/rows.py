"""Writes rows of the database: entries, revisions and records, each with its checksum.

Input: an open connection with a transaction, keys and values. Output: changed rows, and their checksums. Owns nothing.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ankaios.storage.core.content_summary import RECORDS, REVISIONS, entry_set, row_checksum
from ankaios.storage.state_store import EntryKey


class _Table(NamedTuple):
    """The statements for one row; the key is in the first columns."""

    select: str
    delete: str
    write: str


def _table(name: str, *key: str) -> _Table:
    condition = " AND ".join(f"{column} = ?" for column in key)
    values = ", ".join("?" for _ in (*key, "value", "checksum"))
    return _Table(
        f"SELECT checksum FROM {name} WHERE {condition}",
        f"DELETE FROM {name} WHERE {condition}",
        f"INSERT INTO {name} VALUES ({values})"
        f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET value = excluded.value, checksum = excluded.checksum",
    )


_ENTRY = _table("entry", "kind", "name")
_REVISION = _table("revision", "number")
_RECORD = _table("record", "name")


class Row(NamedTuple):
    """One row. Its checksum includes `set_name` and `name`."""

    table: _Table
    key: tuple[str | int, ...]
    set_name: str
    name: str

    def stored_checksum(self, connection: sqlite3.Connection) -> int | None:
        found = connection.execute(self.table.select, self.key).fetchone()
        return None if found is None else int(found[0])

    def write(self, connection: sqlite3.Connection, value: bytes | None) -> int | None:
        """Return the new checksum. Without a value the row is deleted."""
        if value is None:
            connection.execute(self.table.delete, self.key)
            return None
        checksum = row_checksum(self.set_name, self.name, value)
        connection.execute(self.table.write, (*self.key, value, checksum))
        return checksum


def rows_of_state(
    entries: Mapping[EntryKey, bytes | None], revisions: Mapping[int, bytes | None]
) -> Iterator[tuple[Row, bytes | None]]:
    """Yield each row with its value."""
    for key, value in entries.items():
        yield Row(_ENTRY, (key.kind, key.name), entry_set(key.kind), key.name), value
    for number, value in revisions.items():
        yield Row(_REVISION, (number,), REVISIONS, str(number)), value


def rows_of_records(records: Mapping[str, bytes | None]) -> Iterator[tuple[Row, bytes | None]]:
    for name, value in records.items():
        yield Row(_RECORD, (name,), RECORDS, name), value
