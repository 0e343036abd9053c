import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from ankaios.server import commit_queue
from ankaios.server.commit_queue import MOST_WAITING, CommitQueue
from ankaios.server.core.replies import Decision, DropAgent, Effect
from ankaios.server.metrics import ServerMetrics
from ankaios.storage.state_store import CommitUnknown, EntryChange, EntryKey, Revision, StateChange, StorageFailed
from tests.unit.server.failing_store import FailingStore, until


def an_effect(name: str) -> Effect:
    return DropAgent(name, "")


def a_decision(name: str, *, changes: bool = True, revision: bool = True, entries: int = 1) -> Decision:
    if not changes:
        return Decision([an_effect(name)])
    changed = tuple(EntryChange("workload", f"{name}{number}", None, 1) for number in range(entries))
    return Decision([an_effect(name)], StateChange(changed, Revision(1, 0.0, "", (), ()) if revision else None))


class Running:
    def __init__(self) -> None:
        self.store = FailingStore()
        self.performed: list[str] = []
        self.metrics = ServerMetrics()
        self.queue = CommitQueue(self.perform, self.metrics)
        self.task: asyncio.Task[StorageFailed] | None = None

    def perform(self, effects: Iterable[Effect]) -> None:
        self.performed += [effect.agent for effect in effects if isinstance(effect, DropAgent)]

    async def until(self, *names: str) -> None:
        await until(lambda: self.performed == list(names))


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    it = Running()
    it.queue.open(it.store)
    it.task = asyncio.create_task(it.queue.run(), name="commits")
    await asyncio.sleep(0)
    yield it
    it.task.cancel()
    await asyncio.wait([it.task])


async def test_effects_are_sent_after_the_commit_and_in_order() -> None:
    async with running() as it:
        it.store.go.clear()
        it.queue.submit(a_decision("a"))
        it.queue.submit(a_decision("b", changes=False))
        await asyncio.sleep(0.01)
        assert it.performed == []
        it.store.go.set()
        await it.until("a", "b")


async def test_commits_are_counted_by_result_and_timed_for_each_store() -> None:
    async with running() as it:
        it.store.failures = [StorageFailed("disk full")]
        it.queue.submit(a_decision("a", revision=False))
        await it.until("a")
        assert it.metrics.commits.values == {("memory", "failed"): 1}
        it.queue.submit(a_decision("b"))
        await it.until("a", "b")
        assert it.metrics.commits.values == {("memory", "failed"): 1, ("memory", "ok"): len(it.store.batches) - 1}
        assert sum(it.metrics.commit_seconds.values["memory",].counts) == len(it.store.batches)


async def test_effects_without_a_change_are_sent_immediately_if_nothing_waits() -> None:
    async with running() as it:
        it.queue.submit(a_decision("a", changes=False))
        assert it.performed == ["a"]


async def test_without_a_store_effects_are_sent_immediately() -> None:
    it = Running()
    it.queue.submit(a_decision("a"))
    assert it.performed == ["a"]


async def test_changes_that_arrive_during_a_commit_share_the_next_one() -> None:
    async with running() as it:
        it.store.go.clear()
        it.queue.submit(a_decision("a"))
        await asyncio.sleep(0.01)
        for name in "bcd":
            it.queue.submit(a_decision(name))
        it.store.go.set()
        await it.until("a", "b", "c", "d")
        assert [len(batch) for batch in it.store.batches] == [1, 3]


async def test_a_commit_has_a_limited_number_of_entries() -> None:
    async with running() as it:
        it.store.go.clear()
        it.queue.submit(a_decision("a"))
        await asyncio.sleep(0.01)
        for name in "bcd":
            it.queue.submit(a_decision(name, entries=60))
        it.store.go.set()
        await it.until("a", "b", "c", "d")
        assert [len(batch) for batch in it.store.batches] == [1, 1, 1, 1]


async def test_the_number_of_waiting_decisions_is_limited() -> None:
    async with running() as it:
        it.store.go.clear()
        for number in range(MOST_WAITING):
            it.queue.submit(a_decision(str(number)))
        waiting = asyncio.create_task(it.queue.room(), name="room")
        await asyncio.sleep(0.01)
        assert not waiting.done()
        it.store.go.set()
        async with asyncio.timeout(10):
            await waiting


@pytest.mark.parametrize("failure", [StorageFailed("full"), CommitUnknown("slow")])
async def test_the_effects_of_a_failed_change_and_of_later_changes_are_not_sent(failure: StorageFailed) -> None:
    async with running() as it:
        it.store.go.clear()
        it.store.failures = [failure]
        it.queue.submit(a_decision("a"))
        await asyncio.sleep(0.01)
        it.queue.submit(a_decision("b", changes=False))
        it.store.go.set()
        assert it.task is not None
        assert await it.task is failure
        unfinished = it.queue.close()
        assert [decision.effects for decision in unfinished.committing] == [[an_effect("a")]]
        assert [decision.effects for decision in unfinished.waiting] == [[an_effect("b")]]
        assert it.performed == []
        assert it.queue.problem == str(failure)


async def test_the_effects_of_a_server_decision_are_sent_before_it_is_stored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(commit_queue, "_RETRY_SECONDS", 0.01)
    async with running() as it:
        it.store.failures = [StorageFailed("full"), StorageFailed("full")]
        it.store.failed_checks = [StorageFailed("still full")]
        it.queue.submit(a_decision("a", revision=False))
        await it.until("a")
        it.queue.submit(a_decision("b", revision=False))
        await it.until("a", "b")
        await until(lambda: it.queue.problem is None)
        assert (await it.store.load()).entries.keys() == {EntryKey("workload", "a0"), EntryKey("workload", "b0")}
    assert caplog.text.count("Decisions of the server are not stored yet: full") == 1


def many_effects(count: int = 100, *, changes: bool = True) -> Decision:
    return Decision([an_effect(str(number)) for number in range(count)], a_decision("a").change if changes else None)


@pytest.mark.parametrize("has_store", [True, False])
async def test_many_effects_are_sent_in_parts_and_in_order(has_store: bool) -> None:
    async with running() as it:
        if not has_store:
            it.queue.close()
        counts: list[int] = []
        sending = asyncio.create_task(it.queue.submit_long(many_effects()))
        while len(it.performed) < 100:
            counts.append(len(it.performed))
            await asyncio.sleep(0)
        await sending
        it.queue.submit(a_decision("next", changes=False))
        await it.until(*map(str, range(100)), "next")
        assert len(set(counts)) > 3


async def test_unsent_effects_of_a_stored_change_are_returned_as_stored() -> None:
    async with running() as it:
        it.queue.submit(many_effects())
        while not it.performed:  # noqa: ASYNC110
            await asyncio.sleep(0)
        it.queue.submit(a_decision("next"))
        unfinished = it.queue.close()
        left = [effect for decision in unfinished.stored for effect in decision.effects]
        assert [*map(an_effect, it.performed), *left] == many_effects().effects
        assert left
        assert unfinished.waiting == [a_decision("next")]
