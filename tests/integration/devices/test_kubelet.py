"""Device plugins of the agent with a kubelet that uses only the API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import ResourceRequest
from ankaios.devices import pod_reconciler, reconciler
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.node_reports import NodeReports
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.host import DeviceHost, WaitingForDevices
from tests.integration.devices.cluster import FakeHandler
from tests.integration.devices.kubelet_stub import AdmissionError, KubeletStub, pairs
from tests.support.short_paths import short_path  # noqa: F401
from tests.support.waiting import until
from tests.unit.devices.ledgers import snapshot

CAM = "akri.sh/cam"
FOO0, FOO1 = "cam-fbcb99", "cam-d2981e"


class Node:
    """An agent and a kubelet on one node; the server is not connected, and the agent can be killed and restarted."""

    manager: DeviceManager

    def __init__(self, kubelet: KubeletStub, handler: FakeHandler, folder: Path) -> None:
        self.kubelet = kubelet
        self.handler = handler
        self._folder = folder
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        host = DeviceHost(lambda message: None, lambda owner: None, lambda owner: None, lambda: None)
        registry = HandlerRegistry({"fake": lambda: self.handler})
        folder = self._folder
        self.manager = DeviceManager("node-a", folder / "a", host, registry, folder / "k", folder / "h")
        await asyncio.to_thread(self.manager.restore)
        self._running = asyncio.create_task(self.manager.run())

    async def kill(self) -> None:
        """Nothing is released."""
        assert self._running is not None
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    async def restart(self) -> None:
        """The kubelet sees the end of the plugins, so that it does not use their lists for the new ones."""
        await self.kill()
        plugins = self.kubelet.plugins.values
        await asyncio.to_thread(self.kubelet.wait, lambda: all(plugin.ended for plugin in plugins()))
        await self.start()

    def claims(self) -> dict[str, str]:
        return {str(slot): claim.usage for slot, claim in self.manager.node.ledger.claims_on("node-a").items()}

    async def reviewed(self, rounds: int = 6) -> None:
        """Wait for so many runs of the reconciler, which take longer than a slot may be unused."""
        await asyncio.sleep(0.05 * rounds)

    async def admit(
        self,
        pod: str,
        resource: str = CAM,
        quantity: int = 1,
        container: str = "main",
        ids: list[str] | None = None,
    ) -> dict[str, str]:
        response = await asyncio.to_thread(self.kubelet.admit, pod, resource, quantity, container, ids)
        return pairs(response.annotations)

    async def wait(self, **healthy: str) -> None:
        """`cam="0 1"`: until these are the healthy ids of the resource."""
        names = {f"akri.sh/{name.replace('_', '-')}": sorted(ids.split()) for name, ids in healthy.items()}
        await asyncio.to_thread(
            self.kubelet.wait, lambda: all(self.kubelet.healthy(name) == ids for name, ids in names.items())
        )


@pytest.fixture
async def node(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:  # noqa: F811
    monkeypatch.setattr(reconciler.every_round, "__defaults__", (0.05,))
    monkeypatch.setattr(pod_reconciler.PodReconciler.__init__, "__defaults__", (0.1,))
    kubelet = KubeletStub(short_path / "k")
    node = Node(kubelet, FakeHandler(False, map(DiscoveredDevice, ["foo0", "foo1"])), short_path)
    await asyncio.to_thread(kubelet.start)
    async with asyncio.timeout(60):
        await node.start()
        node.manager.handle(configurations(capacity=2))
        await node.wait(cam="0 1", cam_fbcb99=f"{FOO0}-0 {FOO0}-1", cam_d2981e=f"{FOO1}-0 {FOO1}-1")
        yield node
    await node.kill()
    await asyncio.to_thread(kubelet.stop)


def configurations(**fields: int) -> grpc.DeviceUpdate:
    update = grpc.DeviceUpdate(complete=True)
    cam = base.DeviceConfiguration(discoveryHandler=base.DiscoveryHandler(name="fake"), **fields)  # type: ignore[arg-type]
    update.configurations.deviceConfigurations["cam"].CopyFrom(cam)
    return update


async def test_a_kubelet_lists_both_kinds_of_resources(node: Node) -> None:
    """[itest->akri~kubelet-device-plugin-api~1]"""
    assert node.kubelet.capacity() == {CAM: 2, f"akri.sh/{FOO1}": 2, f"akri.sh/{FOO0}": 2}


async def test_a_pod_gets_two_different_cameras_in_one_answer(node: Node) -> None:
    """[itest->akri~kubelet-device-plugin-api~1]"""
    annotations = await node.admit("pod1", quantity=2)
    assert sorted(annotations.values()) == [f"C:0:{FOO1}-0", f"C:1:{FOO0}-0"]
    await node.wait(cam="0 1 2 3", cam_fbcb99=f"{FOO0}-1", cam_d2981e=f"{FOO1}-1")


async def test_a_claimed_id_may_be_allocated_again(node: Node) -> None:
    """A kubelet offers the ids of an init container to the next container of the pod."""
    first = await node.admit("pod1", ids=["0"])
    assert await node.admit("pod1", container="second", ids=["0"]) == first


async def test_a_request_for_three_of_two_cameras_is_rejected_and_the_list_is_sent_again(node: Node) -> None:
    lists = len(node.kubelet.plugins[CAM].lists)
    before = snapshot(node.manager.node.ledger)
    with pytest.raises(AdmissionError, match="Insufficient instances to allocate"):
        await node.admit("pod1", quantity=3, ids=["0", "1", "2"])
    assert snapshot(node.manager.node.ledger) == before
    await asyncio.to_thread(node.kubelet.wait, lambda: len(node.kubelet.plugins[CAM].lists) > lists)


async def test_a_new_pod_is_admitted_when_another_device_appears(node: Node) -> None:
    """The API defines a rejection as final for its pod."""
    with pytest.raises(AdmissionError, match="Insufficient devices"):
        await node.admit("pod1", quantity=3)
    node.handler.show(*map(DiscoveredDevice, ["foo0", "foo1", "foo2"]))
    await node.wait(cam="0 1 2")
    assert len(await node.admit("pod2", quantity=3)) == 3


@pytest.mark.parametrize("resource", [CAM, f"akri.sh/{FOO0}"], ids=["any device", "its device"])
async def test_the_pod_of_a_broker_gets_a_device_and_none_is_admitted_when_it_is_gone(
    node: Node, resource: str
) -> None:
    """Brokers for each node or device name their device, those of a configuration do not."""
    node.handler.show(DiscoveredDevice("foo0"))
    node.manager.handle(configurations(capacity=2, offlineGraceSeconds=0))
    await node.wait(cam="0")
    (slot,) = await node.admit("broker1", resource)
    assert slot == f"akri.agent.slot-{FOO0}-0"
    node.handler.show()
    await node.wait(cam="", cam_fbcb99="")
    with pytest.raises(AdmissionError):
        await node.admit("broker2", resource)
    node.kubelet.end_pod("broker1")
    await until(lambda: not node.claims())


async def test_an_instance_can_be_allocated_and_counts_for_the_configuration(node: Node) -> None:
    await node.admit("pod1", f"akri.sh/{FOO0}", 2)
    await node.wait(cam="0")
    with pytest.raises(AdmissionError, match="has no slot"):
        await node.admit("pod2", f"akri.sh/{FOO0}", ids=[f"{FOO0}-7"])
    assert await node.admit("pod2") == {f"akri.agent.slot-{FOO1}-0": f"C:0:{FOO1}-0"}
    await node.wait(cam="0 1", cam_d2981e=f"{FOO1}-1")


async def test_the_hint_avoids_two_ids_on_one_camera(node: Node) -> None:
    await node.admit("pod1", ids=["0"])
    await node.wait(cam="0 1 2")
    await node.admit("pod2", ids=["1"])
    await node.wait(cam="0 1 2 3")
    await node.admit("pod3", ids=["2"])
    await node.admit("pod4", ids=["3"])
    for pod in ("pod1", "pod2", "pod3", "pod4"):
        node.kubelet.end_pod(pod)
    slots = set((await node.admit("pod5", quantity=2)).values())
    assert len({slot.rpartition("-")[0].rpartition(":")[2] for slot in slots}) == 2


async def test_after_a_restart_of_the_kubelet_everything_is_registered_again_on_fresh_sockets(node: Node) -> None:
    """Akri 0.13 does not register again. [itest->akri~kubelet-device-plugin-api~1]"""
    await node.admit("pod1", ids=["0"])
    await node.wait(cam="0 1 2")
    before = dict(node.kubelet.registrations)
    await asyncio.to_thread(node.kubelet.restart)
    await node.wait(cam="0 1 2", cam_fbcb99=f"{FOO0}-0 {FOO0}-1", cam_d2981e=f"{FOO1}-1")
    after = dict(node.kubelet.registrations)
    assert before.keys() == after.keys()
    assert all(before[resource] != after[resource] for resource in before)
    assert await node.admit("pod1", container="again", ids=["0"]) == {f"akri.agent.slot-{FOO1}-0": f"C:0:{FOO1}-0"}


async def test_a_plugin_whose_socket_is_deleted_registers_again(node: Node) -> None:
    endpoint = dict(node.kubelet.registrations)[CAM]
    (node.kubelet.plugin_folder / endpoint).unlink()
    await asyncio.to_thread(node.kubelet.wait, lambda: [name for name, _ in node.kubelet.registrations].count(CAM) == 2)


async def test_slots_of_ended_pods_are_reclaimed_of_both_kinds(node: Node) -> None:
    """Akri 0.13 never frees slots of instances."""
    await node.admit("pod1")
    await node.admit("pod2", f"akri.sh/{FOO0}", 1)
    await node.admit("pod3", f"akri.sh/{FOO0}", 1)
    await node.wait(cam="0 1")
    node.kubelet.end_pod("pod1")
    node.kubelet.end_pod("pod2")
    await node.wait(cam="0 1", cam_fbcb99=f"{FOO0}-0 {FOO0}-1", cam_d2981e=f"{FOO1}-0 {FOO1}-1")
    assert len(node.manager.node.ledger.claims_on("node-a")) == 1


async def test_the_plugin_of_a_vanished_camera_ends_after_it_reported_an_empty_list(node: Node) -> None:
    plugin = node.kubelet.plugins[f"akri.sh/{FOO1}"]
    node.manager.handle(configurations(capacity=2, offlineGraceSeconds=0))
    node.handler.show(DiscoveredDevice("foo0"))
    await asyncio.to_thread(node.kubelet.wait, lambda: plugin.ended)
    assert plugin.lists[-2:] == [{f"{FOO1}-0": "Unhealthy", f"{FOO1}-1": "Unhealthy"}, {}]
    await node.wait(cam="0")


async def test_workloads_of_the_agent_get_no_devices_of_a_kubelet(node: Node) -> None:
    answer = await node.manager.acquire("w", [ResourceRequest("cam", 1)])
    assert answer == WaitingForDevices("the devices of this node are allocated by its kubelet")


# --- restarts ---


async def test_claims_of_pods_are_kept_after_a_restart_of_the_agent(node: Node) -> None:
    """A device is not granted to a second pod, and ids do not collide with those that the kubelet uses."""
    await node.admit("pod1", ids=["0"])
    await node.admit("pod2", f"akri.sh/{FOO0}", ids=[f"{FOO0}-1"])
    before = node.claims()
    await node.restart()
    await node.wait(cam="0 1 2", cam_fbcb99=f"{FOO0}-0 {FOO0}-1", cam_d2981e=f"{FOO1}-1")
    assert node.claims() == before == {f"{FOO1}-0": "C:0:node-a", f"{FOO0}-1": "node-a"}
    assert await node.admit("pod3", quantity=2) == {
        f"akri.agent.slot-{FOO0}-0": f"C:2:{FOO0}-0",
        f"akri.agent.slot-{FOO1}-1": f"C:1:{FOO1}-1",
    }


async def test_local_devices_are_offered_after_a_restart_without_a_server(node: Node) -> None:
    await node.restart()
    await node.wait(cam="0 1")
    assert await node.admit("pod1") == {f"akri.agent.slot-{FOO1}-0": f"C:0:{FOO1}-0"}


async def test_claims_of_pods_that_ended_during_the_restart_are_released(node: Node) -> None:
    await node.admit("pod1", ids=["0"])
    await node.admit("pod2", ids=["1"])
    await node.kill()
    node.kubelet.end_pod("pod1")
    await node.start()
    await until(lambda: list(node.claims().values()) == ["C:1:node-a"])


async def test_an_agent_that_lost_its_file_restores_claims_from_the_kubelet_checkpoint(node: Node) -> None:
    await node.admit("pod1", ids=["0"])
    await node.admit("pod2", f"akri.sh/{FOO0}", ids=[f"{FOO0}-1"])
    before = node.claims()
    await node.kill()
    (node._folder / "a/pods/claims.json").unlink()
    await node.start()
    await until(lambda: node.claims() == before)


async def test_an_incomplete_list_after_a_restart_of_the_kubelet_frees_nothing(node: Node) -> None:
    await node.admit("pod1", ids=["0"])
    before = node.claims()
    await asyncio.to_thread(node.kubelet.restart, False)
    await node.wait(cam="0 1 2")
    await node.reviewed()
    assert node.claims() == before
    node.kubelet.sources_ready = True
    await node.reviewed()
    assert node.claims() == before
    node.kubelet.end_pod("pod1")
    await until(lambda: not node.claims())


async def test_no_device_is_granted_twice_after_a_restart_of_both(node: Node) -> None:
    await node.admit("pod1", f"akri.sh/{FOO0}", 2)
    await node.kill()
    await asyncio.to_thread(node.kubelet.restart, False)
    await node.start()
    await node.wait(cam="0", cam_fbcb99=f"{FOO0}-0 {FOO0}-1")
    await node.reviewed()
    assert await node.admit("pod2") == {f"akri.agent.slot-{FOO1}-0": f"C:0:{FOO1}-0"}
    assert len(node.claims()) == 3


async def test_an_init_container_keeps_its_device_until_the_pod_ends(node: Node) -> None:
    """It is never listed. The next container of the pod receives the same id."""
    first = await node.admit("pod1", container="init-1")
    await node.reviewed()
    assert list(node.claims().values()) == ["C:0:node-a"]
    assert await node.admit("pod1", container="main") == first
    node.kubelet.end_pod("pod1")
    await until(lambda: not node.claims())


async def test_pods_that_are_admitted_in_parallel_get_different_slots(node: Node) -> None:
    """Two kinds of resources for the same cameras: one of them is rejected if it requests a slot in use."""

    async def admit(pod: int) -> dict[str, str]:
        try:
            return await node.admit(f"pod{pod}", CAM if pod % 2 else f"akri.sh/{FOO0}")
        except AdmissionError:
            return {}

    answers = await asyncio.gather(*map(admit, range(8)))
    slots = [slot for answer in answers for slot in answer]
    assert len(slots) == len(set(slots)) == len(node.claims()) <= 4


async def test_the_hint_prevents_the_rejection_of_pods_of_an_instance(node: Node) -> None:
    """The kubelet has an old list: a slot was claimed through the configuration meanwhile."""
    plugin = node.kubelet.plugins[f"akri.sh/{FOO1}"]
    await node.admit("pod1", ids=["0"])
    await node.wait(cam_d2981e=f"{FOO1}-1")
    plugin.devices = {f"{FOO1}-0": "Healthy", f"{FOO1}-1": "Healthy"}
    assert await node.admit("pod2", f"akri.sh/{FOO1}") == {f"akri.agent.slot-{FOO1}-1": f"{FOO1}-1"}


async def test_a_shared_slot_of_a_pod_is_reported_to_the_server_after_a_restart(node: Node) -> None:
    """Otherwise the server would grant it to another node."""
    node.handler.shared = True
    await node.kill()
    await node.start()
    sent: list[grpc.ToServer] = []
    node.manager.allocator._send = sent.append
    node.manager.connected()
    shared = "cam-8120fe"
    await until(lambda: node.manager.node.is_seen(shared))
    node.manager.handle(grpc.DeviceUpdate(instances={shared: base.DeviceInstance(capacity=2)}))
    await node.wait(cam_8120fe=f"{shared}-0 {shared}-1")
    admitting = asyncio.create_task(node.admit("pod1", f"akri.sh/{shared}"))
    await until(lambda: bool(sent))
    node.manager.handle(grpc.SlotResponse(requestId=sent[0].slotRequest.requestId, granted=True))
    assert await admitting == {f"akri.agent.slot-{shared}-0": f"{shared}-0"}
    await node.restart()
    report = NodeReports(node.manager.node).complete_report()
    assert dict(report.seen[shared].deviceUsage.values)[f"{shared}-0"] == "node-a"
