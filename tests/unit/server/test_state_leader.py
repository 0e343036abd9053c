import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ankaios.common.errors import StartupFailed
from ankaios.common.messages import FromClient, FromServerMessage, Respond
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server import commit_queue
from ankaios.server.shell import ServerShell
from ankaios.server.state_leader import StartState, StateLeader
from ankaios.storage.leader_election import Candidate, SoleElection
from ankaios.storage.server_registry import LeaderInfo, PublishedServer, StorageMemberStatus
from ankaios.storage.state_store import (
    CommitUnknown,
    EntryChange,
    EntryKey,
    NotLeader,
    RecoveryReport,
    StateChange,
    StorageFailed,
)
from ankaios.storage.storage import Storage
from tests.support.memory_store import MemoryStore
from tests.unit.server.failing_store import FailingStore, until
from tests.unit.server.scenario import a_form, a_state

WEB, DB = EntryKey("workload", "web"), EntryKey("workload", "db")


class FakeMiddleware:
    def __init__(self) -> None:
        self.sent: asyncio.Queue[base.Response] = asyncio.Queue()
        self.refused: list[str | None] = []

    def dispatch(self, message: FromServerMessage) -> None:
        if isinstance(message, Respond):
            self.sent.put_nowait(message.response)

    def refuse_calls(self, text: str | None) -> None:
        self.refused.append(text)

    async def calls_ended(self) -> None:
        pass

    async def next(self) -> base.Response:
        async with asyncio.timeout(10):
            return await self.sent.get()


class FakeRegistry:
    """No other server is running."""

    async def leaders(self) -> AsyncIterator[LeaderInfo | None]:
        yield None

    async def publish(self, value: bytes) -> None:
        pass

    async def read(self) -> list[PublishedServer]:
        return []

    async def members(self) -> list[StorageMemberStatus]:
        return []

    async def close(self) -> None:
        pass


class Leading:
    def __init__(
        self, start: StartState | None = None, store: FailingStore | None = None, *, is_shared: bool = False
    ) -> None:
        self.store = store or FailingStore()
        self.election = SoleElection()
        self.middleware = FakeMiddleware()
        self.shell = ServerShell(None, ())
        self.shell.middleware = self.middleware  # type: ignore[assignment]
        storage = Storage(self.store, self.election, FakeRegistry() if is_shared else None)
        self.leader = StateLeader(self.shell, storage, (), start or StartState(), Candidate("s", "u"))

    async def update(self, name: str, request_id: str = "1") -> None:
        content = base.UpdateStateRequest(
            newState=COMPLETE_STATE.from_form(a_state({name: a_form()})), updateMask=[f"desiredState.workloads.{name}"]
        )
        await self.shell.to_server.send(
            FromClient("cli-conn-1", base.Request(requestId=f"cli-conn-1@{request_id}", updateStateRequest=content))
        )

    async def names(self) -> set[str]:
        return {key.name for key in self.store._entries}

    async def until_open(self) -> None:
        await until(lambda: self.shell.is_open and self.shell.commits.problem is None)


@asynccontextmanager
async def leading(**options: Any) -> AsyncIterator[Leading]:
    it = Leading(**options)
    await it.leader.begin()
    tasks = [asyncio.create_task(it.leader.run(), name="leader"), asyncio.create_task(it.shell.run(), name="shell")]
    yield it
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.fixture(autouse=True)
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_queue, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr("ankaios.server.state_leader._LONGEST_RETRY", 0.01)


async def test_an_update_is_answered_when_it_is_stored() -> None:
    async with leading() as it:
        it.store.go.clear()
        await it.update("web")
        await asyncio.sleep(0.01)
        assert it.middleware.sent.empty()
        it.store.go.set()
        assert (await it.middleware.next()).HasField("UpdateStateSuccess")
        assert await it.names() == {"web"}


async def test_a_change_that_is_not_stored_is_rejected_and_the_stored_state_counts() -> None:
    async with leading() as it:
        it.store.failures = [StorageFailed("disk full")]
        it.store.failed_checks = [StorageFailed("disk full")]
        await it.update("web")
        assert (await it.middleware.next()).error.message == "the change could not be stored: disk full"
        await it.until_open()
        assert it.middleware.refused == [None, "the server has to load its state again: disk full", None]
        await it.update("db", "2")
        assert (await it.middleware.next()).HasField("UpdateStateSuccess")
        assert await it.names() == {"db"}


async def test_updates_are_rejected_while_nothing_can_be_stored() -> None:
    async with leading() as it:
        it.store.failed_checks = [StorageFailed("disk full")] * 1000
        it.store.failures = [StorageFailed("disk full")]
        await it.update("web")
        await it.middleware.next()
        await until(lambda: it.shell.is_open)
        await it.update("web", "2")
        text = "Update rejected: 'the state cannot be stored: disk full'"
        assert (await it.middleware.next()).error.message == text
        assert len(it.middleware.refused) == 3


@pytest.mark.parametrize(
    ("is_stored", "expected"), [(True, ""), (False, "the change could not be stored: no response")]
)
async def test_the_result_of_an_unknown_commit_is_read_from_the_store(is_stored: bool, expected: str) -> None:
    async with leading() as it:
        it.store.failures, it.store.stores_failed = [CommitUnknown("no response")], is_stored
        await it.update("web")
        assert (await it.middleware.next()).error.message == expected
        await it.until_open()
        assert await it.names() == ({"web"} if is_stored else set())


async def test_an_unknown_commit_of_a_store_that_cannot_be_read_is_reported_as_unknown() -> None:
    async with leading() as it:
        it.store.failures, it.store.stores_failed = [CommitUnknown("no response")], True
        it.store.failed_loads = [StorageFailed("gone"), StorageFailed("gone")]
        await it.update("web")
        message = (await it.middleware.next()).error.message
        assert message == "it is not known whether the change is stored: no response"
        await it.until_open()


async def test_a_server_that_does_not_lead_any_more_stops_and_campaigns_again() -> None:
    async with leading() as it:
        it.store.failures = [NotLeader("another leads", stored=False)]
        await it.update("web")
        assert (await it.middleware.next()).error.message == "the change could not be stored: another leads"
        await it.until_open()
        assert it.election.leadership is not None
        first = it.election.leadership
        first.end("the lease is over")
        await until(lambda: it.election.leadership is not first and it.shell.is_open)


async def test_a_state_that_was_loaded_in_an_earlier_leadership_is_not_used() -> None:
    async with leading(is_shared=True) as it:
        first = it.election.leadership
        assert first is not None

        async def another_server_leads() -> None:
            if first.is_valid:
                first.end("the lease is over")
                await MemoryStore.commit(
                    it.store, [StateChange((EntryChange("workload", "db", None, {**a_form(), "agent": "b"}),))]
                )

        it.middleware.calls_ended = another_server_leads  # type: ignore[method-assign]
        it.store.failures = [CommitUnknown("no response")]
        await it.update("web")
        await it.middleware.next()
        await until(lambda: it.shell.is_open and it.election.leadership is not first)
        assert it.shell._server is not None
        assert set(it.shell._server.state.desired["workloads"]) == {"db"}


async def test_metrics_show_storage_and_leadership() -> None:
    async with leading() as it:
        metrics = it.shell.metrics
        await it.update("web")
        await it.middleware.next()
        assert metrics.is_leader.read() == {(): 1}
        assert metrics.term.read() == {(): 0}
        assert metrics.store_revision.read() == {("memory",): 1}
        assert metrics.store_usable.read() == {("memory",): 1}
        assert metrics.store_damaged.read() == {("memory",): 0}
        assert metrics.desired.read() == {(): 1}
        it.leader.loss = "workloads are lost"
        assert metrics.store_damaged.read() == {("memory",): 1}
        it.store.failures = [StorageFailed("disk full")]
        it.store.failed_checks = [StorageFailed("disk full")] * 1000
        await it.update("db", "2")
        await until(lambda: metrics.store_usable.read() == {("memory",): 0})
    await it.election.resign()
    assert metrics.is_leader.read() == {(): 0}


async def test_a_server_that_shares_its_state_has_a_term_while_it_leads() -> None:
    async with leading(is_shared=True) as it:
        assert it.shell.metrics.term.read() == {(): 1}
        await it.election.resign()
        assert it.shell.metrics.term.read() == {(): 0}


async def test_nothing_is_sent_after_the_end_of_the_leadership() -> None:
    it = Leading()
    await it.leader.begin()
    assert it.election.leadership is not None
    it.election.leadership.end("over")
    running = asyncio.create_task(it.shell.run(), name="shell")
    content = base.CompleteStateRequest(fieldMask=["agents"])
    await it.shell.to_server.send(
        FromClient("cli-conn-1", base.Request(requestId="cli-conn-1@1", completeStateRequest=content))
    )
    await asyncio.sleep(0.01)
    assert it.middleware.sent.empty()
    running.cancel()
    await asyncio.wait([running])


async def test_an_internal_error_in_a_change_returns_to_the_stored_state(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with leading() as it:
        assert it.shell._server is not None
        monkeypatch.setattr(it.shell._server._devices, "desired_changed", lambda *_: 1 / 0)
        await it.update("web")
        assert "ZeroDivisionError" in (await it.middleware.next()).error.message
        await until(lambda: len(it.middleware.refused) >= 3)
        await it.update("db", "2")
        assert (await it.middleware.next()).HasField("UpdateStateSuccess")
        assert await it.names() == {"db"}
    assert "an internal error has interrupted a change" in caplog.text


@pytest.mark.parametrize("is_stored", [True, False])
async def test_the_result_of_a_commit_that_an_internal_error_interrupts_is_read_from_the_store(
    monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    async with leading() as it:
        it.store.go.clear()
        it.store.stores_failed = is_stored
        await it.update("web")
        await until(lambda: len(it.store.batches) == 1)
        assert it.shell._server is not None
        monkeypatch.setattr(it.shell._server._devices, "desired_changed", lambda *_: 1 / 0)
        await it.update("db", "2")
        responses = {each.requestId: each for each in (await it.middleware.next(), await it.middleware.next())}
        it.store.go.set()
        text = "the change could not be stored: an internal error has interrupted a change"
        assert responses["cli-conn-1@1"].HasField("UpdateStateSuccess") is is_stored
        assert responses["cli-conn-1@1"].error.message == ("" if is_stored else text)
        assert responses["cli-conn-1@2"].error.message == text
        await it.until_open()
        assert await it.names() == ({"web"} if is_stored else set())


def a_manifest(*names: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "workloads": {name: a_form() for name in names}}


async def test_the_startup_manifest_seeds_an_empty_store_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    store = FailingStore()
    async with leading(start=StartState(a_manifest("web")), store=store) as it:
        assert await it.names() == {"web"}
        assert it.shell.metrics.commits.values == {("memory", "ok"): 1}
    async with leading(start=StartState(a_manifest("db")), store=store) as it:
        assert await it.names() == {"web"}
    assert caplog.text.count("The startup manifest is not applied, because the store has a state (revision 1)") == 1
    async with leading(start=StartState(a_manifest("db"), applies_always=True), store=store) as it:
        assert await it.names() == {"web", "db"}


async def test_an_unreadable_manifest_prevents_the_start_only_of_an_empty_store(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = StartState(StartupFailed("cannot", "read"))
    store = FailingStore()
    with pytest.raises(StartupFailed, match="cannot"):
        await Leading(broken, store).leader.begin()
    async with leading(start=StartState(a_manifest("web")), store=store):
        pass
    async with leading(start=broken, store=store) as it:
        assert await it.names() == {"web"}
    assert "The startup manifest cannot be used, the stored state is" in caplog.text


async def test_a_store_that_cannot_be_read_prevents_the_start() -> None:
    it = Leading()
    it.store.failed_loads = [StorageFailed("used by another server")]
    with pytest.raises(StartupFailed, match="Could not use the storage: 'used by another server'"):
        await it.leader.begin()


def damaged(store: FailingStore, *lost: str) -> None:
    store.report = RecoveryReport("the database is damaged", lost, "kept")


async def test_a_loss_counts_until_an_operator_confirms_it(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore()
    async with leading(start=StartState(a_manifest("web")), store=store) as it:
        assert it.leader.loss is None
    damaged(store, "workload 'db'")
    async with leading(store=store) as it:
        assert it.leader.loss is not None
        assert "workload 'db'" in it.leader.loss
        assert it.shell.servers()[0].problem == it.leader.loss
        assert it.shell._server is not None
        assert it.shell._server._agents._keeps_unlisted
    assert "Workloads that are not in the state are not deleted" in caplog.text
    async with leading(store=store) as it:
        assert it.leader.loss is not None
    async with leading(start=StartState(accepts_loss=True), store=store) as it:
        assert it.leader.loss is None
    async with leading(store=store) as it:
        assert it.leader.loss is None
        assert await it.names() == {"web"}


async def test_damage_without_loss_is_only_reported(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore()
    damaged(store)
    async with leading(store=store) as it:
        assert it.leader.loss is None
    assert "The stored state was damaged" in caplog.text


async def test_an_empty_damaged_store_uses_the_startup_manifest() -> None:
    store = FailingStore()
    store._last_revision = 5
    damaged(store, "everything")
    async with leading(start=StartState(a_manifest("web")), store=store) as it:
        assert "web" in await it.names()
        assert it.leader.loss is not None
