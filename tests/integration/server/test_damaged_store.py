"""A server starts with a damaged database or WAL, uses the newest valid state, and reports what is lost."""

import contextlib
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from ankaios.common.errors import StartupFailed
from ankaios.server.shell import ServerShell
from ankaios.server.state_leader import StartState, StateLeader
from ankaios.storage.leader_election import Candidate, SoleElection
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.state_store import EntryChange, Revision, StateChange, StorageFailed
from ankaios.storage.storage import Storage
from tests.unit.server.scenario import a_form

REVISIONS = 6
POSITIONS = 12
OWN = Candidate("s", "u")


async def filled(folder: Path) -> None:
    """A store with one workload for each revision, as a kill leaves it: with a WAL."""
    folder.mkdir()
    storage = Storage(SqliteStore(folder / "live.db"), SoleElection())
    await storage.store.load()
    for number in range(1, REVISIONS + 1):
        entry = EntryChange("workload", f"w{number}", None, {**a_form(), "restartPolicy": "NEVER"})
        await storage.store.commit([StateChange((entry,), Revision(number, 0.0, "test", (), (entry,)))])
    for path in folder.glob("live.db*"):
        if not path.name.endswith(".lock") and ".part" not in path.name:  # a copy is being made in the background
            shutil.copy(path, folder / path.name.replace("live", "state"))
    await storage.close()


def positions(size: int, seed: int) -> list[int]:
    return sorted(random.Random(seed).sample(range(size), min(POSITIONS, size)))


def truncate(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.truncate(position)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << position % 8
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [truncate, flip])
@pytest.mark.parametrize("name", ["state.db", "state.db-wal", "state.db.head"])
async def test_a_server_starts_and_reports_what_is_lost(tmp_path: Path, name: str, damage: object) -> None:
    await filled(tmp_path / "store")
    size = (tmp_path / "store" / name).stat().st_size
    seed = random.randrange(2**32)
    for position in positions(size, seed):
        folder = tmp_path / f"at{position}"
        shutil.copytree(tmp_path / "store", folder)
        damage(folder / name, position)  # type: ignore[operator]
        await start_and_check(folder, f"{name} at {position}, seed {seed}")
        shutil.rmtree(folder)


async def start_and_check(folder: Path, what: str) -> None:
    shell = ServerShell(None, ())
    storage = Storage(SqliteStore(folder / "state.db"), SoleElection())
    leader = StateLeader(shell, storage, (), StartState(), OWN)
    try:
        await leader.begin()
        assert shell._server is not None
        found = set(shell._server.state.desired["workloads"])
        complete = {f"w{number}" for number in range(1, REVISIONS + 1)}
        assert found <= complete, what
        assert found == complete or leader.loss is not None, what
        assert shell._server._agents._keeps_unlisted == (leader.loss is not None), what
    finally:
        await leader.close()


class FullDisk(SqliteStore):
    """A store that can be repaired, but not written to afterwards."""

    async def commit(self, changes: Sequence[StateChange]) -> None:
        raise StorageFailed("database or disk is full")


@pytest.mark.parametrize("is_missing", [True, False])
async def test_a_loss_is_recorded_also_if_the_server_ends_directly_after_the_repair(
    tmp_path: Path, is_missing: bool
) -> None:
    folder = tmp_path / "store"
    await filled(folder)
    database = folder / "state.db"
    (folder / "state.db-wal").unlink()
    if is_missing:
        database.unlink()
    else:
        truncate(database, 5000)
        (folder / "state.db.copy").unlink(missing_ok=True)
    storage = Storage(FullDisk(database), SoleElection())
    leader = StateLeader(ServerShell(None, ()), storage, (), StartState(), OWN)
    with contextlib.suppress(StartupFailed):
        await leader.begin()
    await leader.close()

    again = StateLeader(ServerShell(None, ()), Storage(SqliteStore(database), SoleElection()), (), StartState(), OWN)
    await again.begin()
    assert again.loss is not None
    await again.close()
