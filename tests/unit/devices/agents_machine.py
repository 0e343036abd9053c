"""Common parts of the state machines with a server and several agents: agents, messages, connections and devices.

Agents use the real device manager. A subclass has the server and decides what else happens.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.devices.simulated_nodes import FakeForeign, ManualClock, Node, slow_disk

NAMES = ("a", "b", "c")
SHARED, LOCAL = ("foo0", "foo1"), ("bar0",)
names = st.sampled_from(NAMES)


@contextmanager
def simulated_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Plugins of other programs and the disk."""
    with monkeypatch.context() as patched:
        patched.setattr("ankaios.devices.device_manager.ForeignDevices", FakeForeign)
        patched.setattr("ankaios.devices.workload_claims.asyncio.to_thread", slow_disk)
        yield


class AgentsMachine(RuleBasedStateMachine):
    loop: ManualClock
    nodes: Mapping[str, Node]

    def deliver_all(self) -> None:
        raise NotImplementedError

    def finish_work(self) -> None:
        """Deliver all messages and perform everything that waits for a disk or a runtime."""
        self.deliver_all()
        while any(node.paused for node in self.nodes.values()):
            for node in self.nodes.values():
                node.go_on(0)
            self.deliver_all()

    def connect_all(self) -> None:
        for node in self.nodes.values():
            if not node.connected:
                node.connect()

    def show_all_devices(self) -> None:
        for node in self.nodes.values():
            for configuration, (_, devices) in node.devices.items():
                node.show(configuration, devices)

    @rule(name=names, number=st.integers(1, 6))
    def agent_gets_messages(self, name: str, number: int) -> None:
        for _ in range(min(number, len(self.nodes[name].inbox))):
            self.nodes[name].receive()

    @rule(name=names)
    def agent_connects(self, name: str) -> None:
        if not self.nodes[name].connected:
            self.nodes[name].connect()

    @rule(name=names, configuration=st.sampled_from(["cam", "mic"]), count=st.integers(0, 2))
    def devices_vanish_or_return(self, name: str, configuration: str, count: int) -> None:
        _, devices = self.nodes[name].devices[configuration]
        self.nodes[name].show(configuration, devices[:count])

    @invariant()
    def no_task_has_failed(self) -> None:
        for node in self.nodes.values():
            for workload in node.process.workloads.values():
                assert not workload.task.done() or workload.task.exception() is None
