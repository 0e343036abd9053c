"""A workload that waits for devices is woken only by changes that affect it, and reports the current reason."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import ResourceRequest
from ankaios.devices.core.node_devices import NOT_CONNECTED, NOT_RECEIVED
from ankaios.devices.discovery.base import InvalidDetails
from ankaios.devices.host import WaitingForDevices
from tests.integration.devices.cluster import Agent, Cluster
from tests.integration.devices.foreign_plugin import ForeignPlugin
from tests.support.short_paths import short_path  # noqa: F401
from tests.support.waiting import until

GPU, FOO0 = "example.com/gpu", "cam-8120fe"
BOTH = [ResourceRequest("cam", 1), ResourceRequest(GPU, 1)]
REFUSED = WaitingForDevices(
    f"cannot allocate '{GPU}': the device plugin 'example.com-gpu.sock' answers: out of order", failed=True
)


@pytest.fixture
async def cluster(short_path: Path) -> AsyncIterator[Cluster]:  # noqa: F811
    cluster = Cluster(short_path)
    async with asyncio.timeout(60):
        yield cluster
    await cluster.stop()


@pytest.fixture
async def agent(cluster: Cluster) -> Agent:
    """With one local camera whose plugins are ready."""
    agent = await cluster.agent("node-a", False, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("probe")
    agent.manager.release("probe")
    return agent


@pytest.fixture
async def plugin(agent: Agent) -> AsyncIterator[ForeignPlugin]:
    plugin = ForeignPlugin(agent.manager.foreign.folder, GPU, {"g0": "Healthy"})
    await asyncio.to_thread(plugin.start)
    await agent.acquire_when_possible("probe", GPU)
    agent.manager.release("probe")
    yield plugin
    await asyncio.to_thread(plugin.stop)


async def settled(agent: Agent) -> None:
    """Long enough for lists to arrive over the sockets and to be handled."""
    for _ in range(20):
        await asyncio.sleep(0.01)
    agent.woken.clear()


async def test_a_failed_attempt_wakes_no_failed_workload(agent: Agent, plugin: ForeignPlugin) -> None:
    """Each attempt claims a camera and releases it, which changes every list."""
    await settled(agent)
    plugin.refuses = True
    agent.wake_ups.clear()
    assert await agent.manager.acquire("w1", BOTH) == REFUSED
    assert await agent.manager.acquire("w2", BOTH) == REFUSED
    await settled(agent)
    assert agent.wake_ups == []


async def test_a_failed_attempt_is_repeated_in_time(agent: Agent, plugin: ForeignPlugin) -> None:
    plugin.refuses = True
    assert await agent.manager.acquire("w1", BOTH) == REFUSED
    agent.wake_ups.clear()
    await agent.manager._retry_failed(0)
    assert agent.wake_ups == ["w1"]
    plugin.refuses = False
    assert not isinstance(await agent.manager.acquire("w1", BOTH), WaitingForDevices)


async def test_a_failed_attempt_is_repeated_when_the_plugin_registers_again(
    agent: Agent, plugin: ForeignPlugin
) -> None:
    plugin.refuses = True
    assert await agent.manager.acquire("w1", BOTH) == REFUSED
    await settled(agent)
    agent.wake_ups.clear()
    again = ForeignPlugin(agent.manager.foreign.folder, GPU, {"g0": "Healthy"})
    again.endpoint = "again.sock"
    await asyncio.to_thread(again.start)
    await until(lambda: agent.wake_ups == ["w1"])
    assert not isinstance(await agent.manager.acquire("w1", BOTH), WaitingForDevices)
    await asyncio.to_thread(again.stop)


async def test_a_workload_denied_because_of_a_failed_attempt_is_woken(agent: Agent, plugin: ForeignPlugin) -> None:
    plugin.delay = 0.3
    plugin.refuses = True
    trying = asyncio.create_task(agent.manager.acquire("w1", BOTH))
    await until(lambda: bool(agent.holds("w1")))
    assert await agent.acquire("w2") == WaitingForDevices("waits for 1 x akri.sh/cam, 1 visible, 0 free")
    assert await agent.acquire("w3", GPU) == WaitingForDevices(f"waits for 1 x {GPU}, 1 visible, 0 free")
    agent.wake_ups.clear()
    assert await trying == REFUSED
    await until(lambda: set(agent.wake_ups) == {"w2", "w3"})
    assert not isinstance(await agent.acquire("w2"), WaitingForDevices)


async def test_a_change_wakes_only_workloads_that_wait_for_it(agent: Agent, cluster: Cluster) -> None:
    cluster.configure("mic")
    await agent.acquire_when_possible("other", "mic")
    await agent.acquire_when_possible("first")
    assert isinstance(await agent.acquire("needs-cam"), WaitingForDevices)
    assert isinstance(await agent.acquire("needs-mic", "mic"), WaitingForDevices)
    assert isinstance(await agent.acquire("needs-gpu", GPU), WaitingForDevices)
    await settled(agent)
    agent.wake_ups.clear()
    agent.manager.handle(grpc.DeviceUpdate())
    agent.manager.release("first")
    await settled(agent)
    assert agent.wake_ups == ["needs-cam"]


async def test_a_claim_on_a_shared_device_does_not_wait_for_a_disconnected_server(cluster: Cluster) -> None:
    """It fails immediately, also during a request, and is repeated when the server is connected again."""
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure(capacity=2)
    await agent.acquire_when_possible("probe")
    agent.connected = False  # nothing arrives any more, but the loss is not detected yet
    request = asyncio.create_task(agent.acquire("w1"))
    await until(lambda: bool(agent.holds("w1")))
    agent.disconnect()
    async with asyncio.timeout(1):
        for answer in (await request, await agent.acquire("w2")):
            assert answer == WaitingForDevices(f"waits for akri.sh/cam: {NOT_CONNECTED}")
        too_few = WaitingForDevices(f"waits for 2 x akri.sh/cam, 1 visible; {NOT_CONNECTED}")
        assert await agent.acquire("w3", quantity=2) == too_few
    waiting = asyncio.create_task(agent.acquire_when_possible("w1"))
    await asyncio.sleep(0)
    agent.connect()
    await waiting
    assert agent.holds("w1")


async def test_a_waiting_workload_is_woken_when_the_server_disconnects_and_connects(cluster: Cluster) -> None:
    agent = await cluster.agent("node-a", True, "foo0")
    cluster.configure()
    await agent.acquire_when_possible("w1")
    lacks = "waits for 1 x akri.sh/cam, 1 visible, 0 free"
    assert await agent.acquire("w2") == WaitingForDevices(lacks)
    agent.wake_ups.clear()
    agent.disconnect()
    await until(lambda: agent.wake_ups == ["w2"])
    assert await agent.acquire("w2") == WaitingForDevices(f"{lacks}; {NOT_CONNECTED}")
    agent.manager.connected()  # a server that sends nothing yet
    await until(lambda: agent.wake_ups == ["w2", "w2"])
    assert await agent.acquire("w2") == WaitingForDevices(f"waits for 1 x akri.sh/cam, 0 visible; {NOT_RECEIVED}")
    agent.disconnect()
    agent.connect()
    await until(lambda: agent.manager.node.ledger.is_online(FOO0))
    assert await agent.acquire("w2") == WaitingForDevices(lacks)


async def test_a_waiting_workload_reports_why_nothing_is_discovered(agent: Agent, cluster: Cluster) -> None:
    """After a mistake in a configuration devices vanish as if unplugged; they return after the correction."""
    cluster.configure(offlineGraceSeconds=60)
    await agent.acquire_when_possible("w1")
    before = agent.holds("w1")
    agent.handler.fail(InvalidDetails("no such key"))
    cluster.configure(offlineGraceSeconds=60, details="wrong")
    await until(lambda: not agent.manager.node.ledger.is_online("cam-fbcb99"))
    assert await agent.acquire("w2") == WaitingForDevices("waits for 1 x akri.sh/cam, 0 visible; no such key")
    assert await agent.acquire("w1") == WaitingForDevices("waits for its devices of akri.sh/cam to return; no such key")
    agent.handler.fail(None)
    cluster.configure(offlineGraceSeconds=60, details="right")
    await agent.acquire_when_possible("w1")
    assert agent.holds("w1") == before
