"""The service of one plugin, with calls that record the responses."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.node_devices import DeviceChanges, NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.devices.kubelet_plugins import ConfigurationDevicePlugin, InstanceDevicePlugin
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.devices.plugin_api import ALLOCATE, LIST_AND_WATCH, OPTIONS, PRE_START, PREFERRED
from ankaios.devices.plugin_service import DevicePluginService
from ankaios.grpc.server_call import ServerCall
from ankaios.grpc.wire_format import CallFailed
from tests.unit.devices.ledgers import snapshot
from tests.unit.devices.nodes import UnwrittenPodClaims, an_allocator

A, B = "cam-fbcb99", "cam-d2981e"


class FakeCall:
    def __init__(self, request: Any = None) -> None:
        self._request = request
        self.metadata: dict[str, str] = {}
        self.sent: list[Any] = []

    async def receive_request(self, kind: type[Any], limit: int) -> Any:
        return self._request or kind()

    def accept(self) -> None:
        pass

    async def respond(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    def lists(self) -> list[str]:
        """`"0 1!"`: id 1 is unhealthy."""
        return [
            " ".join(device.ID + ("" if device.health == "Healthy" else "!") for device in message.devices)
            for message in self.sent
        ]


async def served(service: DevicePluginService, method: str, call: FakeCall) -> None:
    await service.handlers()[method](cast(ServerCall, call))


class Node:
    """Node-a with two local cameras of capacity 2 and the plugins for them."""

    def __init__(self) -> None:
        self.devices = NodeDevices("node-a")
        self.allocator = an_allocator(self.devices, self.changed)
        self.claims = UnwrittenPodClaims(self.devices)
        self.services = {
            "cam": DevicePluginService(ConfigurationDevicePlugin(self.devices, self.allocator, self.claims, "cam")),
            A: DevicePluginService(InstanceDevicePlugin(self.devices, self.allocator, self.claims, A)),
            B: DevicePluginService(InstanceDevicePlugin(self.devices, self.allocator, self.claims, B)),
        }
        self.devices.configure({"cam": Configuration("cam", "fake", capacity=2, offline_grace=0)})
        self.see("foo0", "foo1")
        self.calls: dict[str, FakeCall] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def see(self, *ids: str) -> None:
        self.changed(self.devices.observe("cam", "s", map(DiscoveredDevice, ids), False, 0))

    def changed(self, changes: DeviceChanges) -> None:
        for name in changes.instances | changes.configurations:
            self.services[name].refresh()

    async def watch(self) -> None:
        for name, service in self.services.items():
            self.calls[name] = FakeCall()
            self._tasks.append(asyncio.create_task(served(service, LIST_AND_WATCH, self.calls[name])))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def new_lists(self) -> dict[str, list[str]]:
        """The lists that every stream received since the last call, without streams that received none."""
        await self.settle()
        received = {name: call.lists() for name, call in self.calls.items()}
        for call in self.calls.values():
            call.sent.clear()
        return {name: lists for name, lists in received.items() if lists}

    async def allocate(self, name: str, *requests: Sequence[str]) -> list[dict[str, str]]:
        containers = [pb.ContainerAllocateRequest(devices_ids=ids) for ids in requests]
        call = FakeCall(pb.AllocateRequest(container_requests=containers))
        await served(self.services[name], ALLOCATE, call)
        return [dict(response.annotations) for response in call.sent[0].container_responses]

    async def ended(self) -> bool:
        await asyncio.wait(self._tasks, timeout=1)
        return all(task.done() for task in self._tasks)


async def watched() -> Node:
    node = Node()
    await node.watch()
    await node.new_lists()
    return node


async def test_the_first_list_is_sent_immediately() -> None:
    """[utest->akri~il-fixed-virtual-ids~1] [utest->akri~cl-availability-rule~1]"""
    node = Node()
    await node.watch()
    assert await node.new_lists() == {"cam": ["0 1"], A: [f"{A}-0 {A}-1"], B: [f"{B}-0 {B}-1"]}


async def test_both_kinds_of_plugin_are_one_service_with_two_behaviours() -> None:
    """[utest->akri~one-service-two-behaviours~1]"""
    node = Node()
    methods = {OPTIONS, LIST_AND_WATCH, PREFERRED, ALLOCATE, PRE_START}
    for service in node.services.values():
        assert type(service) is DevicePluginService
        assert service.handlers().keys() == methods
    assert [type(service.behaviour).__name__ for service in node.services.values()] == [
        "ConfigurationDevicePlugin",
        "InstanceDevicePlugin",
        "InstanceDevicePlugin",
    ]
    assert [service.behaviour.resource for service in node.services.values()][:2] == ["akri.sh/cam", f"akri.sh/{A}"]


async def test_a_configuration_level_success_refreshes_the_instances_it_changes() -> None:
    """[utest->akri~il-notification-rules~1]"""
    node = await watched()
    assert await node.allocate("cam", ["0"]) == [{f"akri.agent.slot-{B}-0": f"C:0:{B}-0"}]
    assert await node.new_lists() == {"cam": ["0 1 2"], B: [f"{B}-0! {B}-1"]}


async def test_an_instance_level_success_refreshes_the_configuration() -> None:
    """[utest->akri~cl-notification-rules~1]"""
    node = await watched()
    assert await node.allocate(A, [f"{A}-0", f"{A}-1"]) == [
        {f"akri.agent.slot-{A}-0": f"{A}-0", f"akri.agent.slot-{A}-1": f"{A}-1"}
    ]
    assert await node.new_lists() == {"cam": ["0 1!", "0"]}


async def test_a_failed_allocation_refreshes_the_requesting_plugin_and_changes_nothing() -> None:
    """[utest->akri~il-notification-rules~1] [utest->akri~cl-notification-rules~1]"""
    node = await watched()
    before = snapshot(node.devices.ledger)
    with pytest.raises(CallFailed, match="Insufficient instances"):
        await node.allocate("cam", ["0", "1", "2"])
    assert await node.new_lists() == {"cam": ["0 1"]}
    with pytest.raises(CallFailed, match="has no slot"):
        await node.allocate(A, [f"{A}-9"])
    assert await node.new_lists() == {A: [f"{A}-0 {A}-1"]}
    assert snapshot(node.devices.ledger) == before


async def test_a_new_or_lost_device_refreshes_the_configuration() -> None:
    """[utest->akri~cl-notification-rules~1]"""
    node = await watched()
    node.services["cam-95f05d"] = DevicePluginService(
        InstanceDevicePlugin(node.devices, node.allocator, node.claims, "cam-95f05d")
    )
    changes = node.devices.observe("cam", "s", map(DiscoveredDevice, ("foo0", "foo1", "foo2")), False, 0)
    node.services |= {
        name: DevicePluginService(InstanceDevicePlugin(node.devices, node.allocator, node.claims, name))
        for name in changes.instances
        if name not in node.services
    }
    node.changed(changes)
    assert (await node.new_lists())["cam"] == ["0 1 2"]
    node.see("foo0")
    assert (await node.new_lists())["cam"] == ["0 1! 2!", "0"]


async def test_an_ended_plugin_reports_all_devices_as_unhealthy_and_ends_its_streams() -> None:
    """[utest->akri~il-notification-rules~1] [utest->akri~cl-notification-rules~1]"""
    node = await watched()
    for service in node.services.values():
        service.end()
        await service.wait_until_ended(1)
    assert await node.new_lists() == {
        "cam": ["0! 1!", ""],
        A: [f"{A}-0! {A}-1!", ""],
        B: [f"{B}-0! {B}-1!", ""],
    }
    assert await node.ended()


async def test_released_slots_reduce_the_advertised_devices() -> None:
    """[utest->akri~reconciler-frees-unused-slots~1]"""
    node = await watched()
    await node.allocate("cam", ["0", "1"])
    await node.allocate("cam", ["2", "3"])
    assert (await node.new_lists())["cam"][-1] == "0 1 2 3"
    ledger = node.devices.ledger
    node.allocator.release(
        {slot: claim for slot, claim in ledger.claims_on("node-a").items() if claim.virtual_id != "3"}
    )
    assert (await node.new_lists())["cam"] == ["0 1 3 2!", "0 1 3"]


async def test_several_containers_of_one_call_are_answered_in_their_order() -> None:
    """[utest->akri~cl-allocate-per-container-request~1]"""
    node = Node()
    node.devices.shared.begin([SlotChange(Slot(B, 1), Claim("node-a", "3"))])
    answers = await node.allocate("cam", ["0", "1"], ["3"])
    assert [sorted(answer.values()) for answer in answers] == [[f"C:0:{A}-0", f"C:1:{B}-0"], [f"C:3:{B}-1"]]


async def test_options_preferences_and_the_start_of_a_container() -> None:
    node = Node()
    call = FakeCall()
    await served(node.services["cam"], OPTIONS, call)
    await served(node.services["cam"], PRE_START, call)
    assert call.sent == [
        pb.DevicePluginOptions(get_preferred_allocation_available=True),
        pb.PreStartContainerResponse(),
    ]
    for name, ids in (("cam", ["0", "1"]), (A, [f"{A}-0", f"{A}-1"])):
        wanted = pb.ContainerPreferredAllocationRequest(available_deviceIDs=ids, allocation_size=1)
        call = FakeCall(pb.PreferredAllocationRequest(container_requests=[wanted]))
        await served(node.services[name], PREFERRED, call)
        assert list(call.sent[0].container_responses[0].deviceIDs) == ids[:1]
