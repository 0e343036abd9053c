"""Workloads get devices of their node, in clusters of one and two agents."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ankaios.common.device_grant import DeviceNode
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import ResourceRequest
from ankaios.devices.claim_store import ClaimStore
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.discovery.base import HandlerLost
from ankaios.devices.discovery.registration_server import RegistrationServer
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.host import WaitingForDevices
from ankaios.devices.slot_allocator import NO_ANSWER
from ankaios.server.core.device_directory import NODE_LOST_TICKS
from tests.integration.devices.cluster import Cluster
from tests.support.short_paths import short_path  # noqa: F401
from tests.support.waiting import until
from tests.unit.devices.ledgers import snapshot

FOO0, FOO1 = "cam-8120fe", "cam-a19705"


@pytest.fixture
async def cluster(short_path: Path) -> AsyncIterator[Cluster]:  # noqa: F811
    cluster = Cluster(short_path)
    async with asyncio.timeout(60):
        yield cluster
    await cluster.stop()


async def test_a_workload_gets_two_cameras(cluster: Cluster) -> None:
    """[itest->akri~kubelet-device-plugin-api~1]"""
    agent = await cluster.agent("node-a", True, "foo0", "foo1")
    cluster.configure(capacity=2)
    grants = await agent.acquire_when_possible("w1", quantity=2)
    assert agent.holds("w1") == {f"{FOO0}-0", f"{FOO1}-0"}
    assert grants[0].annotations == {
        f"akri.agent.slot-{FOO0}-0": f"C:0:{FOO0}-0",
        f"akri.agent.slot-{FOO1}-0": f"C:1:{FOO1}-0",
    }
    file = json.loads(Path(grants[0].envs["ANKAIOS_DEVICES_FILE"]).read_text())
    assert [device["instance"] for device in file["resources"][0]["devices"]] == [FOO0, FOO1]
    assert cluster.usage() == {
        f"{FOO0}-0": "C:0:node-a",
        f"{FOO0}-1": "",
        f"{FOO1}-0": "C:1:node-a",
        f"{FOO1}-1": "",
    }


async def test_a_grant_contains_the_device_node_and_the_properties(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", False)
    agent.handler.show(
        DiscoveredDevice("foo0", {"PATH_OF": "/dev/x"}, device_specs=(DeviceNode("/dev/x", "/dev/x", "rw"),))
    )
    cluster.configure(brokerProperties=base.StringMap(values={"RATE": "30"}))
    (grant,) = await agent.acquire_when_possible("w1")
    assert grant.devices == (DeviceNode("/dev/x", "/dev/x", "rw"),)
    assert {key: grant.envs[key] for key in ("PATH_OF", "PATH_OF_FBCB99", "RATE")} == {
        "PATH_OF": "/dev/x",
        "PATH_OF_FBCB99": "/dev/x",
        "RATE": "30",
    }


async def test_a_denied_workload_reports_what_it_waits_for_and_starts_later(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", False, "foo0", "foo1")
    cluster.configure(capacity=2)
    await agent.acquire_when_possible("w1", quantity=2)
    before = snapshot(agent.manager.node.ledger)
    assert await agent.acquire("w2", quantity=3) == WaitingForDevices("waits for 3 x akri.sh/cam, 2 visible")
    assert snapshot(agent.manager.node.ledger) == before
    waiting = asyncio.create_task(agent.acquire_when_possible("w2", quantity=3))
    agent.handler.show(*map(DiscoveredDevice, ("foo0", "foo1", "foo2")))
    await waiting
    assert len({slot.rpartition("-")[0] for slot in agent.holds("w2")}) == 3


async def test_a_released_device_is_granted_to_the_next_workload(cluster: Cluster) -> None:
    """Delete and re-create at capacity 1: the new one waits, and never fails."""
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("w.1")
    for number in range(2, 8):
        assert isinstance(await agent.acquire(f"w.{number}"), WaitingForDevices)
        waiting = asyncio.create_task(agent.acquire_when_possible(f"w.{number}"))
        await asyncio.sleep(0)
        agent.manager.release(f"w.{number - 1}")
        await waiting
    assert cluster.usage() == {f"{FOO0}-0": "C:0:node-a"}


async def test_a_repeated_request_gets_the_same_grant_and_a_changed_one_replaces_it(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", False, "foo0", "foo1")
    cluster.configure()
    first = await agent.acquire_when_possible("w1")
    assert await agent.acquire("w1") == first
    held = agent.holds("w1")
    second = await agent.acquire("w1", quantity=2)
    assert not isinstance(second, WaitingForDevices)
    assert agent.holds("w1") > held


async def test_a_workload_gets_all_its_resources_or_none(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure("cam")
    cluster.configure("mic")
    await agent.acquire_when_possible("other", "mic")
    await agent.acquire_when_possible("probe", "cam")
    agent.manager.release("probe")
    requests = [ResourceRequest("cam", 1), ResourceRequest("mic", 1)]
    answer = await agent.manager.acquire("w1", requests)
    assert answer == WaitingForDevices("waits for 1 x akri.sh/mic, 1 visible, 0 free")
    assert agent.holds("w1") == set()
    agent.manager.release("other")
    grants = await agent.manager.acquire("w1", requests)
    assert not isinstance(grants, WaitingForDevices)
    assert agent.holds("w1") == {"cam-8120fe-0", "mic-8120fe-0"}


async def test_each_container_of_a_pod_gets_its_devices(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", False, "foo0")
    cluster.configure(capacity=2)
    await agent.acquire_when_possible("probe")
    agent.manager.release("probe")
    requests = [ResourceRequest("cam", 1, "pod/a"), ResourceRequest("cam", 1, "pod/b")]
    grants = await agent.manager.acquire("w1", requests)
    assert not isinstance(grants, WaitingForDevices)
    assert [(grant.container, list(grant.annotations.values())) for grant in grants] == [
        ("pod/a", ["C:0:cam-fbcb99-0"]),
        ("pod/b", ["C:1:cam-fbcb99-1"]),
    ]


async def test_claims_are_kept_after_a_restart_of_the_agent(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure()
    first = await agent.acquire_when_possible("w1")
    await agent.stop()
    agent = await cluster.restarted("node-a", agent.handler)
    other = await cluster.agent("node-b", True, "foo0")
    assert await agent.acquire_when_possible("w1") == first
    await cluster.until(lambda: len(cluster.tree[FOO0].nodes) == 2)
    assert isinstance(await other.acquire("w2"), WaitingForDevices)
    assert cluster.usage() == {f"{FOO0}-0": "C:0:node-a"}


async def test_devices_continue_to_work_if_two_records_claim_one_slot(cluster: Cluster) -> None:
    """The later claim has the slot; the other workload waits."""
    agent = await cluster.agent("node-a", False, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("w1")
    await agent.stop()
    store = ClaimStore(cluster.folder / "node-a")
    (record,) = store.load()
    older = [replace(held, claim=replace(held.claim, owner="w0")) for held in record.slots]
    (newer,) = (cluster.folder / "node-a" / "claims").iterdir()
    store.save(replace(record, owner="w0", slots=tuple(older)))
    future = newer.stat().st_mtime + 10
    os.utime(newer, (future, future))
    agent = await cluster.restarted("node-a", agent.handler)
    await agent.acquire_when_possible("w1")
    assert await agent.acquire("w0") == WaitingForDevices("waits for 1 x akri.sh/cam, 1 visible, 0 free")
    assert agent.holds("w1") == {"cam-fbcb99-0"}
    assert [record.owner for record in store.load()] == ["w1"]


async def test_claims_of_deleted_workloads_are_released_after_a_crash(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workload was deleted while the agent did not run, so no release was requested."""
    monkeypatch.setattr("ankaios.devices.reconciler.every_round.__defaults__", (0.05,))
    monkeypatch.setattr("ankaios.devices.reconciler.Reconciler.__init__.__defaults__", (0.1,))
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("w1")
    await agent.stop()
    agent = await cluster.restarted("node-a", agent.handler)
    await agent.acquire_when_possible("w1")
    agent.living = {"w2"}
    await cluster.until(lambda: cluster.usage() == {f"{FOO0}-0": ""})


async def test_claims_are_kept_after_a_restart_of_the_server(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", True, "foo0")
    other = await cluster.agent("node-b", True, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("w1")
    cluster.restart_server()
    other.connect()
    await cluster.until(lambda: FOO0 in cluster.tree)
    assert isinstance(await other.acquire("w2"), WaitingForDevices)
    agent.connect()
    for _ in range(3):
        cluster.perform(cluster.directory.tick())
    await cluster.until(lambda: len(cluster.tree[FOO0].nodes) == 2)
    assert cluster.usage() == {f"{FOO0}-0": "C:0:node-a"}
    waiting = asyncio.create_task(other.acquire_when_possible("w2"))
    agent.manager.release("w1")
    await waiting


async def test_a_node_grants_devices_without_a_server(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", False, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("w1")
    agent.disconnect()
    agent.manager.release("w1")
    assert not isinstance(await agent.acquire("w2"), WaitingForDevices)
    agent.connect()
    await cluster.until(lambda: dict(cluster.tree["cam-fbcb99"].slotOwners.values) == {"cam-fbcb99-0": "w2"})


async def test_a_release_is_reported_when_the_server_is_connected_again(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("w1")
    agent.disconnect()
    agent.manager.release("w1")
    assert cluster.usage() == {f"{FOO0}-0": "C:0:node-a"}
    agent.connect()
    await cluster.until(lambda: cluster.usage() == {f"{FOO0}-0": ""})


@pytest.mark.parametrize(
    ("policy", "restarted"),
    [
        (base.ON_DEVICE_LOST_KEEP, []),
        (base.ON_DEVICE_LOST_RESTART, ["w1"]),
        (base.ON_DEVICE_LOST_STOP, ["w1"]),
    ],
)
async def test_a_workload_that_loses_its_device_does_as_configured(
    cluster: Cluster, policy: base.OnDeviceLost, restarted: list[str]
) -> None:
    agent = await cluster.agent("node-a", False, "foo0", "foo1")
    cluster.configure(onDeviceLost=policy, offlineGraceSeconds=0)
    await agent.acquire_when_possible("w1")
    (lost,) = agent.holds("w1")
    left = {"cam-fbcb99-0": "foo1", "cam-d2981e-0": "foo0"}[lost]
    agent.handler.show(DiscoveredDevice(left))
    await cluster.until(lambda: cluster.tree[lost[:-2]].lost)
    assert agent.restarted == restarted
    assert cluster.usage()[lost] == "C:0:node-a"
    if policy == base.ON_DEVICE_LOST_KEEP:
        assert agent.holds("w1") == {lost}
        return
    agent.manager.release("w1")
    await cluster.until(lambda: lost[:-2] not in cluster.tree)
    assert len(cluster.tree) == 1
    answer = await agent.acquire("w1")
    if policy == base.ON_DEVICE_LOST_RESTART:
        assert not isinstance(answer, WaitingForDevices)
        return
    assert answer == WaitingForDevices(f"was stopped, waits for device {lost[:-2]} to return")
    agent.handler.show(*map(DiscoveredDevice, ("foo0", "foo1")))
    await agent.acquire_when_possible("w1")


async def test_a_device_that_flaps_within_grace_changes_nothing(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure(offlineGraceSeconds=60)
    first = await agent.acquire_when_possible("w1")
    before = cluster.tree[FOO0].SerializeToString(deterministic=True)
    agent.handler.show()
    await cluster.until(lambda: not cluster.tree[FOO0].attributes.online)
    nothing = "the discovery handler 'fake' finds no device that matches its discoveryDetails"
    waits = WaitingForDevices(f"waits for its devices of akri.sh/cam to return; {nothing}")
    assert await agent.acquire("w1") == waits
    agent.handler.show(DiscoveredDevice("foo0"))
    await cluster.until(lambda: cluster.tree[FOO0].attributes.online)
    assert cluster.tree[FOO0].SerializeToString(deterministic=True) == before
    assert await agent.acquire_when_possible("w1") == first


async def test_devices_of_a_failed_handler_have_not_vanished(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a grace period: the device would vanish immediately after a list without it."""
    monkeypatch.setattr("ankaios.devices.discovery_runner.FIRST_PAUSE", 0.01)
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure(offlineGraceSeconds=0, onDeviceLost=base.ON_DEVICE_LOST_RESTART)
    first = await agent.acquire_when_possible("w1")
    agent.handler.fail(HandlerLost("the stream is broken"))
    await until(lambda: agent.handler.calls >= 3)
    assert cluster.tree[FOO0].attributes.online
    assert await agent.acquire("w1") == first
    agent.handler.fail(None)
    before = agent.handler.calls
    await until(lambda: agent.handler.calls > before)
    assert (await agent.acquire("w1"), agent.restarted) == (first, [])
    agent.handler.show()
    await until(lambda: agent.restarted == ["w1"])


async def test_an_offline_device_vanishes_after_its_grace_period(cluster: Cluster) -> None:
    """No further list is needed. It is shown as long as the workload claims it."""
    agent = await cluster.agent("node-a", False, "foo0")
    cluster.configure(offlineGraceSeconds=1, onDeviceLost=base.ON_DEVICE_LOST_RESTART)
    await agent.acquire_when_possible("w1")
    agent.handler.show()
    await cluster.until(lambda: not cluster.tree["cam-fbcb99"].attributes.online)
    assert (agent.restarted, cluster.tree["cam-fbcb99"].lost) == ([], False)
    await cluster.until(lambda: cluster.tree["cam-fbcb99"].lost)
    assert agent.restarted == ["w1"]
    agent.manager.release("w1")
    await cluster.until(lambda: not cluster.tree)


async def test_claims_are_kept_while_all_devices_are_lost_and_the_agent_restarts(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure(offlineGraceSeconds=60)
    first = await agent.acquire_when_possible("w1")
    agent.handler.show()
    await cluster.until(lambda: not cluster.tree[FOO0].attributes.online)
    await agent.stop()
    agent = await cluster.restarted("node-a", agent.handler)
    other = await cluster.agent("node-b", True, "foo0")
    await cluster.until(lambda: "node-b" in cluster.tree[FOO0].nodes)
    assert isinstance(await other.acquire("w2"), WaitingForDevices)
    agent.handler.show(DiscoveredDevice("foo0"))
    assert await agent.acquire_when_possible("w1") == first


async def test_a_slot_that_the_server_released_is_claimed_again(cluster: Cluster) -> None:
    """The node was disconnected until the server released its slot; the slot is still free."""
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("w1")
    agent.disconnect()
    for _ in range(NODE_LOST_TICKS):
        cluster.perform(cluster.directory.tick())
    assert cluster.usage() == {}
    agent.connect()
    await cluster.until(lambda: cluster.usage() == {f"{FOO0}-0": "C:0:node-a"})
    assert agent.restarted == []


async def test_a_workload_that_loses_its_slot_to_an_older_claim_does_as_configured(cluster: Cluster) -> None:
    """The first node was disconnected until its slot was granted again. The older claim has priority."""
    agent = await cluster.agent("node-a", True, "foo0")
    other = await cluster.agent("node-b", True, "foo0")
    cluster.configure(onDeviceLost=base.ON_DEVICE_LOST_RESTART)
    await agent.acquire_when_possible("w1")
    agent.disconnect()
    for _ in range(NODE_LOST_TICKS):
        cluster.perform(cluster.directory.tick())
    await other.acquire_when_possible("w2")
    agent.connect()
    await until(lambda: other.restarted == ["w2"])
    other.manager.release("w2")
    assert isinstance(await other.acquire("w2"), WaitingForDevices)
    assert (agent.restarted, agent.holds("w1")) == ([], {f"{FOO0}-0"})
    assert list(cluster.tree[FOO0].slotOwners.values.values()) == ["w1"]


@pytest.mark.parametrize("name", ["cam", FOO0])
async def test_a_slot_lost_to_another_claim_is_used_again_only_when_it_is_free(cluster: Cluster, name: str) -> None:
    """The older claim has priority. The other workload needs a new claim when it starts again."""
    agent = await cluster.agent("node-a", True, "foo0")
    other = await cluster.agent("node-b", True, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("w1", name)
    agent.disconnect()
    for _ in range(NODE_LOST_TICKS):
        cluster.perform(cluster.directory.tick())
    await other.acquire_when_possible("w2", name)
    agent.connect()
    await until(lambda: other.manager.claims.records["w2"].lost)
    (record,) = ClaimStore(cluster.folder / "node-b").load()
    assert record.slots == ()
    assert await other.acquire("w2", name) == WaitingForDevices(f"waits for 1 x akri.sh/{name}, 1 visible, 0 free")
    waiting = asyncio.create_task(other.acquire_when_possible("w2", name))
    agent.manager.release("w1")
    await waiting
    assert list(cluster.tree[FOO0].slotOwners.values.values()) == ["w2"]


async def test_a_grant_has_the_new_node_of_a_device_that_returned(cluster: Cluster) -> None:
    """A USB device that is plugged in again gets a new number."""
    agent = await cluster.agent("node-a", False)
    sticks = [DiscoveredDevice("usb1", {"NODE": path}, (), (DeviceNode(path, path),)) for path in ("/dev/1", "/dev/2")]
    cluster.configure(offlineGraceSeconds=60)
    agent.handler.show(sticks[0])
    await agent.acquire_when_possible("w1")
    agent.handler.show(sticks[1])
    await cluster.until(lambda: any("/dev/2" in str(it) for it in cluster.tree.values()))
    (grant,) = await agent.acquire_when_possible("w1")
    assert grant.devices == (DeviceNode("/dev/2", "/dev/2"),)
    assert "/dev/2" in Path(grant.envs["ANKAIOS_DEVICES_FILE"]).read_text()
    (record,) = ClaimStore(cluster.folder / "node-a").load()
    assert record.slots[0].instance.device.device_specs == grant.devices


async def test_a_server_that_does_not_answer_gets_one_request(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("probe")
    agent.manager.release("probe")
    sent: list[grpc.ToServer] = []
    agent.manager.allocator._send = sent.append
    agent.manager.allocator._answer_seconds = 0.01
    assert await agent.acquire("w1") == WaitingForDevices(NO_ANSWER, failed=True)
    requested = [change for message in sent for change in message.slotRequest.changes if change.after]
    assert len(requested) == 1


async def test_handlers_can_register_after_the_previous_agent_has_ended(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ankaios.devices.device_manager.HANDLERS_PAUSE", 0.01)
    other = RegistrationServer(HandlerRegistry({}), cluster.folder / "node-a-handlers")
    await other.start()
    agent = await cluster.agent("node-a", False, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("w1")
    await until(lambda: "another agent listens there" in caplog.text)
    await other.close()
    await until(other.path.exists)


SOCKET_EVENTS: list[str] = []
OBSERVED = ("socket.__new__", "socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg")


def observe_sockets() -> None:
    """An audit hook cannot be removed, so it is added once and only records."""
    if not hasattr(sys, "_socket_events_observed"):
        sys._socket_events_observed = True  # type: ignore[attr-defined]
        sys.addaudithook(lambda event, _: SOCKET_EVENTS.append(event) if event in OBSERVED else None)


@pytest.mark.parametrize("shared", [False, True])
async def test_a_claim_of_a_discovered_device_opens_no_socket(cluster: Cluster, shared: bool) -> None:
    """The device is allocated in the ledger; sockets are for foreign plugins and kubelets."""
    agent = await cluster.agent("node-a", shared, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("probe")
    agent.manager.release("probe")
    observe_sockets()
    SOCKET_EVENTS.clear()
    await agent.acquire_when_possible("w1")
    await agent.acquire("w1")
    agent.manager.release("w1")
    assert SOCKET_EVENTS == []
    assert [path.name for path in agent.manager.foreign.folder.iterdir()] == ["kubelet.sock"]
    with socket.socket(socket.AF_UNIX):
        assert SOCKET_EVENTS == ["socket.__new__"]  # a socket would have been recorded


async def test_each_slot_is_granted_once_in_a_thousand_simultaneous_claims(cluster: Cluster) -> None:
    """Two agents, one shared camera of capacity 1: each agent releases it after the grant."""
    agents = [await cluster.agent(name, True, "foo0") for name in ("node-a", "node-b")]
    cluster.configure()
    for agent in agents:
        await agent.acquire_when_possible("probe")
        agent.manager.release("probe")
    await cluster.until(lambda: cluster.usage() == {f"{FOO0}-0": ""})
    rounds = 3
    winners: list[str] = []
    for number in range(rounds):
        attempts = {
            f"w{number}.{attempt}": agents[attempt % 2].acquire(f"w{number}.{attempt}") for attempt in range(1000)
        }
        answers = dict(zip(attempts, await asyncio.gather(*attempts.values()), strict=True))
        granted = [owner for owner, answer in answers.items() if not isinstance(answer, WaitingForDevices)]
        assert len(granted) == 1, granted
        assert list(cluster.tree[FOO0].slotOwners.values.values()) == granted
        winners += granted
        for agent in agents:
            agent.manager.release(granted[0])
        await cluster.until(lambda: cluster.usage() == {f"{FOO0}-0": ""})
    assert len(winners) == rounds
