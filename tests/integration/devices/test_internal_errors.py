"""A bug in any task of the device manager is logged, the task continues, and devices are granted as before."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ankaios.common import supervision
from ankaios.devices import device_manager
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.slot_ledger import Claim, Slot
from ankaios.devices.host import WaitingForDevices
from ankaios.devices.reconciler import every_round
from tests.integration.devices.cluster import Agent, Cluster
from tests.integration.devices.foreign_plugin import ForeignPlugin
from tests.support.bugs import SHOWN, FailsOnce
from tests.support.short_paths import short_path  # noqa: F401
from tests.support.waiting import until


@dataclass
class Node:
    agent: Agent
    cluster: Cluster
    patch: pytest.MonkeyPatch
    caplog: pytest.LogCaptureFixture

    def breaks(self, owner: object, name: str) -> None:
        self.patch.setattr(owner, name, FailsOnce(getattr(owner, name)))

    async def until_broken(self) -> None:
        await until(lambda: "internal error" in self.caplog.text)


@pytest.fixture
async def node(
    short_path: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> AsyncIterator[Node]:
    monkeypatch.setattr(supervision, "FIRST_DELAY", 0.001)
    monkeypatch.setattr(device_manager, "every_round", lambda review: every_round(lambda now: review(now), 0.01))
    cluster = Cluster(short_path)
    async with asyncio.timeout(60):
        yield Node(await cluster.agent("node-a", False, "foo0"), cluster, monkeypatch, caplog)
    await cluster.stop()


async def handler(node: Node) -> None:
    """A workload that waits for a device reports why there is none."""
    node.breaks(node.agent.handler, "discover")
    node.patch.setattr(supervision, "FIRST_DELAY", 60.0)
    node.cluster.configure()
    await node.until_broken()
    answer = await node.agent.acquire("w0")
    assert isinstance(answer, WaitingForDevices)
    assert SHOWN in answer.reason
    node.agent.manager.release("w0")
    node.patch.setattr(supervision, "FIRST_DELAY", 0.001)
    node.cluster.configure(details="second request")


async def discovery_of_a_configuration(node: Node) -> None:
    node.breaks(node.agent.manager._registry, "get")
    node.cluster.configure()
    await node.until_broken()


async def reconciling(node: Node) -> None:
    node.cluster.configure()
    await node.agent.acquire_when_possible("w0")
    node.agent.living = {"w0"}
    node.breaks(node.agent.manager.node.ledger, "claims_on")
    await node.until_broken()
    node.agent.manager.release("w0")


async def retrying(node: Node) -> None:
    node.breaks(node.agent.manager._reporter, "retry_failed")
    await node.until_broken()
    node.cluster.configure()


async def vanishing(node: Node) -> None:
    node.cluster.configure()
    node.breaks(node.agent.manager.node, "next_deadline")
    node.agent.handler.show(DiscoveredDevice("foo0"), DiscoveredDevice("foo1"))
    await node.until_broken()


async def claiming_again(node: Node) -> None:
    node.cluster.configure()
    await node.agent.acquire_when_possible("w0")
    (name,) = node.agent.holds("w0")
    slot = Slot.parse(name)
    assert slot is not None
    node.breaks(node.agent.manager.allocator, "claim")
    node.agent.manager._lost._revoked.put_nowait((slot, Claim("node-a", "0", "w0")))
    await node.until_broken()
    node.agent.manager.release("w0")


async def foreign_plugin(node: Node) -> None:
    node.cluster.configure()
    await until((node.agent.manager.foreign.folder / "kubelet.sock").exists)
    plugins = node.agent.manager.foreign._plugins
    node.breaks(plugins, "_take_list")
    plugin = ForeignPlugin(node.agent.manager.foreign.folder, "example.com/gpu", {"g0": "Healthy"})
    await asyncio.to_thread(plugin.start)
    await node.until_broken()
    await asyncio.to_thread(plugin.stop)


async def handlers_of_others(node: Node) -> None:
    node.breaks(node.agent.manager, "_start")
    node.cluster.configure()
    await node.until_broken()


@dataclass
class Kind:
    crash: Callable[[Node], Awaitable[None]]
    log: str


KINDS = [
    Kind(handler, "the discovery handler 'fake' for 'cam', starting it again"),
    Kind(discovery_of_a_configuration, "the discovery for 'cam', starting it again"),
    Kind(reconciling, "the device reconciler, starting it again"),
    Kind(retrying, "the retry of failed claims, starting it again"),
    Kind(vanishing, "the end of vanished devices, starting it again"),
    Kind(claiming_again, "the claim of slot cam-"),
    Kind(foreign_plugin, "the device plugin for 'example.com/gpu', giving it up"),
    Kind(handlers_of_others, "the registration of discovery handlers, starting it again"),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.crash.__name__)
async def test_a_bug_is_logged_and_devices_are_granted_as_before(kind: Kind, node: Node) -> None:
    await kind.crash(node)
    errors = [record for record in node.caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage().startswith(f"internal error in {kind.log}") for record in errors] == [True]
    assert errors[0].exc_info and errors[0].getMessage().endswith(": Bug: a bug")
    (grant,) = await node.agent.acquire_when_possible("web")
    assert grant.envs
    node.agent.manager.release("web")
