"""The files of the SQLite store: lock, modes, foreign files, versions, and backups."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ankaios.storage.core.content_summary import ContentSummary, SetDigest, row_checksum
from ankaios.storage.sqlite.backup import back_up_database
from ankaios.storage.sqlite.schema import VERSION, write_summary
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.state_store import EntryKey, StorageFailed
from tests.integration.storage.sqlite_states import DATABASE, HEAD, add_revisions, state_of, workloads


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / DATABASE


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(path)
    await opened.load()
    await opened.finish_copy()
    yield opened
    await opened.close()


async def test_two_servers_cannot_use_one_database(store: SqliteStore, path: Path) -> None:
    other = SqliteStore(path)
    with pytest.raises(StorageFailed, match=rf"another server \(process {os.getpid()}\) uses the database"):
        await other.load()
    await other.close()
    await add_revisions(store, 1, 1)


async def test_the_lock_is_released_when_the_store_is_closed(path: Path) -> None:
    for _ in range(2):
        store = SqliteStore(path)
        await store.load()
        await store.close()


async def test_only_the_user_of_the_server_can_read_the_files(store: SqliteStore, path: Path) -> None:
    await add_revisions(store, 1, 1)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_the_mode_of_an_existing_database_is_corrected(path: Path) -> None:
    for _ in range(2):
        store = SqliteStore(path)
        await store.load()
        await store.close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)


async def fails_to_load(path: Path, reason: str) -> None:
    store = SqliteStore(path)
    with pytest.raises(StorageFailed, match=reason):
        await store.load()
    await store.close()


async def test_a_directory_that_all_users_may_write_to_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    await fails_to_load(tmp_path / "open" / DATABASE, "every user could replace everything in it; run 'chmod go-w")


async def test_a_path_below_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    await fails_to_load(tmp_path / "file" / DATABASE, "cannot use the directory")


async def test_a_directory_in_place_of_the_database_is_rejected(tmp_path: Path) -> None:
    await fails_to_load(tmp_path, "it is not a regular file")


@pytest.mark.parametrize("content", [b"root:x:0:0", b"SQLite format 3\0" + b"x" * 4096])
async def test_a_file_of_another_program_is_rejected_and_not_changed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "passwd"
    path.write_bytes(content)
    await fails_to_load(path, "it is not a database of ank-server")
    assert path.read_bytes() == content
    assert not list(tmp_path.glob("*.damaged*"))


async def test_a_database_of_a_newer_version_is_rejected_and_not_changed(path: Path) -> None:
    store = SqliteStore(path)
    await store.load()
    await store.close()
    with sqlite3.connect(path) as connection:
        write_summary(connection, ContentSummary("s", VERSION + 1))
    connection.close()
    await fails_to_load(path, f"it has version {VERSION + 1} of the format")
    assert not list(path.parent.glob("*.damaged*"))


VERSION_1 = """
PRAGMA application_id = 1097747315;
CREATE TABLE summary (id INTEGER PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE entry (kind TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, checksum INTEGER NOT NULL,
  UNIQUE (kind, name));
CREATE TABLE revision (number INTEGER PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL);
"""


async def test_a_database_of_version_1_is_migrated(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    checksum = row_checksum("entry/workload", "web", b'{"a":1}')
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
    with connection:
        connection.execute("INSERT INTO entry VALUES ('workload', 'web', ?, ?)", (b'{"a":1}', checksum))
        write_summary(connection, ContentSummary("s", 1, 3, 2, {"entry/workload": SetDigest(1, checksum)}))
    connection.close()
    for records in ({}, {"web": [1]}):
        store = SqliteStore(path)
        stored = await store.load()
        assert stored.entries == {EntryKey("workload", "web"): {"a": 1}}
        assert (stored.report, stored.last_revision, stored.records) == (None, 2, records)
        await store.save_records({"web": [1]})
        await store.close()


async def test_a_backup_of_a_running_server_can_replace_the_database(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    await add_revisions(store, 1, 3)
    await asyncio.to_thread(back_up_database, path, tmp_path / "backup.db")
    await add_revisions(store, 4, 6)
    assert stat.S_IMODE((tmp_path / "backup.db").stat().st_mode) == 0o600
    await store.close()

    (tmp_path / "backup.db").rename(path)  # a file with the confirmed commits of the newer state is still there
    assert path.with_name(HEAD).exists()
    restored = SqliteStore(path)
    stored = await restored.load()
    assert workloads(stored) == state_of(3)
    assert stored.report is None
    await restored.close()


async def test_commits_succeed_during_a_backup(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    await add_revisions(store, 1, 50)
    backups = asyncio.gather(*(asyncio.to_thread(back_up_database, path, tmp_path / f"{n}.db") for n in range(5)))
    await add_revisions(store, 51, 100)
    for summary in await backups:
        assert 50 <= summary.sequence <= 100
    assert workloads(await store.load()) == state_of(100)


def test_a_missing_database_cannot_be_backed_up(path: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="there is no such file"):
        back_up_database(path, tmp_path / "backup.db")
    assert not (tmp_path / "backup.db").exists()


async def test_a_damaged_database_is_not_backed_up(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    await add_revisions(store, 1, 20)
    await store.close()
    (tmp_path / "backup.db").write_text("the backup before")
    path.write_bytes(path.read_bytes()[:8192])
    with pytest.raises(StorageFailed, match=r"malformed|missing|damaged"):
        back_up_database(path, tmp_path / "backup.db")
    assert (tmp_path / "backup.db").read_text() == "the backup before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup.db", "store"]
