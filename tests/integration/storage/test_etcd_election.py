"""Servers that share an etcd cluster: one leads, and the others cannot write."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from ankaios.storage.core.etcd_transactions import delete_keys, put_key
from ankaios.storage.etcd.etcd_election import seconds_since_boot
from ankaios.storage.pb.etcd_api_pb2 import TxnRequest
from ankaios.storage.server_registry import LeaderInfo
from ankaios.storage.state_store import EntryChange, NotLeader, StateChange
from ankaios.storage.storage_url import EtcdLocation
from tests.integration.storage.etcd_cluster import EtcdCluster
from tests.integration.storage.etcd_servers import LIMIT, EtcdServer
from tests.integration.storage.sqlite_states import workloads
from tests.unit.storage.changes import a_change, a_revision

ROOT = Path(__file__).resolve().parents[3]
NewServer = Callable[..., EtcdServer]


@pytest.fixture
def location(etcd_cluster: EtcdCluster) -> EtcdLocation:
    return etcd_cluster.location(f"/test/{secrets.token_hex(4)}")


@pytest.fixture
async def new_server(location: EtcdLocation) -> AsyncIterator[NewServer]:
    servers: list[EtcdServer] = []

    def make(name: str, clock: Callable[[], float] = seconds_since_boot) -> EtcdServer:
        servers.append(EtcdServer(location, name, clock))
        return servers[-1]

    yield make
    for server in servers:
        server.client.is_frozen = False
        await server.close()


async def test_the_first_server_leads_and_the_next_one_leads_after_it_resigned(new_server: NewServer) -> None:
    first, second = new_server("first"), new_server("second")
    leadership = await first.lead()
    waiting = asyncio.create_task(second.election.campaign())
    await asyncio.sleep(0.3)
    assert leadership.is_valid
    assert not waiting.done()
    await first.election.resign()
    assert (leadership.is_valid, leadership.reason) == (False, "the server has resigned")
    following = await asyncio.wait_for(waiting, 1.5)  # long before the lease would end
    assert following.term > leadership.term


async def test_a_leader_stays_the_leader_for_longer_than_its_lease(new_server: NewServer) -> None:
    server = new_server("first")
    leadership = await server.lead()
    await asyncio.sleep(3)
    assert leadership.is_valid
    assert not leadership.lost.is_set()


async def test_standby_servers_name_the_leader(new_server: NewServer) -> None:
    first, second, standby = new_server("first"), new_server("second"), new_server("standby")
    leaders = standby.registry.leaders()

    async def next_leader() -> LeaderInfo | None:
        return await asyncio.wait_for(anext(leaders), LIMIT)

    assert await next_leader() is None
    term = (await first.lead()).term
    assert await next_leader() == LeaderInfo("first", "http://first:25551", term)
    await first.election.resign()
    assert await next_leader() is None
    term = (await second.lead()).term
    assert await next_leader() == LeaderInfo("second", "http://second:25551", term)


async def test_of_many_servers_exactly_one_leads(new_server: NewServer) -> None:
    servers = [new_server(f"s{number}") for number in range(5)]
    elections = [asyncio.create_task(server.election.campaign()) for server in servers]
    terms: list[int] = []
    for _ in servers:
        done, _ = await asyncio.wait(
            [campaign for campaign in elections if not campaign.cancelled()],
            timeout=LIMIT,
            return_when=asyncio.FIRST_COMPLETED,
        )
        (winner,) = done
        terms.append(winner.result().term)
        await servers[[*elections].index(winner)].election.resign()
        servers.pop(elections.index(winner))
        elections.remove(winner)
    assert terms == sorted(set(terms))


async def test_a_server_that_cannot_renew_stops_before_another_one_can_lead(new_server: NewServer) -> None:
    first, second = new_server("first"), new_server("second")
    leadership = await first.lead()
    waiting = asyncio.create_task(second.election.campaign())
    first.client.is_frozen = True
    await asyncio.wait_for(leadership.lost.wait(), LIMIT)
    assert not waiting.done()
    assert leadership.reason is not None
    await asyncio.wait_for(waiting, LIMIT)


async def test_a_deleted_leader_key_ends_the_leadership(new_server: NewServer) -> None:
    """The way to force an election by hand."""
    server = new_server("first")
    leadership = await server.lead()
    await server.client.txn(TxnRequest(success=[delete_keys(server.keys.leader)]), LIMIT)
    await asyncio.wait_for(leadership.lost.wait(), LIMIT)
    assert leadership.reason == "the leader key was deleted"


async def test_a_bug_in_the_renewal_ends_the_leadership(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_server("first")
    leadership = await server.lead()
    monkeypatch.setattr(server.client, "renew_lease", None)
    await asyncio.wait_for(leadership.lost.wait(), LIMIT)
    assert "Internal error: TypeError" in str(leadership.reason)
    assert "Traceback" in caplog.text


async def test_a_lease_that_etcd_has_ended_ends_the_leadership(new_server: NewServer) -> None:
    server = new_server("first")
    leadership = await server.lead()
    await server.client.revoke_lease(server.election._lease)
    await asyncio.wait_for(leadership.lost.wait(), LIMIT)
    assert leadership.reason in ("etcd has ended the lease of this server", "the leader key was deleted")
    await server.client.revoke_lease(server.election._lease)


async def test_a_leader_key_of_another_program_is_no_leader_with_a_name(new_server: NewServer) -> None:
    server = new_server("first")
    await server.client.txn(TxnRequest(success=[put_key(server.keys.leader, b"?")]), LIMIT)
    leader = await asyncio.wait_for(anext(server.registry.leaders()), LIMIT)
    assert leader is not None
    assert (leader.name, leader.url) == ("unknown", "")


async def test_a_load_needs_the_leadership(new_server: NewServer) -> None:
    server = new_server("first")
    with pytest.raises(NotLeader, match="this server does not lead"):
        await server.store.load()


async def test_the_late_commit_of_a_stopped_leader_is_rejected(new_server: NewServer) -> None:
    """The first server has not detected that its lease has ended, so only etcd can reject its commit."""
    first, second = new_server("first", lambda: 0.0), new_server("second")
    await first.lead_and_load()
    await first.store.commit([a_change(1, "web", "of the first")])
    first.client.is_frozen = True
    await second.lead_and_load()
    await second.store.commit([a_change(2, "web", "of the second", "of the first")])

    many = tuple(EntryChange("workload", f"w{n}", None, "too late") for n in range(1000))
    for late in (
        first.store.commit([a_change(2, "web", "too late", "of the first")]),
        first.store.commit([StateChange(many)]),
        first.store.save_records({"web": ["too late"]}),
    ):
        assert first.election.leadership is not None
        first.election.leadership.lost.clear()
        with pytest.raises(NotLeader, match="another server has become the leader") as rejected:
            await late
        assert rejected.value.stored is False

    stored = await second.store.load()
    assert workloads(stored) == {"web": "of the second"}
    assert stored.records == {}
    assert [revision.number for revision in stored.revisions] == [1, 2]


async def test_a_leader_whose_lease_has_ended_sends_no_request_to_etcd(new_server: NewServer) -> None:
    now = 0.0
    server = new_server("first", lambda: now)
    await server.lead_and_load()
    server.client.is_frozen = True
    now = 1000.0  # the machine was suspended
    with pytest.raises(NotLeader, match="does not lead any more"):
        await server.store.commit([a_change(1, "web", 1)])
    assert server.client.count == 0


LEADER = """
import asyncio, sys
from ankaios.storage.leader_election import Candidate
from ankaios.storage.etcd.etcd_storage import make_etcd_storage
from ankaios.storage.state_store import NotLeader
from ankaios.storage.storage_url import parse_storage_url
from tests.unit.storage.changes import a_change

async def lead(url):
    storage = make_etcd_storage(parse_storage_url(url), Candidate("process", "http://process:1"))
    await storage.election.campaign()
    number = max((await storage.store.load()).last_revision, 0)
    try:
        while True:
            number += 1
            await storage.store.commit([a_change(number, "web", ["process", number])])
            print("committed", number, flush=True)
    except NotLeader:
        print("rejected", number, flush=True)
    await storage.close()

asyncio.run(lead(sys.argv[1]))
"""


async def test_a_process_that_was_stopped_writes_nothing_after_it_continues(
    location: EtcdLocation, new_server: NewServer
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", LEADER, str(location)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
    )
    assert process.stdout is not None
    for _ in range(5):
        await asyncio.wait_for(process.stdout.readline(), LIMIT)
    process.send_signal(signal.SIGSTOP)
    server = new_server("test")
    stored = await server.lead_and_load()
    number = stored.last_revision + 1
    await server.store.commit([a_change(number, "web", "mine")])
    process.send_signal(signal.SIGCONT)
    printed = (await asyncio.wait_for(process.stdout.read(), LIMIT)).decode().split("\n")
    await process.wait()
    committed = [int(line.split()[1]) for line in printed if line.startswith("committed")]
    assert printed[-2].startswith("rejected")
    assert max(committed, default=0) <= stored.last_revision
    assert workloads(await server.store.load()) == {"web": "mine"}


async def test_the_history_is_one_chain_for_any_sequence_of_leaders(new_server: NewServer) -> None:
    """Servers that lead in turn never lose each other's changes, also if they do not notice that they were stopped."""
    confirmed: list[str] = []

    async def work(server: EtcdServer, name: str) -> None:
        for turn in range(2):
            stored = await server.lead_and_load()
            before = workloads(stored).get("log", [])
            with suppress(NotLeader):
                for number in range(stored.last_revision + 1, stored.last_revision + 5):
                    after = [*before, f"{name}-{number}"]
                    change = EntryChange("workload", "log", before or None, after)
                    await server.store.commit([StateChange((change,), a_revision(number, (change,)))])
                    confirmed.append(after[-1])
                    before = after
                    if turn == 1:
                        await stop_for_long(server)
            server.client.is_frozen = False
            await server.election.resign()

    async def stop_for_long(server: EtcdServer) -> None:
        """Afterwards the server has not noticed that its lease has ended."""
        server.client.is_frozen = True
        await asyncio.sleep(3)
        assert server.election.leadership is not None
        server.election.leadership.lost.clear()

    async with asyncio.timeout(100), asyncio.TaskGroup() as tasks:
        for name in ("a", "b", "c"):
            tasks.create_task(work(new_server(name, lambda: 0.0), name))
    stored = await new_server("reader").lead_and_load()
    values = [revision.entries[0].after for revision in stored.revisions]
    assert [len(value) for value in values] == list(range(1, len(values) + 1))
    assert all(later[:-1] == earlier for earlier, later in pairwise(values))
    assert sorted(confirmed) == sorted(values[-1])
