"""The etcd store when requests, responses, members or a leader are lost: a commit is stored once, or not at all."""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from ankaios.grpc.addresses import TcpAddress
from ankaios.storage.core.etcd_layout import FORMAT
from ankaios.storage.core.etcd_transactions import put_key
from ankaios.storage.etcd.etcd_client import EtcdClient
from ankaios.storage.etcd.etcd_members import EtcdUnavailable
from ankaios.storage.etcd.etcd_reader import read_pairs
from ankaios.storage.pb.etcd_api_pb2 import Compare, RangeRequest, TxnRequest
from ankaios.storage.state_store import (
    CommitUnknown,
    EntryChange,
    EntryKey,
    JsonValue,
    NotLeader,
    StateChange,
    StorageFailed,
    Stored,
)
from ankaios.storage.storage_url import EtcdLocation
from tests.integration.storage.etcd_cluster import HOST, EtcdCluster, etcdctl_program
from tests.integration.storage.etcd_servers import LIMIT, EtcdServer
from tests.integration.storage.sqlite_states import workloads
from tests.support.cluster import free_port
from tests.unit.storage.changes import a_change, a_revision, a_workload


@pytest.fixture
def location(etcd_cluster: EtcdCluster) -> EtcdLocation:
    return etcd_cluster.location(f"/test/{secrets.token_hex(4)}")


@pytest.fixture
async def server(location: EtcdLocation) -> AsyncIterator[EtcdServer]:
    made = EtcdServer(location)
    await made.lead_and_load()
    yield made
    await made.close()


async def loaded_by_another(location: EtcdLocation) -> Stored:
    """The state that the next leader loads."""
    other = EtcdServer(location, "other")
    try:
        return await other.lead_and_load()
    finally:
        await other.close()


def a_large_change(count: int = 300, size: int = 6000) -> tuple[StateChange, dict[str, JsonValue]]:
    """A change that needs several parts and many transactions."""
    values = {f"w{number}": a_workload(number, size) for number in range(count)}
    entries = tuple(EntryChange("workload", name, None, value) for name, value in values.items())
    return StateChange(entries, a_revision(2, entries)), values


async def test_a_commit_whose_response_was_lost_is_stored_once(server: EtcdServer, location: EtcdLocation) -> None:
    server.client.after = frozenset({1, 2})
    await server.store.commit([a_change(1, "web", 1)])
    await server.store.commit([a_change(2, "web", 2, 1)])
    await server.election.resign()
    stored = await loaded_by_another(location)
    assert workloads(stored) == {"web": 2}
    assert [revision.number for revision in stored.revisions] == [1, 2]


async def test_a_commit_that_etcd_executes_and_then_rejects_is_stored(server: EtcdServer) -> None:
    """etcd does that with the transaction that exceeds its space."""
    server.client.rejected = frozenset({1})
    await server.store.commit([a_change(1, "web", 1)])
    await server.store.commit([a_change(2, "web", 2, 1)])
    assert workloads(await server.store.load()) == {"web": 2}


async def test_a_commit_whose_request_was_lost_is_repeated(server: EtcdServer) -> None:
    server.client.before = frozenset({1, 2, 3})
    await server.store.commit([a_change(1, "web", 1)])
    assert server.client.count == 4
    assert workloads(await server.store.load()) == {"web": 1}


@pytest.mark.parametrize("is_stored", [True, False])
async def test_the_result_of_a_lost_commit_is_found_out_by_the_next_load(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    await server.store.commit([a_change(1, "web", 1)])
    lost = frozenset(range(2, 100_000))
    server.client.after, server.client.before = (lost, frozenset()) if is_stored else (frozenset(), lost)
    monkeypatch.setattr("ankaios.storage.etcd.guarded_writer.WRITE_LIMIT", 2.0)
    with pytest.raises(CommitUnknown, match="it is not known whether the change is stored"):
        await server.store.commit([a_change(2, "web", 2, 1)])
    with pytest.raises(StorageFailed, match="has to be loaded first"):
        await server.store.commit([a_change(3, "web", 3)])
    assert server.store.status().problem is not None
    server.client.after = server.client.before = frozenset()
    stored = await server.store.load()
    assert stored.unknown_commit_stored is is_stored
    assert workloads(stored) == {"web": 2 if is_stored else 1}
    await server.store.commit([a_change(4, "web", 4)])
    assert (await server.store.load()).unknown_commit_stored is None


async def test_a_former_leader_detects_whether_its_last_commit_was_stored(
    server: EtcdServer, location: EtcdLocation
) -> None:
    server.client.after = frozenset(range(1, 100_000))
    server.client.is_frozen = True
    with pytest.raises(NotLeader) as failed:
        await server.store.commit([a_change(1, "web", 1)])
    assert failed.value.stored is None
    other = EtcdServer(location, "other")
    await other.lead_and_load()
    await other.store.commit([a_change(2, "web", 2, 1)])
    await other.close()
    server.client.after, server.client.is_frozen = frozenset(), False
    stored = await server.lead_and_load()
    assert stored.unknown_commit_stored is True
    assert workloads(stored) == {"web": 2}


async def test_a_leader_that_crashes_during_a_large_commit_leaves_all_of_it_or_nothing(
    location: EtcdLocation,
) -> None:
    """After any last transaction the next leader finds a complete change and removes everything else."""
    change, values = a_large_change()
    first = {"before": "large change"}
    outcomes = []
    for crash_at in range(40):
        crashed = EtcdServer(EtcdLocation(location.endpoints, f"{location.prefix}/{crash_at}"))
        await crashed.lead_and_load()
        await crashed.store.commit([a_change(1, "before", "large change")])
        crashed.client.count, crashed.client.crash_at = 0, crash_at
        committing = asyncio.create_task(crashed.store.commit([change]))
        await asyncio.wait({committing, asyncio.create_task(_all_sent(crashed))}, return_when="FIRST_COMPLETED")
        is_confirmed = committing.done()
        committing.cancel()
        await asyncio.wait({committing})
        await crashed.election.resign()

        stored = await _next_leader(crashed)
        assert workloads(stored) in (first, {**first, **values})
        is_stored = workloads(stored) != first
        assert is_stored or not is_confirmed
        assert [revision.number for revision in stored.revisions] == ([1, 2] if is_stored else [1])
        outcomes.append(is_stored)
        crashed.client.close()
        if is_confirmed:
            break
    assert outcomes == sorted(outcomes)
    assert outcomes.count(False) > 2
    assert outcomes.count(True) > 2


async def _all_sent(server: EtcdServer) -> None:
    """Until the server has reached the transaction at which it crashes."""
    assert server.client.crash_at is not None
    while server.client.count <= server.client.crash_at:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)  # transactions that are sent at the same time


async def _next_leader(crashed: EtcdServer) -> Stored:
    other = EtcdServer(crashed.location, "other")
    stored = await other.lead_and_load()
    keys = await read_pairs(other.client, other.keys)
    assert not [key for key in keys if key.startswith(other.keys.parts) or key == other.keys.journal]
    assert stored.report is None
    assert await other.store.load() == stored
    await other.close()
    return stored


async def test_a_large_change_that_is_not_applied_yet_is_applied_before_the_next_one(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, values = a_large_change()
    with monkeypatch.context() as patched:
        patched.setattr("ankaios.storage.etcd.guarded_writer.WRITE_LIMIT", 2.0)
        server.client.is_lost = lambda request: request.compare[-1].target == Compare.VALUE and (
            request.compare[-1].key == server.keys.journal
        )
        await server.store.commit([change])
    pairs = await read_pairs(server.client, server.keys)
    assert server.keys.journal in pairs
    assert server.keys.entry(EntryKey("workload", "w1")) not in pairs

    server.client.is_lost = lambda request: False
    await server.store.commit([a_change(3, "w1", "new")])
    assert server.keys.journal not in await read_pairs(server.client, server.keys)
    assert workloads(await server.store.load()) == {**values, "w1": "new"}


async def test_a_large_change_whose_parts_cannot_be_written_is_not_stored_and_the_next_commit_works(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, _ = a_large_change()
    monkeypatch.setattr("ankaios.storage.etcd.guarded_writer.WRITE_LIMIT", 2.0)
    server.client.is_lost = lambda request: request.success[0].request_put.key.startswith(server.keys.parts)
    with pytest.raises(StorageFailed) as failed:
        await server.store.commit([change])
    assert not isinstance(failed.value, CommitUnknown)
    await server.store.commit([a_change(2, "web", 1)])
    assert workloads(await server.store.load()) == {"web": 1}


async def test_pages_become_smaller_if_values_are_large(server: EtcdServer, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {f"w{number}": a_workload(number, 40_000) for number in range(100)}
    entries = tuple(EntryChange("workload", name, None, value) for name, value in values.items())
    await server.store.commit([StateChange(entries)])
    monkeypatch.setattr("ankaios.storage.etcd.etcd_members.MAX_RESPONSE", 1_000_000)
    assert workloads(await server.store.load()) == values


async def test_a_killed_member_does_not_stop_commits(own_cluster: EtcdCluster) -> None:
    """First the member that the client uses, then, after a restart, the leader of etcd."""
    server = EtcdServer(own_cluster.location("/test"))
    await server.lead_and_load()
    confirmed = 0
    for kill_leader in (False, True):
        member = own_cluster.leader() if kill_leader else own_cluster.members[0]
        for _ in range(20):
            confirmed = await _commit_next(server, confirmed)
        member.kill()
        for _ in range(20):
            confirmed = await _commit_next(server, confirmed)
        own_cluster.start(member)
        own_cluster.wait_until_healthy()
    stored = await server.lead_and_load()
    assert workloads(stored) == {f"w{number}": number for number in range(1, confirmed + 1)}
    await server.close()


async def _commit_next(server: EtcdServer, confirmed: int) -> int:
    """Commit, and lead again if the election of a leader of etcd took longer than the lease."""
    number = confirmed + 1
    try:
        await server.store.commit([a_change(number, f"w{number}", number)])
    except NotLeader as failure:
        stored = await server.lead_and_load()
        if failure.stored is False or stored.unknown_commit_stored is False:
            await server.store.commit([a_change(number, f"w{number}", number)])
    return number


async def test_a_stopped_member_does_not_stop_commits(own_cluster: EtcdCluster) -> None:
    server = EtcdServer(own_cluster.location("/test"))
    await server.lead_and_load()
    follower = next(member for member in own_cluster.members if member is not own_cluster.leader())
    confirmed = await _commit_next(server, 0)
    follower.send(signal.SIGSTOP)
    try:
        for _ in range(10):
            confirmed = await _commit_next(server, confirmed)
    finally:
        follower.send(signal.SIGCONT)
    assert len(workloads(await server.store.load())) == confirmed
    await server.close()


async def test_without_a_majority_a_commit_fails_within_the_lease_and_its_result_is_found_out_later(
    own_cluster: EtcdCluster,
) -> None:
    server = EtcdServer(own_cluster.location("/test"))
    await server.lead_and_load()
    await server.store.commit([a_change(1, "web", 1)])
    for member in own_cluster.members[1:]:
        member.kill()
    leadership = server.election.leadership
    assert leadership is not None
    async with asyncio.timeout(10):
        with pytest.raises(NotLeader, match="does not lead any more"):
            await server.store.commit([a_change(2, "web", 2, 1)])
    assert leadership.lost.is_set()
    campaign = asyncio.create_task(server.election.campaign())
    await asyncio.sleep(1)
    assert not campaign.done()
    for member in own_cluster.members[1:]:
        own_cluster.start(member)
    await asyncio.wait_for(campaign, LIMIT)
    stored = await server.store.load()
    assert stored.unknown_commit_stored in (True, False)
    assert workloads(stored) == {"web": 2 if stored.unknown_commit_stored else 1}
    await server.store.commit([a_change(3, "web", 3)])
    assert workloads(await server.store.load()) == {"web": 3}
    await server.close()


async def test_all_confirmed_changes_are_kept_after_a_restart_of_all_members(own_cluster: EtcdCluster) -> None:
    server = EtcdServer(own_cluster.location("/test"))
    await server.lead_and_load()
    confirmed = 0

    async def commit_until_killed() -> None:
        nonlocal confirmed
        with suppress(StorageFailed):
            while True:
                await server.store.commit([a_change(confirmed + 1, f"w{confirmed + 1}", confirmed + 1)])
                confirmed += 1

    committing = asyncio.create_task(commit_until_killed())
    await asyncio.sleep(0.5)
    for member in own_cluster.members:
        member.kill()
    await asyncio.wait_for(committing, LIMIT)
    for member in own_cluster.members:
        own_cluster.start(member)
    stored = await server.lead_and_load()
    expected = confirmed + (1 if stored.unknown_commit_stored else 0)
    assert workloads(stored) == {f"w{number}": number for number in range(1, expected + 1)}
    await server.close()


async def test_an_etcd_without_space_is_reported_with_advice(tmp_path: Path) -> None:
    cluster = EtcdCluster(tmp_path / "small", 1, ["--quota-backend-bytes", "2000000"])
    try:
        cluster.wait_until_healthy()
        server = EtcdServer(cluster.location("/test"))
        await server.lead_and_load()
        confirmed = 0
        with pytest.raises(StorageFailed, match="compact and defragment etcd") as failed:
            while True:
                await server.store.commit([a_change(confirmed + 1, "web", "x" * 100_000)])
                confirmed += 1
        assert not isinstance(failed.value, CommitUnknown)
        assert (await server.store.load()).last_revision == confirmed
        await server.close()
    finally:
        cluster.close()


async def test_an_unreachable_etcd_is_reported_with_the_reason_for_each_member() -> None:
    ports = [free_port(), free_port()]
    client = EtcdClient([TcpAddress(HOST, port) for port in ports])
    with pytest.raises(EtcdUnavailable) as failed:
        await client.range(RangeRequest(key=b"x"), 0.2)
    assert not failed.value.may_be_done
    reasons = "; ".join(f"{HOST}:{port}: Connection refused" for port in ports)
    assert str(failed.value) == f"etcd did not respond within 0.2 s ({reasons})"


async def test_old_history_of_etcd_is_compacted(
    server: EtcdServer, location: EtcdLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ankaios.storage.etcd.compaction.INTERVAL", 0.0)
    leadership = server.election.leadership
    assert leadership is not None
    for number in range(1, 4):
        await server.store.commit([a_change(number, "web", number)])
        await asyncio.sleep(0.1)
    command = [
        etcdctl_program(),
        "--endpoints",
        location.endpoints[0].authority,
        "get",
        "x",
        "--rev",
        str(leadership.term),
    ]
    reading = await asyncio.create_subprocess_exec(
        *command, env={"ETCDCTL_API": "3"}, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    _, errors = await asyncio.wait_for(reading.communicate(), LIMIT)
    assert "required revision has been compacted" in errors.decode()
    await server.client.compact(leadership.term, LIMIT)  # once more


async def test_state_of_a_newer_format_is_rejected(server: EtcdServer) -> None:
    await server.client.txn(TxnRequest(success=[put_key(server.keys.format, b"9")]), LIMIT)
    with pytest.raises(StorageFailed, match="it has version '9' of the format, and this program supports version 1"):
        await server.store.load()
    await server.client.txn(TxnRequest(success=[put_key(server.keys.format, FORMAT)]), LIMIT)


async def test_a_damaged_value_is_reported(server: EtcdServer) -> None:
    await server.store.commit([a_change(1, "web", 1), a_change(2, "db", 2)])
    damaged = server.keys.entry(EntryKey("workload", "web"))
    await server.client.txn(TxnRequest(success=[put_key(damaged, b"{")]), LIMIT)
    stored = await server.store.load()
    assert workloads(stored) == {"db": 2}
    assert stored.report is not None
    assert f"the value of '{damaged.decode()}' cannot be used" in str(stored.report)


async def test_a_check_detects_that_nothing_can_be_written(own_cluster: EtcdCluster) -> None:
    server = EtcdServer(own_cluster.location("/test"))
    await server.lead_and_load()
    await server.store.check()
    for member in own_cluster.members:
        member.kill()
    with pytest.raises(StorageFailed):
        await server.store.check()
    assert server.store.status().problem is not None
    await server.close()


async def test_changing_one_of_10_000_workloads_writes_one_entry(server: EtcdServer) -> None:
    """Besides: the revision, and the number of the commit."""
    added = tuple(EntryChange("workload", f"w{number}", None, number) for number in range(10_000))
    await server.store.commit([StateChange(added)])
    changed = EntryChange("workload", "w5000", 5000, "changed")
    server.client.requests.clear()
    await server.store.commit([StateChange((changed,), a_revision(1, (changed,)))])
    (request,) = server.client.requests
    commit = server.keys.commit(server.term)
    assert {each.request_put.key for each in request.success if each.HasField("request_put")} == {
        server.keys.entry(changed.key),
        server.keys.revision(1),
        commit,
    }
    assert not any(each.HasField("request_delete_range") for each in request.success)


async def test_changes_of_one_commit_share_a_transaction(server: EtcdServer) -> None:
    await server.store.commit([a_change(number, f"w{number}", number) for number in range(1, 21)])
    assert len(server.client.requests) == 1
