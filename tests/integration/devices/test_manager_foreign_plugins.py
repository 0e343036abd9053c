"""Device plugins of other projects register with the device manager as with a kubelet."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from ankaios.common.workload import ResourceRequest
from ankaios.devices.foreign_devices import ForeignDevices
from ankaios.devices.host import WaitingForDevices
from tests.integration.devices.cluster import Agent, Cluster
from tests.integration.devices.foreign_plugin import ForeignPlugin
from tests.support.short_paths import short_path  # noqa: F401
from tests.support.waiting import until
from tests.unit.devices.ledgers import snapshot

GPU = "example.com/gpu"
HEALTHY = {"g0": "Healthy", "g1": "Healthy", "g2": "Unhealthy"}


@pytest.fixture
async def agent(short_path: Path) -> AsyncIterator[Agent]:  # noqa: F811
    cluster = Cluster(short_path)
    async with asyncio.timeout(60):
        agent = await cluster.agent("node-a", False, "foo0")
        await until((agent.manager.foreign.folder / "kubelet.sock").exists)
        yield agent
    await cluster.stop()


async def a_plugin(agent: Agent, devices: dict[str, str] = HEALTHY, **more: bool) -> ForeignPlugin:
    plugin = ForeignPlugin(agent.manager.foreign.folder, GPU, devices, **more)
    await asyncio.to_thread(plugin.start)
    return plugin


async def stopped(plugin: ForeignPlugin) -> None:
    await asyncio.to_thread(plugin.stop)


async def test_a_workload_gets_devices_of_a_foreign_plugin(agent: Agent) -> None:
    """[itest->akri~kubelet-device-plugin-api~1]"""
    plugin = await a_plugin(agent)
    (grant,) = await agent.acquire_when_possible("w1", GPU, 2)
    assert grant.envs["GPU"] == "g0,g1"
    assert plugin.allocated == [["g0", "g1"]]
    assert await agent.acquire("w2", GPU, 1) == WaitingForDevices(f"waits for 1 x {GPU}, 2 visible, 0 free")
    agent.manager.release("w1")
    await agent.acquire_when_possible("w2", GPU, 1)
    await stopped(plugin)


async def test_an_unhealthy_device_is_not_granted(agent: Agent) -> None:
    plugin = await a_plugin(agent)
    await agent.acquire_when_possible("w1", GPU, 2)
    waiting = asyncio.create_task(agent.acquire_when_possible("w2", GPU, 1))
    await asyncio.to_thread(plugin.report, HEALTHY | {"g2": "Healthy"})
    (grant,) = await waiting
    assert grant.envs["GPU"] == "g2"
    await stopped(plugin)


async def test_the_preference_of_a_plugin_is_a_hint(agent: Agent) -> None:
    plugin = ForeignPlugin(agent.manager.foreign.folder, GPU, HEALTHY)
    plugin.prefers = ["unknown", "g2", "g1"]
    await asyncio.to_thread(plugin.start)
    (grant,) = await agent.acquire_when_possible("w1", GPU, 1)
    assert grant.envs["GPU"] == "g1"
    await stopped(plugin)


async def test_a_plugin_can_prepare_every_start(agent: Agent) -> None:
    plugin = await a_plugin(agent, pre_start=True)
    await agent.acquire_when_possible("w1", GPU, 1)
    await agent.acquire("w1", GPU, 1)
    assert plugin.started == [["g0"], ["g0"]]
    assert plugin.allocated == [["g0"]]
    await stopped(plugin)


async def test_the_grant_of_a_plugin_is_used_for_every_start_of_the_workload(agent: Agent) -> None:
    """As a kubelet does: Allocate for an admission, PreStartContainer before every start, after a restart of any side.

    Devices of the agent are read again before every start; plugins are not called for that.
    """
    agent.cluster.configure()
    plugin = await a_plugin(agent, pre_start=True)
    requests = [ResourceRequest("cam", 1), ResourceRequest(GPU, 1)]
    await agent.acquire_when_possible("probe")
    agent.manager.release("probe")
    await until(lambda: agent.manager.foreign.outage(GPU) is None)
    first = await agent.manager.acquire("w1", requests)
    assert await agent.manager.acquire("w1", requests) == first  # the container starts again
    assert (plugin.allocated, plugin.started) == ([["g0"]], [["g0"]] * 2)

    await stopped(plugin)
    plugin = await a_plugin(agent, pre_start=True)  # the plugin starts again
    await until(lambda: agent.manager.foreign.outage(GPU) is None)
    assert await agent.manager.acquire("w1", requests) == first
    assert (plugin.allocated, plugin.started) == ([], [["g0"]])

    await agent.stop()
    later = await agent.cluster.restarted("node-a", agent.handler)
    await until(lambda: later.manager.foreign.folder.joinpath("kubelet.sock").exists())
    await stopped(plugin)
    plugin = await a_plugin(later, pre_start=True)  # the agent starts again, and so its plugins register again
    await until(lambda: later.manager.foreign.outage(GPU) is None and later.manager.node.ledger.is_online("cam-fbcb99"))
    assert await later.manager.acquire("w1", requests) == first
    assert (plugin.allocated, plugin.started) == ([], [["g0"]])

    later.manager.release("w1")  # a new admission
    assert await later.manager.acquire("w1", requests) == first
    assert (plugin.allocated, plugin.started) == ([["g0"]], [["g0"]] * 2)
    await stopped(plugin)


async def test_a_workload_starts_only_after_its_plugin_and_devices_are_available_again(agent: Agent) -> None:
    plugin = await a_plugin(agent)
    await agent.acquire_when_possible("w1", GPU, 1)
    await asyncio.to_thread(plugin.report, HEALTHY | {"g0": "Unhealthy"})
    gone = WaitingForDevices(f"waits for its devices of {GPU} to return")
    await until(lambda: not agent.manager.foreign.are_healthy(GPU, ["g0"]))
    assert await agent.acquire("w1", GPU, 1) == gone
    await stopped(plugin)
    await until(lambda: agent.manager.foreign.outage(GPU) is not None)
    lost = f"{gone.reason}; the device plugin '{plugin.endpoint}' is lost"
    assert await agent.acquire("w1", GPU, 1) == WaitingForDevices(lost)
    new = await agent.acquire("w2", GPU, 1)
    assert new == WaitingForDevices(f"waits for 1 x {GPU}, 0 visible; the device plugin '{plugin.endpoint}' is lost")
    plugin = await a_plugin(agent)
    await agent.acquire_when_possible("w1", GPU, 1)
    await stopped(plugin)


async def test_a_request_for_the_preference_of_a_plugin_names_the_free_devices(agent: Agent) -> None:
    plugin = ForeignPlugin(agent.manager.foreign.folder, GPU, HEALTHY)
    plugin.prefers = ["g1"]
    await asyncio.to_thread(plugin.start)
    await agent.acquire_when_possible("w1", GPU, 1)
    await agent.acquire_when_possible("w2", GPU, 1)
    assert plugin.preference_requests == [(["g0", "g1"], 1), (["g0"], 1)]
    assert plugin.allocated == [["g1"], ["g0"]]
    await stopped(plugin)


async def test_an_unhealthy_device_in_use_is_not_counted_against_the_healthy_ones(agent: Agent) -> None:
    plugin = await a_plugin(agent)
    await agent.acquire_when_possible("w1", GPU, 1)
    await asyncio.to_thread(plugin.report, {"g0": "Unhealthy", "g1": "Healthy", "g2": "Healthy"})
    await until(lambda: agent.manager.foreign.are_healthy(GPU, ["g2"]))
    assert not isinstance(await agent.acquire("w2", GPU, 2), WaitingForDevices)
    await stopped(plugin)


async def test_two_containers_do_not_get_the_same_device(agent: Agent) -> None:
    plugin = await a_plugin(agent)
    await agent.acquire_when_possible("first", GPU, 1)
    requests = [ResourceRequest(GPU, 1, "pod/a"), ResourceRequest(GPU, 1, "pod/b")]
    assert await agent.manager.acquire("w1", requests) == WaitingForDevices(f"waits for 2 x {GPU}, 2 visible, 1 free")
    assert plugin.allocated == [["g0"]]
    await stopped(plugin)


async def test_a_grant_that_no_runtime_supports_is_rejected(agent: Agent) -> None:
    plugin = ForeignPlugin(agent.manager.foreign.folder, GPU, {"a\0b": "Healthy"})
    await asyncio.to_thread(plugin.start)
    await until(lambda: agent.manager.foreign.outage(GPU) is None)
    answer = await agent.acquire("w1", GPU, 1)
    assert answer == WaitingForDevices(
        f"cannot use what the plugin of '{GPU}' gives: 'GPU' cannot be a variable or annotation with this value",
        failed=True,
    )
    await stopped(plugin)


async def test_a_rejection_releases_all_devices_and_the_workload_can_retry(agent: Agent) -> None:
    """All or none, also with several plugins."""
    agent.cluster.configure()
    await agent.acquire_when_possible("probe")
    agent.manager.release("probe")
    plugin = await a_plugin(agent)
    await agent.acquire_when_possible("probe", GPU, 1)
    agent.manager.release("probe")
    plugin.refuses = True
    before = snapshot(agent.manager.node.ledger)
    requests = [ResourceRequest("cam", 1), ResourceRequest(GPU, 1)]
    answer = await agent.manager.acquire("w1", requests)
    reason = f"cannot allocate '{GPU}': the device plugin '{plugin.endpoint}' answers: out of order"
    assert answer == WaitingForDevices(reason, failed=True)
    assert snapshot(agent.manager.node.ledger) == before
    assert agent.manager.foreign.resource(GPU).allocated == 0
    plugin.refuses = False
    assert not isinstance(await agent.manager.acquire("w1", requests), WaitingForDevices)
    await stopped(plugin)


async def test_devices_of_a_plugin_that_ended_are_unhealthy_and_later_removed(short_path: Path) -> None:  # noqa: F811
    changed = asyncio.Event()
    foreign = ForeignDevices(short_path, lambda resource, registered: changed.set(), grace=0.3)
    ready = asyncio.Event()
    running = asyncio.create_task(foreign.run(ready))
    await ready.wait()
    plugin = ForeignPlugin(short_path, GPU, HEALTHY)
    await asyncio.to_thread(plugin.start)

    async def until_allocatable_is(number: int, capacity: int) -> None:
        while (foreign.resource(GPU).allocatable, foreign.resource(GPU).capacity) != (number, capacity):
            changed.clear()
            async with asyncio.timeout(10):
                await changed.wait()

    await until_allocatable_is(2, 3)
    await stopped(plugin)
    await until_allocatable_is(0, 3)
    again = ForeignPlugin(short_path, GPU, {"g7": "Healthy"})
    await asyncio.to_thread(again.start)
    await until_allocatable_is(1, 1)
    await stopped(again)
    await until_allocatable_is(0, 1)
    await until_allocatable_is(0, 0)
    assert foreign.resources() == []
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("resource", "version", "endpoint", "why"),
    [
        (GPU, "v1alpha", None, "not supported"),
        ("gpu", "v1beta1", None, "no extended resource"),
        ("kubernetes.io/gpu", "v1beta1", None, "reserved"),
        (GPU, "v1beta1", "../x.sock", "not the name of a socket"),
        (GPU, "v1beta1", "missing.sock", "No such file"),
    ],
)
async def test_an_invalid_registration_is_rejected(
    agent: Agent, resource: str, version: str, endpoint: str | None, why: str
) -> None:
    plugin = ForeignPlugin(agent.manager.foreign.folder, resource, HEALTHY)
    with pytest.raises(grpc.RpcError, match=why):
        await asyncio.to_thread(plugin.start, version, endpoint)
    assert GPU not in agent.manager.foreign.resources()
    await stopped(plugin)


async def test_a_plugin_may_register_again_on_the_same_endpoint(agent: Agent) -> None:
    """The newer connection is used; workloads keep their devices."""
    plugin = await a_plugin(agent)
    await agent.acquire_when_possible("w1", GPU, 1)
    await asyncio.to_thread(plugin.register, "v1beta1", plugin.endpoint)
    await until(lambda: agent.manager.foreign.outage(GPU) is None)
    assert agent.manager.foreign.resource(GPU).allocated == 1
    await agent.acquire_when_possible("w2", GPU, 1)
    await stopped(plugin)


async def test_stale_sockets_are_removed_and_other_files_are_kept(short_path: Path) -> None:  # noqa: F811
    stale = short_path / "old.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(stale))
    (short_path / "notes").write_text("x")
    ready = asyncio.Event()
    running = asyncio.create_task(ForeignDevices(short_path, lambda resource, registered: None).run(ready))
    await ready.wait()
    assert sorted(path.name for path in short_path.iterdir()) == ["kubelet.sock", "notes"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
