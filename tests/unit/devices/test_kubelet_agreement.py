"""Nodes under a kubelet and a node without one, with crashes at any step: no slot in use is freed, none leaks.

Two of three nodes are allocated by their kubelets. In addition to what can happen to agents and the server, kubelets
are killed at any step, also between an answer and its checkpoint, have old lists of devices, list no pods for a while
after their start, and run init containers; several pods are admitted at a time.
"""

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server.core.device_directory import DeviceDirectory
from tests.support.examples import examples
from tests.unit.devices.agents_machine import LOCAL, SHARED
from tests.unit.devices.simulated_kubelet import KubeletNode, slow_disk
from tests.unit.devices.simulated_nodes import FakeForeign, Node
from tests.unit.devices.test_slot_agreement import CONFIGURATIONS, Agreement

kubelets = st.sampled_from(["a", "c"])


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr("ankaios.devices.device_manager.ForeignDevices", FakeForeign)
        patched.setattr("ankaios.devices.workload_claims.asyncio.to_thread", slow_disk)
        yield


def replace_capacity(configuration: base.DeviceConfiguration, capacity: int) -> base.DeviceConfiguration:
    changed = base.DeviceConfiguration()
    changed.CopyFrom(configuration)
    changed.capacity = capacity
    return changed


class KubeletAgreement(Agreement):
    rounds = 16  # the kubelet has to write its checkpoint first

    def __init__(self) -> None:
        super().__init__()
        for node in self.kubelet_nodes():
            node.kubelet.get_lists()

    def new_node(self, name: str) -> Node:
        node_type = Node if name == "b" else KubeletNode
        return node_type(name, self.loop, SHARED, LOCAL)

    def new_directory(self, settled: bool) -> DeviceDirectory:
        directory = super().new_directory(settled)
        directory.configure({name: replace_capacity(it, 2) for name, it in CONFIGURATIONS.items()})
        return directory

    def kubelet_node(self, name: str) -> KubeletNode:
        node = self.nodes[name]
        assert isinstance(node, KubeletNode)
        return node

    def kubelet_nodes(self) -> list[KubeletNode]:
        return [node for node in self.nodes.values() if isinstance(node, KubeletNode)]

    # --- steps ---

    @rule(name=kubelets, resource=st.integers(0, 4), init=st.booleans())
    def pod_is_wanted(self, name: str, resource: int, init: bool) -> None:
        """The pod requests any offered resource, of a configuration or of a device."""
        node = self.kubelet_node(name)
        if not node.kubelet.lists:
            self.lists_arrive(name, is_current=True)
        if offered := sorted(node.kubelet.lists):
            containers = ("init", "main") if init else ("main",)
            node.want_pod(offered[resource % len(offered)], 1, containers)

    @rule(name=kubelets, resource=st.integers(0, 4), init=st.booleans())
    def pod_starts(self, name: str, resource: int, init: bool) -> None:
        """Pods start without a fault, so that later faults can affect them."""
        if not self.nodes[name].connected:
            self.nodes[name].connect()
        self.lists_arrive(name, is_current=True)
        self.pod_is_wanted(name, resource, init)
        self.for_a_while_no_fault_happens()

    @rule(name=kubelets, is_current=st.booleans())
    def lists_arrive(self, name: str, is_current: bool) -> None:
        """The agent has its current claims, or those from before the last messages of the server."""
        if is_current:
            self.deliver_all()
        self.kubelet_node(name).kubelet.get_lists()

    @rule(name=kubelets)
    def kubelet_is_killed_and_starts_again(self, name: str) -> None:
        node = self.kubelet_node(name)
        self.loop.do(node.kubelet.restart)

    @rule(name=kubelets)
    def kubelet_has_its_pods(self, name: str) -> None:
        node = self.kubelet_node(name)
        self.loop.do(node.kubelet.sources_ready)

    @rule(name=kubelets)
    def reconciler_begins(self, name: str) -> None:
        self.kubelet_node(name).review()

    # --- invariants after each step ---

    @invariant()
    def slots_of_pods_are_claimed(self) -> None:
        for node in self.kubelet_nodes():
            node.check_in_use()

    # --- invariants at the end ---

    def end_faults(self) -> None:
        for node in self.kubelet_nodes():
            self.loop.do(node.kubelet.get_lists)
            self.loop.do(node.kubelet.sources_ready)
        super().end_faults()


TestKubeletAgreement = KubeletAgreement.TestCase
TestKubeletAgreement.settings = examples(20, stateful_step_count=40, derandomize=True)
