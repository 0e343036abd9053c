"""Copies a database while a server uses it.

Input: the database. Output: a complete database in another file, with the state of one moment. Blocking. The server is
not slowed down: the copy is read with a separate connection.
"""

import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from ankaios.common.file_replacement import sync_folder
from ankaios.storage.core.content_summary import ContentSummary
from ankaios.storage.sqlite.content_reader import read_content
from ankaios.storage.sqlite.schema import read_summary, write_summary
from ankaios.storage.sqlite.store_files import restrict_mode, translated_os_errors
from ankaios.storage.state_store import StorageFailed


def back_up_database(source: Path, target: Path) -> ContentSummary:
    """Write a backup that can be used in place of the database; an existing file is replaced when it is complete.

    The backup gets a new identity: a server that starts with it does not compare it with newer commits.
    """
    if not source.is_file():
        raise StorageFailed(f"cannot back up '{source}': there is no such file")
    return copy_database(source, target, store=new_store_id())


def new_store_id() -> str:
    return secrets.token_hex(8)


def copy_database(source: Path, target: Path, store: str | None = None) -> ContentSummary:
    """`store` is the identity of the copy; without it, that of the source. Raises `StorageFailed`."""
    draft = target.with_name(target.name + ".part")
    with translated_os_errors("write", target):
        draft.unlink(missing_ok=True)
    try:
        restrict_mode(draft)
        _copy_pages(source, draft)
        summary = _verified(source, draft)
        if store is not None:
            summary = _rename_store(draft, summary, store)
        with translated_os_errors("write", target):
            draft.replace(target)
            sync_folder(target.parent)
    except sqlite3.Error as error:
        raise StorageFailed(f"cannot copy '{source}' to '{target}': {error}") from error
    finally:
        draft.unlink(missing_ok=True)
    return summary


def copied_summary(path: Path) -> ContentSummary | None:
    """Return the summary of a copy; None if there is no usable copy."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            return read_summary(connection)
    except sqlite3.Error:
        return None


def _copy_pages(source: Path, draft: Path) -> None:
    with (
        closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as reader,
        closing(sqlite3.connect(draft)) as writer,
    ):
        writer.execute("PRAGMA synchronous = FULL")
        reader.backup(writer)
        writer.execute("PRAGMA journal_mode = DELETE").fetchall()


def _verified(source: Path, draft: Path) -> ContentSummary:
    """A copy of a damaged database is no backup."""
    content = read_content(draft, immutable=True)
    if content.problems or content.summary is None:
        raise StorageFailed(f"cannot back up '{source}': {'; '.join(content.problems) or 'it has no summary'}")
    return content.summary


def _rename_store(draft: Path, summary: ContentSummary, store: str) -> ContentSummary:
    renamed = replace(summary, store=store)
    with closing(sqlite3.connect(draft)) as connection, connection:
        connection.execute("PRAGMA synchronous = FULL")
        write_summary(connection, renamed)
    return renamed
