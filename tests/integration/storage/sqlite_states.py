"""A SQLite store with a known history, as files, and what a server finds when it starts with changed files."""

import shutil
from pathlib import Path

from ankaios.storage.sqlite.session import SqliteSession
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.state_store import JsonValue, Stored
from tests.unit.storage.changes import a_change, a_workload

DATABASE, WAL, HEAD, COPY = "state.db", "state.db-wal", "state.db.head", "state.db.copy"
NOW, STAMP = 1_700_000_000.0, "20231114T221320Z"
Files = dict[str, bytes]


def workloads(stored: Stored) -> dict[str, JsonValue]:
    return {key.name: value for key, value in stored.entries.items() if key.kind == "workload"}


def state_of(revision: int) -> dict[str, JsonValue]:
    """The workloads after this revision: revision n adds workload n."""
    return {f"w{number}": a_workload(number) for number in range(1, revision + 1)}


async def add_revisions(store: SqliteStore, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await store.commit([a_change(number, f"w{number}", a_workload(number))])


def files_in(folder: Path) -> Files:
    names = (DATABASE, WAL, HEAD, COPY)
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


async def files_with(folder: Path, in_database: int, in_wal: int, *, with_copy: bool = True) -> Files:
    """Revisions up to `in_database` are in the database and in the copy, the following `in_wal` only in the WAL."""
    first = SqliteStore(folder / DATABASE)
    await first.load()
    await add_revisions(first, 1, in_database)
    await first.close()
    store = SqliteStore(folder / DATABASE)
    await store.load()
    await store.finish_copy()
    await add_revisions(store, in_database + 1, in_database + in_wal)
    files = files_in(folder)
    await store.close()
    if not with_copy:
        del files[COPY]
    return files


class Machine:
    """A folder with the files of a store, and the server that starts with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, files: Files) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for name, data in files.items():
            (self.folder / name).write_bytes(data)

    def start_session(self, files: Files) -> SqliteSession:
        """The blocking part of a store, which is faster to start a thousand times."""
        self.write(files)
        return SqliteSession(self.folder / DATABASE)

    def kept(self) -> Files:
        """Damaged files that were kept, by the name they had."""
        found = self.folder.glob(f"{DATABASE}.damaged-{STAMP}*")
        return {WAL if path.name.endswith("-wal") else DATABASE: path.read_bytes() for path in found}
