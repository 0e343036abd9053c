"""The SQLite store when something fails: commits are stored or not, and the store states which."""

import asyncio
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ankaios.storage.sqlite import sqlite_store
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.state_store import CommitUnknown, EntryChange, StateChange, StorageFailed
from tests.integration.storage.sqlite_states import DATABASE, add_revisions, state_of, workloads
from tests.unit.storage.changes import a_change, a_revision, a_workload

ROOT = Path(__file__).resolve().parents[3]


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


class FailingConnection(sqlite3.Connection):
    """A real connection that fails on command.

    `mode` applies to the next COMMIT: it fails `before` it is executed or `after` that, or it waits until `released`
    is set (`hang`), or both (`hang before`, `hang after`). All statements that begin with one of `failing` fail.
    `statements` are those that were executed.
    """

    mode = ""
    code = sqlite3.SQLITE_IOERR_FSYNC
    failing: tuple[str, ...] = ()
    statements: ClassVar[list[str]] = []
    released = threading.Event()

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        kind = FailingConnection
        if kind.failing and sql.startswith(kind.failing):
            raise _failure(kind.code)
        kind.statements.append(sql)
        if sql != "COMMIT" or not kind.mode:
            return super().execute(sql, *parameters)
        mode, kind.mode = kind.mode, ""
        assert not mode.startswith("hang") or kind.released.wait(60)
        cursor = super().execute("SELECT 1" if mode.endswith("before") else sql, *parameters)
        if mode == "hang":
            return cursor
        raise _failure(kind.code)


def _failure(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


@pytest.fixture(autouse=True)
def failing_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FailingConnection]]:
    real = sqlite3.connect

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        return real(*arguments, **options, factory=FailingConnection)

    monkeypatch.setattr(sqlite3, "connect", connect)
    FailingConnection.mode, FailingConnection.failing = "", ()
    FailingConnection.statements.clear()
    FailingConnection.code = sqlite3.SQLITE_IOERR_FSYNC
    FailingConnection.released.clear()
    yield FailingConnection
    FailingConnection.released.set()


async def test_a_failed_commit_that_is_not_stored_changes_nothing_and_the_next_one_works(
    store: SqliteStore, failing_connection: type[FailingConnection]
) -> None:
    await add_revisions(store, 1, 2)
    failing_connection.mode = "before"
    with pytest.raises(StorageFailed, match="disk I/O error") as failed:
        await add_revisions(store, 3, 3)
    assert not isinstance(failed.value, CommitUnknown)
    assert store.status().problem == str(failed.value)
    await store.commit([a_change(3, "w3", a_workload(3))])
    assert store.status().problem is None
    assert workloads(await store.load()) == state_of(3)


async def test_a_failed_commit_that_is_stored_nevertheless_succeeds(
    store: SqliteStore, failing_connection: type[FailingConnection]
) -> None:
    failing_connection.mode = "after"
    await add_revisions(store, 1, 1)
    assert workloads(await store.load()) == state_of(1)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_an_unknown_result_is_reported_and_the_next_load_detects_it(
    store: SqliteStore,
    failing_connection: type[FailingConnection],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,
) -> None:
    await add_revisions(store, 1, 2)
    failing_connection.mode = "after" if is_stored else "before"
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", _no_connection)
        with pytest.raises(CommitUnknown, match="it is not known whether the change is stored"):
            await add_revisions(store, 3, 3)
        with pytest.raises(StorageFailed, match="has to be loaded first"):
            await add_revisions(store, 4, 4)
    stored = await store.load()
    assert stored.unknown_commit_stored is is_stored
    assert workloads(stored) == state_of(3 if is_stored else 2)
    assert stored.report is None
    assert (await store.load()).unknown_commit_stored is None


def _no_connection(*_: Any, **__: Any) -> sqlite3.Connection:
    raise sqlite3.OperationalError("unable to open database file")


async def test_a_failed_commit_is_unknown_if_its_remains_cannot_be_overwritten(
    store: SqliteStore, failing_connection: type[FailingConnection]
) -> None:
    """The commit may be complete in the WAL, and SQLite would use it after a crash."""
    failing_connection.failing = ("COMMIT",)
    with pytest.raises(CommitUnknown):
        await add_revisions(store, 1, 1)
    failing_connection.failing = ()
    assert (await store.load()).unknown_commit_stored is False


async def test_a_stored_commit_is_unknown_if_it_cannot_be_synchronised(
    store: SqliteStore, failing_connection: type[FailingConnection]
) -> None:
    """What the operating system still has in memory may not be on the disk after a failed fsync."""
    failing_connection.mode, failing_connection.failing = "after", ("PRAGMA wal_checkpoint",)
    with pytest.raises(CommitUnknown):
        await add_revisions(store, 1, 1)
    failing_connection.failing = ()
    assert (await store.load()).unknown_commit_stored is True


async def test_commits_are_synchronised_and_records_are_not(
    store: SqliteStore, failing_connection: type[FailingConnection]
) -> None:
    await store.load()
    await store.finish_copy()
    failing_connection.statements.clear()
    await store.load()
    await store.save_records({"web": [1]})
    await add_revisions(store, 1, 1)
    full, normal = "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"
    relevant = [each for each in failing_connection.statements if each in (full, normal, "COMMIT")]
    assert relevant == [full, normal, "COMMIT", full, "COMMIT"]


async def test_damage_that_a_commit_finds_is_repaired_by_the_next_load(
    store: SqliteStore, failing_connection: type[FailingConnection]
) -> None:
    failing_connection.mode, failing_connection.code = "before", sqlite3.SQLITE_CORRUPT
    with pytest.raises(CommitUnknown):
        await add_revisions(store, 1, 1)
    assert (await store.load()).unknown_commit_stored is False


async def test_a_disk_that_does_not_respond_does_not_block_the_server(
    store: SqliteStore, failing_connection: type[FailingConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "_COMMIT_LIMIT", 0.05)
    failing_connection.mode = "hang"
    with pytest.raises(CommitUnknown, match=r"did not respond for 0\.05 s"):
        await add_revisions(store, 1, 1)
    with pytest.raises(StorageFailed, match="has to be loaded first"):
        await add_revisions(store, 2, 2)
    with pytest.raises(StorageFailed, match="did not respond"):
        await store.check()
    failing_connection.released.set()
    monkeypatch.undo()
    stored = await store.load()
    assert stored.unknown_commit_stored is True
    assert workloads(stored) == state_of(1)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_an_abandoned_commit_that_fails_later_is_found_out_as_well(
    store: SqliteStore,
    failing_connection: type[FailingConnection],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,
) -> None:
    """The disk hangs, then reports errors: the commit itself cannot find out whether it is stored."""
    failing_connection.mode = "hang after" if is_stored else "hang before"
    with monkeypatch.context() as short, pytest.raises(CommitUnknown, match="did not respond"):
        short.setattr(sqlite_store, "_COMMIT_LIMIT", 0.05)
        await add_revisions(store, 1, 1)
    failing_connection.failing = ("BEGIN", "PRAGMA wal_checkpoint")
    failing_connection.released.set()
    with pytest.raises(StorageFailed, match="has to be loaded first"):
        await store.check()  # after the commit, in the same thread
    failing_connection.failing = ()
    stored = await store.load()
    assert stored.unknown_commit_stored is is_stored
    assert workloads(stored) == state_of(1 if is_stored else 0)


async def test_an_unknown_result_is_still_found_out_after_a_load_without_response(
    store: SqliteStore, failing_connection: type[FailingConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_connection.mode, failing_connection.failing = "after", ("PRAGMA wal_checkpoint",)
    with pytest.raises(CommitUnknown):
        await add_revisions(store, 1, 1)
    failing_connection.failing = ()
    connect = sqlite3.connect

    def connect_later(*arguments: Any, **options: Any) -> sqlite3.Connection:
        assert failing_connection.released.wait(60)
        connection: sqlite3.Connection = connect(*arguments, **options)
        return connection

    with monkeypatch.context() as short, pytest.raises(StorageFailed, match="did not respond"):
        short.setattr(sqlite_store, "_LOAD_LIMIT", 0.05)
        short.setattr(sqlite3, "connect", connect_later)
        await store.load()
    failing_connection.released.set()
    assert (await store.load()).unknown_commit_stored is True


async def test_the_result_of_a_cancelled_commit_is_found_out(
    store: SqliteStore, failing_connection: type[FailingConnection]
) -> None:
    failing_connection.mode = "hang"
    committing = asyncio.create_task(add_revisions(store, 1, 1))
    async with asyncio.timeout(60):
        while failing_connection.mode:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    committing.cancel()
    await asyncio.wait((committing,))
    with pytest.raises(StorageFailed, match="has to be loaded first"):
        await add_revisions(store, 2, 2)
    failing_connection.released.set()
    stored = await store.load()
    assert stored.unknown_commit_stored is True
    assert workloads(stored) == state_of(1)


async def test_a_limit_of_the_file_size_fails_the_commit_and_keeps_the_state(store: SqliteStore, path: Path) -> None:
    await add_revisions(store, 1, 3)
    with _largest_file(path.with_name(DATABASE + "-wal").stat().st_size + 1000), pytest.raises(StorageFailed) as failed:
        await add_revisions(store, 4, 4)
    assert not isinstance(failed.value, CommitUnknown) or (await store.load()).unknown_commit_stored is False
    await add_revisions(store, 4, 4)
    assert workloads(await store.load()) == state_of(4)


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


SMALL_DISK = """
import asyncio, sys
from pathlib import Path
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.state_store import CommitUnknown, StorageFailed
from tests.integration.storage.sqlite_states import add_revisions, state_of, workloads

async def fill(folder):
    store = SqliteStore(folder / "state.db")
    await store.load()
    await store.finish_copy()
    stored = 0
    try:
        while True:
            await add_revisions(store, stored + 1, stored + 1)
            stored += 1
    except StorageFailed as failure:
        print(type(failure).__name__, failure)
    await store.close()
    (folder / "ballast").unlink()
    store = SqliteStore(folder / "state.db")
    loaded = await store.load()
    print("kept" if workloads(loaded) == state_of(stored) and loaded.report is None else loaded.report)
    await add_revisions(store, stored + 1, stored + 1)
    await store.close()

asyncio.run(fill(Path(sys.argv[1])))
"""


def _on_a_disk_of_its_own(folder: Path, *commands: str, code: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    script = "\n".join(
        ("set -e", f"mount -t tmpfs -o size=1m tmpfs {folder}", *commands, f'exec {sys.executable} -c "$0"')
    )
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    run = subprocess.run(
        [
            "unshare",
            "--mount",
            *([] if os.geteuid() == 0 else ["--map-root-user"]),
            "sh",
            "-c",
            f"{script} {folder}",
            code,
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=environ,
    )
    if "unshare" in run.stderr or "mount:" in run.stderr:
        pytest.skip("mounting a file system is not permitted here")
    return run


def test_a_full_disk_fails_the_commit_and_keeps_everything_before(tmp_path: Path) -> None:
    run = _on_a_disk_of_its_own(
        tmp_path / "disk", f"head -c 500000 /dev/zero >{tmp_path}/disk/ballast", code=SMALL_DISK
    )
    failure, result = run.stdout.splitlines()
    assert failure.startswith("StorageFailed cannot write to")
    assert failure.endswith("database or disk is full")
    assert result == "kept"
    assert run.returncode == 0, run.stderr


READ_ONLY = """
import asyncio, sys
from pathlib import Path
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.state_store import StorageFailed

async def load(folder):
    store = SqliteStore(folder / "store" / "state.db")
    try:
        await store.load()
    except StorageFailed as failure:
        print(failure)
    await store.close()

asyncio.run(load(Path(sys.argv[1])))
"""


def test_a_read_only_file_system_is_reported_at_the_start(tmp_path: Path) -> None:
    run = _on_a_disk_of_its_own(tmp_path / "disk", f"mount -o remount,ro {tmp_path}/disk", code=READ_ONLY)
    assert run.stdout == f"cannot use the directory '{tmp_path}/disk/store': Read-only file system\n"
    assert run.returncode == 0, run.stderr


KILLED = """
import asyncio, sys
from pathlib import Path
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from tests.integration.storage.sqlite_states import add_revisions

async def commit(path, first):
    store = SqliteStore(path)
    await store.load()
    while True:
        await add_revisions(store, first, first)
        print(first, flush=True)
        first += 1

asyncio.run(commit(Path(sys.argv[1]), int(sys.argv[2])))
"""


async def test_a_server_that_is_killed_keeps_every_confirmed_commit(path: Path) -> None:
    confirmed = 0
    for more in (1, 2, 30, 80):
        confirmed = await _commit_and_kill(path, confirmed + 1, more)
        store = SqliteStore(path)
        stored = await store.load()
        await store.close()
        assert stored.report is None
        assert len(workloads(stored)) in (confirmed, confirmed + 1)  # the last one may be stored and not yet printed
        confirmed = len(workloads(stored))
        assert workloads(stored) == state_of(confirmed)


async def _commit_and_kill(path: Path, first: int, count: int) -> int:
    """Return the number of the last commit that was confirmed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", KILLED, str(path), str(first)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
    )
    assert process.stdout is not None
    for _ in range(count):
        await asyncio.wait_for(process.stdout.readline(), 60)
    process.send_signal(signal.SIGKILL)
    rest = (await process.stdout.read()).splitlines()
    await process.wait()
    return first + count - 1 + sum(line.isdigit() for line in rest)


async def test_a_copy_is_made_again_after_many_revisions(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "_SECONDS_PER_COPY", 0.0)
    copy = path.with_name(DATABASE + ".copy")
    before = copy.stat().st_ino
    await add_revisions(store, 1, 49)
    await store.finish_copy()
    assert copy.stat().st_ino == before
    await add_revisions(store, 50, 50)
    await store.finish_copy()
    assert copy.stat().st_ino != before


def written_tables(statements: list[str]) -> list[str]:
    """The tables to which the statements write a row, sorted. Each statement writes the row of one key."""
    words = [statement.split() for statement in statements if statement.startswith(("INSERT", "UPDATE", "DELETE"))]
    return sorted(next(word for word in it if word in ("entry", "revision", "record", "summary")) for it in words)


async def test_changing_one_of_10_000_workloads_writes_one_entry(
    store: SqliteStore, failing_connection: type[FailingConnection]
) -> None:
    """Besides: the revision, and the summary by which damage is found."""
    added = tuple(EntryChange("workload", f"w{number}", None, number) for number in range(10_000))
    await store.commit([StateChange(added)])
    await store.finish_copy()
    failing_connection.statements.clear()
    changed = EntryChange("workload", "w5000", 5000, "changed")
    await store.commit([StateChange((changed,), a_revision(1, (changed,)))])
    assert written_tables(failing_connection.statements) == ["entry", "revision", "summary"]


async def test_changes_of_one_commit_share_a_transaction(
    store: SqliteStore, failing_connection: type[FailingConnection]
) -> None:
    """A transaction has one fsync."""
    failing_connection.statements.clear()
    await store.commit([a_change(number, f"w{number}", number) for number in range(1, 21)])
    assert failing_connection.statements.count("COMMIT") == 1
    assert written_tables(failing_connection.statements).count("summary") == 1
