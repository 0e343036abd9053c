import asyncio
from collections.abc import Mapping

import pytest

from ankaios.storage import record_writer
from ankaios.storage.record_writer import RecordWriter
from ankaios.storage.state_store import JsonValue, StorageFailed
from tests.support.memory_store import MemoryStore


class WatchedStore(MemoryStore):
    """Counts the writes, and fails as the test requires."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.fails = False
        self.wrote = asyncio.Event()

    async def save_records(self, records: Mapping[str, JsonValue]) -> None:
        self.writes += 1
        self.wrote.set()
        if self.fails:
            raise StorageFailed("the disk is full")
        await super().save_records(records)


@pytest.fixture
def store() -> WatchedStore:
    return WatchedStore()


async def records_in(store: MemoryStore) -> Mapping[str, JsonValue]:
    return (await store.load()).records


async def test_records_of_several_workloads_are_written_together_and_the_newest_is_used(store: WatchedStore) -> None:
    writer = RecordWriter(store)
    running = asyncio.create_task(writer.run())
    writer.put("a", [1])
    writer.put("a", [1, 2])
    writer.put("b", [3])
    await asyncio.wait_for(store.wrote.wait(), 5)
    running.cancel()
    assert await records_in(store) == {"a": [1, 2], "b": [3]}
    assert store.writes == 1


async def test_none_removes_the_records_of_a_workload(store: WatchedStore) -> None:
    await store.save_records({"a": [1], "b": [2]})
    writer = RecordWriter(store)
    writer.put("a", None)
    await writer.flush()
    assert await records_in(store) == {"b": [2]}


async def test_records_that_could_not_be_written_are_written_later(
    store: WatchedStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(record_writer, "_RETRY_SECONDS", 0)
    store.fails = True
    writer = RecordWriter(store)
    writer.put("a", [1])
    writer.put("b", [1])
    running = asyncio.create_task(writer.run())
    await asyncio.wait_for(store.wrote.wait(), 5)
    writer.put("a", [2])
    store.fails = False
    store.wrote.clear()
    await asyncio.wait_for(store.wrote.wait(), 5)
    running.cancel()
    assert await records_in(store) == {"a": [2], "b": [1]}
    assert caplog.text.count("Records of workloads are not stored: the disk is full") == 1


async def test_without_changes_nothing_is_written(store: WatchedStore) -> None:
    await RecordWriter(store).flush()
    assert store.writes == 0
