"""The tables of the database, and how an older database becomes a current one.

Each row has a checksum. The version is stored in the summary, because a flipped bit in SQLite's own version field
would make a database look newer than this program.
"""

import sqlite3
from contextlib import closing
from functools import cache

import msgspec

from ankaios.storage.core.content_summary import ContentSummary, row_checksum

APPLICATION_ID = 0x416E4B73  # "AnKs": marks the file as one of ours
SUMMARY = "summary"

# Step n makes a database of version n + 1 from one of version n. Released steps never change.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE summary (id INTEGER PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL)",
        "CREATE TABLE entry (kind TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, checksum INTEGER NOT NULL,"
        " UNIQUE (kind, name))",
        "CREATE TABLE revision (number INTEGER PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL)",
    ),
    ("CREATE TABLE record (name TEXT NOT NULL UNIQUE, value BLOB NOT NULL, checksum INTEGER NOT NULL)",),
)
VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Run the steps that this version lacks; the caller has begun a transaction."""
    for step in MIGRATIONS[version:]:
        for statement in step:
            connection.execute(statement)


@cache
def intact_schema(version: int) -> frozenset[tuple[object, ...]]:
    """The schema of an intact database of this version."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.text_factory = bytes
        for step in MIGRATIONS[:version]:
            for statement in step:
                connection.execute(statement)
        return read_schema(connection)


def read_schema(connection: sqlite3.Connection) -> frozenset[tuple[object, ...]]:
    """The definitions of all tables and indices, with single spaces. The texts of the connection must be bytes."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return frozenset((*names, b" ".join(sql.split()) if isinstance(sql, bytes) else sql) for *names, sql in rows)


def write_summary(connection: sqlite3.Connection, summary: ContentSummary) -> None:
    value = msgspec.json.encode(summary)
    connection.execute("INSERT OR REPLACE INTO summary VALUES (1, ?, ?)", (value, row_checksum(SUMMARY, "", value)))


def read_summary(connection: sqlite3.Connection) -> ContentSummary:
    """Raises `sqlite3.DatabaseError` if there is none, or a damaged one."""
    row = connection.execute("SELECT value, checksum FROM summary WHERE id = 1").fetchone()
    if row is None or not isinstance(row[0], bytes) or row_checksum(SUMMARY, "", row[0]) != row[1]:
        raise sqlite3.DatabaseError("the summary is missing or damaged")
    return msgspec.json.decode(row[0], type=ContentSummary)
