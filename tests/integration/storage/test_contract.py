"""The behaviour that a server requires of every store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ankaios.storage.state_store import EntryChange, EntryKey, JsonValue, StateChange, StateStore, Stored
from tests.integration.storage.subjects import DURABLE_SUBJECTS, SUBJECTS, StoreSubject, make_subject
from tests.unit.storage.changes import a_change, a_revision, a_workload


@pytest.fixture(params=SUBJECTS)
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreSubject]:
    async with make_subject(request.param, tmp_path, request) as made:
        yield made


@pytest.fixture
async def store(subject: StoreSubject) -> StateStore:
    opened = await subject.open()
    assert await opened.load() == Stored()
    return opened


async def after_restart(subject: StoreSubject) -> Stored:
    return await (await subject.open()).load()


def workloads(stored: Stored) -> dict[str, JsonValue]:
    return {key.name: value for key, value in stored.entries.items() if key.kind == "workload"}


async def test_committed_entries_are_loaded_after_a_restart(subject: StoreSubject, store: StateStore) -> None:
    await store.commit([a_change(1, "web", {"a": 1}), a_change(2, "db", {"b": 2})])
    await store.commit([a_change(3, "web", {"a": 3}, {"a": 1})])
    stored = await after_restart(subject)
    assert stored.entries == {
        EntryKey("workload", "web"): {"a": 3},
        EntryKey("workload", "db"): {"b": 2},
        EntryKey("placement", "web"): {"agent": "agent_3"},
        EntryKey("placement", "db"): {"agent": "agent_2"},
    }
    assert stored.report is None


async def test_removed_entries_stay_removed(subject: StoreSubject, store: StateStore) -> None:
    await store.commit([a_change(1, "web", 1), a_change(2, "db", 2)])
    await store.commit([a_change(3, "web", None, 1), a_change(4, "never", None)])
    assert workloads(await after_restart(subject)) == {"db": 2}


async def test_the_last_value_of_an_entry_in_one_commit_counts(subject: StoreSubject, store: StateStore) -> None:
    await store.commit([a_change(1, "web", 1), a_change(2, "web", None, 1), a_change(3, "web", 3), a_change(4, "x", 1)])
    assert workloads(await after_restart(subject)) == {"web": 3, "x": 1}


async def test_the_history_is_loaded_in_order_and_as_it_was_committed(subject: StoreSubject, store: StateStore) -> None:
    changes = [a_change(number, "web", {"n": number}, {"n": number - 1}) for number in range(1, 13)]
    for change in changes:
        await store.commit([change])
    stored = await after_restart(subject)
    assert stored.revisions == tuple(change.revision for change in changes)
    assert stored.last_revision == 12


async def test_dropped_revisions_are_gone_and_their_numbers_are_not_used_again(
    subject: StoreSubject, store: StateStore
) -> None:
    await store.commit([a_change(1, "web", 1), a_change(2, "web", 2, 1), a_change(3, "web", 3, 2)])
    await store.commit([StateChange((), None, (1, 3))])
    stored = await after_restart(subject)
    assert [revision.number for revision in stored.revisions] == [2]
    assert stored.last_revision == 3


async def test_any_json_value_and_any_name_is_loaded_as_it_was_committed(
    subject: StoreSubject, store: StateStore
) -> None:
    values: dict[str, JsonValue] = {
        "a/b/c": {"deep": [[{"x": None}], 1, -2.5, True, False]},
        "näme ☃": "text with \0 and \U0001f600",
        "x" * 2000: [],
        "..": {},
        "a": "",
        "a0": 0,
        "\x01\n%": False,
    }
    changes = tuple(EntryChange("config", name, None, value) for name, value in values.items())
    await store.commit([StateChange(changes, a_revision(1, changes))])
    stored = await after_restart(subject)
    assert stored.entries == {EntryKey("config", name): value for name, value in values.items()}
    assert stored.revisions == (a_revision(1, changes),)


async def test_a_change_of_10_000_entries_is_stored_completely_and_can_be_removed_at_once(
    subject: StoreSubject, store: StateStore
) -> None:
    values = {f"w{number}": a_workload(number) for number in range(10_000)}
    added = tuple(EntryChange("workload", name, None, value) for name, value in values.items())
    await store.commit([StateChange(added, a_revision(1, added))])
    stored = await after_restart(subject)
    assert workloads(stored) == values
    assert stored.revisions == (a_revision(1, added),)

    again = await subject.open()
    await again.load()
    removed = tuple(EntryChange("workload", name, value, None) for name, value in values.items())
    await again.commit([StateChange(removed, a_revision(2, removed), (1,))])
    stored = await after_restart(subject)
    assert stored.entries == {}
    assert stored.revisions == (a_revision(2, removed),)


async def test_large_values_are_stored_and_can_become_small_again(subject: StoreSubject, store: StateStore) -> None:
    large = {"runtimeConfig": "ü" * 2_000_000}
    await store.commit([a_change(1, "web", large), a_change(2, "other", 1)])
    stored = await after_restart(subject)
    assert workloads(stored) == {"web": large, "other": 1}
    assert stored.revisions[0] == a_change(1, "web", large).revision

    again = await subject.open()
    await again.load()
    await again.commit([a_change(3, "web", "small", large)])
    assert workloads(await after_restart(subject)) == {"web": "small", "other": 1}


@pytest.mark.parametrize("subject", DURABLE_SUBJECTS, indirect=True)
async def test_values_that_change_after_a_commit_do_not_change_what_is_stored(
    subject: StoreSubject, store: StateStore
) -> None:
    value = {"a": 1}
    await store.commit([a_change(1, "web", value)])
    value["a"] = 2
    assert workloads(await after_restart(subject)) == {"web": {"a": 1}}


async def test_an_empty_commit_changes_nothing(subject: StoreSubject, store: StateStore) -> None:
    await store.commit([])
    await store.commit([StateChange(())])
    assert (await after_restart(subject)).entries == {}


async def test_records_are_replaced_and_removed(subject: StoreSubject, store: StateStore) -> None:
    await store.save_records({"web": [{"state": "Pending"}], "db": [1], "a/b": [2]})
    await store.save_records({"web": [{"state": "Pending"}, {"state": "Running"}], "db": None, "never": None})
    assert (await after_restart(subject)).records == {"web": [{"state": "Pending"}, {"state": "Running"}], "a/b": [2]}


async def test_the_records_of_10_000_workloads_are_stored(subject: StoreSubject, store: StateStore) -> None:
    records = {f"w{number}": [{"state": "Running", "time": number}] * 20 for number in range(10_000)}
    await store.save_records(records)
    assert (await after_restart(subject)).records == records


async def test_the_status_names_the_store_and_its_revision(subject: StoreSubject, store: StateStore) -> None:
    await store.commit([a_change(5, "web", 1)])
    await store.check()
    status = store.status()
    assert (status.kind, status.revision, status.problem) == (subject.name, 5, None)
    assert status.location.startswith(f"{subject.name}:")
    assert (status.size > 0) == (subject.name != "memory")


async def test_a_store_can_be_loaded_again_while_it_is_open(store: StateStore) -> None:
    await store.commit([a_change(1, "web", 1)])
    assert workloads(await store.load()) == {"web": 1}
    await store.commit([a_change(2, "db", 2)])
    assert workloads(await store.load()) == {"web": 1, "db": 2}
