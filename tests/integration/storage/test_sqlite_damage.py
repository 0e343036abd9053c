"""After any damage of its files a server starts with a valid revision and reports what was lost."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.storage.core.encoding import write_set
from ankaios.storage.core.unconfirmed_loss import LOSS_KEY
from ankaios.storage.sqlite.session import SqliteSession
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.state_store import EntryChange, StateChange, Stored
from tests.integration.storage.sqlite_states import (
    COPY,
    DATABASE,
    HEAD,
    NOW,
    STAMP,
    WAL,
    Files,
    Machine,
    add_revisions,
    files_in,
    files_with,
    state_of,
    workloads,
)
from tests.unit.storage.changes import a_change

IN_DATABASE, IN_WAL = 24, 8
NEWEST = IN_DATABASE + IN_WAL
SAMPLES = 60
PAGE, FRAME = 4096, 4096 + 24


class Crash(Exception):
    """The machine stops here."""


def _crash(*_: Path) -> Path:
    raise Crash


@pytest.fixture
async def intact(tmp_path: Path) -> Files:
    return await files_with(tmp_path / "origin", IN_DATABASE, IN_WAL)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


def positions(data: bytes, step: int, header: int) -> Iterator[int]:
    """Every byte of the first header, the edges of all pages or frames, and others at random."""
    yield from range(min(header, len(data)))
    for start in range(header, len(data), step):
        yield from (start - 1, start, start + 1)
    yield from random.Random(header).sample(range(len(data)), SAMPLES)


def check_start(machine: Machine, files: Files, newest: int = NEWEST) -> Stored:
    """Start with these files, and check what has to be true for all of them."""
    session = machine.start_session(files)
    opened = session.load(NOW)
    found = workloads(opened)
    assert found == state_of(len(found)), "not the state of a revision"
    if opened.report is None:
        assert found == state_of(newest), "lost without a report"
        assert machine.kept() == {}
    else:
        assert opened.report.lost or found == state_of(newest)
        _check_kept(machine, files)
    assert opened.last_revision >= newest
    _check_usable(session)
    return opened


def _check_kept(machine: Machine, files: Files) -> None:
    """The damaged files are unchanged; only a database without header was filled up with zeros."""
    kept = machine.kept()
    assert kept[DATABASE].ljust(100, b"\0") == files[DATABASE].ljust(100, b"\0")
    assert kept.get(WAL, b"") == files.get(WAL, b"")


def _check_usable(session: SqliteSession) -> None:
    session.commit(write_set([a_change(1000, "after", 1)]))
    again = session.load(NOW)
    assert workloads(again)["after"] == 1
    assert again.report is None
    session.close()


def test_intact_files_need_no_report(machine: Machine, intact: Files) -> None:
    assert check_start(machine, intact).report is None


@pytest.mark.parametrize(("name", "step", "header"), [(DATABASE, PAGE, 100), (WAL, FRAME, 32)])
def test_a_truncated_file_gives_a_valid_revision(
    machine: Machine, intact: Files, name: str, step: int, header: int
) -> None:
    for size in positions(intact[name], step, header):
        check_start(machine, {**intact, name: intact[name][:size]})


@pytest.mark.parametrize(("name", "step", "header"), [(DATABASE, PAGE, 100), (WAL, FRAME, 32)])
def test_a_flipped_bit_gives_a_valid_revision(
    machine: Machine, intact: Files, name: str, step: int, header: int
) -> None:
    for position in positions(intact[name], step, header):
        damaged = bytearray(intact[name])
        damaged[position] ^= 1 << position % 8
        check_start(machine, {**intact, name: bytes(damaged)})


async def test_a_header_with_which_sqlite_does_not_write_is_repaired(machine: Machine, tmp_path: Path) -> None:
    """SQLite reads such a database without an error. Small commits do not write a new header to the WAL."""
    files = await files_with(tmp_path / "origin", 2, 2)
    damaged = bytearray(files[DATABASE])
    for bit in range(2, 8):
        damaged[18] = 2 | 1 << bit
        opened = check_start(machine, {**files, DATABASE: bytes(damaged)}, 4)
        assert opened.report is not None
        assert opened.report.lost == ()
        assert workloads(opened) == state_of(4)


async def test_a_damaged_definition_of_a_table_is_repaired(machine: Machine, tmp_path: Path) -> None:
    """SQLite may read such a table and not write to it. Its error may contain a name that is no valid UTF-8."""
    files = await files_with(tmp_path / "origin", 2, 2)
    first = files[DATABASE].index(b"CREATE TABLE summary")
    for position in range(first, first + 60):
        for bit in (0x80, 0x01):
            damaged = bytearray(files[DATABASE])
            damaged[position] ^= bit
            opened = check_start(machine, {**files, DATABASE: bytes(damaged)}, 4)
            assert opened.report is not None
            assert workloads(opened) == state_of(4)


def test_any_damage_of_only_the_database_file_loses_nothing(machine: Machine, intact: Files) -> None:
    """The copy and the WAL together have everything."""
    for data in (b"", b"\0" * len(intact[DATABASE]), b"text" * 5000, intact[DATABASE][: 2 * PAGE]):
        opened = check_start(machine, {**intact, DATABASE: data})
        assert workloads(opened) == state_of(NEWEST)


def test_a_lost_wal_is_reported_and_the_revision_of_the_database_is_used(machine: Machine, intact: Files) -> None:
    files = {name: data for name, data in intact.items() if name != WAL}
    opened = check_start(machine, files)
    assert opened.report is not None
    assert opened.report.problem == f"the database ends at commit {IN_DATABASE}, but commit {NEWEST} was confirmed"
    assert opened.report.lost == (
        f"the state is that of revision {IN_DATABASE}; revisions {IN_DATABASE + 1} to {NEWEST} are lost",
        f"commits {IN_DATABASE + 1} to {NEWEST} are lost",
    )
    assert workloads(opened) == state_of(IN_DATABASE)


async def test_an_older_wal_of_the_same_database_is_reported(machine: Machine, tmp_path: Path) -> None:
    """Files were copied while the server was running."""
    older = await files_with(tmp_path / "origin", 4, 4)
    store = SqliteStore(tmp_path / "origin" / DATABASE)
    await store.load()
    await store.finish_copy()
    await add_revisions(store, 9, NEWEST)
    await store.close()
    opened = check_start(machine, {**files_in(tmp_path / "origin"), WAL: older[WAL]})
    assert opened.report is not None


@pytest.mark.parametrize(("kept", "last"), [((HEAD, COPY), NEWEST), ((COPY,), IN_DATABASE)], ids=["head", "copy only"])
def test_a_removed_database_starts_empty_and_the_copy_is_named(
    machine: Machine, intact: Files, kept: tuple[str, ...], last: int
) -> None:
    session = machine.start_session({name: intact[name] for name in kept})
    opened = session.load(NOW)
    _check_usable(session)
    assert opened.report is not None
    assert f"is missing; a copy is in '{machine.folder / COPY}-{STAMP}'" in opened.report.problem
    assert opened.report.lost == (f"the state of commit {last}, revision {last}",)
    assert opened.entries == {LOSS_KEY: {"text": str(opened.report)}}
    assert opened.last_revision == last
    assert (machine.folder / f"{COPY}-{STAMP}").read_bytes() == intact[COPY]


async def test_the_copy_of_a_removed_database_is_kept_and_can_replace_it(machine: Machine, intact: Files) -> None:
    machine.write({HEAD: intact[HEAD], COPY: intact[COPY]})
    store = SqliteStore(machine.folder / DATABASE, lambda: NOW)
    await store.load()
    await store.finish_copy()
    await store.close()
    kept = machine.folder / f"{COPY}-{STAMP}"
    assert kept.read_bytes() == intact[COPY]

    kept.replace(machine.folder / DATABASE)
    restored = SqliteStore(machine.folder / DATABASE)
    stored = await restored.load()
    await restored.close()
    assert workloads(stored) == state_of(IN_DATABASE)
    assert stored.report is None


def test_a_crash_after_the_copy_was_kept_does_not_lose_it(
    machine: Machine, intact: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash before the empty database gets its name."""
    session = machine.start_session({HEAD: intact[HEAD], COPY: intact[COPY]})
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(Path, "replace", _crash)
        session.load(NOW)
    session.close()
    session = SqliteSession(machine.folder / DATABASE)
    assert session.load(NOW).report is not None
    _check_usable(session)
    assert (machine.folder / f"{COPY}-{STAMP}").read_bytes() == intact[COPY]


async def test_without_copy_rows_behind_the_damage_are_used(machine: Machine, tmp_path: Path) -> None:
    """History and entries are in different pages: most flipped bits lose nothing of the state."""
    files = await files_with(tmp_path / "origin", IN_DATABASE, 0, with_copy=False)
    for position in random.Random(1).sample(range(PAGE, len(files[DATABASE])), SAMPLES):
        damaged = bytearray(files[DATABASE])
        damaged[position] ^= 1 << position % 8
        opened = check_start(machine, {**files, DATABASE: bytes(damaged)}, IN_DATABASE)
        assert workloads(opened) == state_of(IN_DATABASE)


async def test_rows_on_both_sides_of_a_damaged_page_are_read(machine: Machine, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "origin" / DATABASE)
    await store.load()
    names = [f"w{number:03}" for number in range(300)]
    await store.commit([StateChange(tuple(EntryChange("workload", name, None, "x" * 200) for name in names))])
    await store.close()
    files = files_in(tmp_path / "origin")
    database = files[DATABASE]
    page = database.index(b"w150" + b'"xxx') // PAGE * PAGE
    damaged = database[:page] + b"\xff" * PAGE + database[page + PAGE :]
    session = machine.start_session({HEAD: files[HEAD], DATABASE: damaged})
    found = sorted(workloads(session.load(NOW)))
    _check_usable(session)
    assert found[0] == names[0]
    assert found[-1] == names[-1]
    assert len(names) - 20 < len(found) < len(names)


async def test_without_copy_and_history_the_report_counts_the_lost_entries(machine: Machine, tmp_path: Path) -> None:
    files = await files_with(tmp_path / "origin", IN_DATABASE, 0, with_copy=False)
    session = machine.start_session({**files, DATABASE: files[DATABASE][: len(files[DATABASE]) * 2 // 3]})
    opened = session.load(NOW)
    _check_usable(session)
    assert opened.report is not None
    missing = IN_DATABASE - len(workloads(opened))
    assert 0 < missing < IN_DATABASE
    assert f"{missing} of {IN_DATABASE} entries of kind 'workload' are lost" in opened.report.lost


async def test_a_power_failure_between_write_and_fsync_leaves_the_confirmed_commits(
    machine: Machine, tmp_path: Path
) -> None:
    """Any part of the last commit may be in the WAL: a prefix, or a file of full size whose end was never written."""
    store = SqliteStore(tmp_path / "origin" / DATABASE)
    await store.load()
    await add_revisions(store, 1, 5)
    before = files_in(tmp_path / "origin")
    await add_revisions(store, 6, 6)
    after = files_in(tmp_path / "origin")
    await store.close()
    written = len(after[WAL]) - len(before[WAL])
    for size in (*range(1, 100), *range(100, written, 997), written - 1):
        prefix = after[WAL][: len(before[WAL]) + size]
        for wal in (prefix, prefix.ljust(len(after[WAL]), b"\0")):
            opened = check_start(machine, {**before, WAL: wal}, 5)
            assert opened.report is None
            assert workloads(opened) == state_of(5)


@pytest.mark.parametrize("crash_at", [1, 2, 3])
def test_a_repair_that_was_interrupted_is_completed(
    machine: Machine, intact: Files, monkeypatch: pytest.MonkeyPatch, crash_at: int
) -> None:
    """A crash before the database, its WAL, or the new database gets its name."""
    machine.write({**intact, DATABASE: intact[DATABASE][:PAGE]})
    names_given = 0

    def give_name(source: Path, target: Path) -> Path:
        nonlocal names_given
        names_given += 1
        if names_given == crash_at:
            raise Crash
        os.rename(source, target)
        return target

    session = SqliteSession(machine.folder / DATABASE)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(Path, "rename", give_name)
        patched.setattr(Path, "replace", give_name)
        session.load(NOW)
    session.close()

    session = SqliteSession(machine.folder / DATABASE)
    opened = session.load(NOW)
    assert opened.report is not None
    assert "a repair was interrupted and is complete now" in str(opened.report)
    assert workloads(opened) == state_of(NEWEST)
    _check_usable(session)
