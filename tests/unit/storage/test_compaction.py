import asyncio

import pytest

from ankaios.storage.etcd.compaction import INTERVAL, HistoryCompactor
from ankaios.storage.etcd.etcd_client import EtcdClient
from ankaios.storage.state_store import StorageFailed


class RecordingClient(EtcdClient):
    def __init__(self) -> None:
        self.compacted: list[int] = []
        self.fails = False

    async def compact(self, revision: int, limit: float) -> None:
        self.compacted.append(revision)
        if self.fails:
            raise StorageFailed("permission denied")


async def test_history_that_is_older_than_an_interval_is_removed() -> None:
    client, now = RecordingClient(), 0.0
    compactor = HistoryCompactor(client, lambda: now)
    for now, revision in ((0.0, 10), (1.0, 20), (INTERVAL, 30), (INTERVAL + 1, 40), (2 * INTERVAL, 50)):  # noqa: B007
        compactor.note_write(revision)
        await asyncio.sleep(0)
    assert client.compacted == [10, 30]
    await compactor.close()


async def test_a_failure_is_logged_and_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    client, now = RecordingClient(), 0.0
    client.fails = True
    compactor = HistoryCompactor(client, lambda: now)
    for revision in (10, 20, 30):
        compactor.note_write(revision)
        await asyncio.sleep(0)
        now += INTERVAL
    assert client.compacted == [10, 20]
    assert "The history of etcd is not compacted: permission denied" in caplog.text
