"""A server that places workloads and keeps replicas, and agents, in any interleaving and with crashes at any step.

The server is the real `AnkaiosServer`, agents have the real device manager. Operators change the workloads; agents and
the server are killed, nodes lose power for good and return, devices vanish, and messages are lost with connections. No
slot has two users, and at the end each workload runs exactly once for each wanted instance, or waits because no agent
has the devices.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from ankaios.common.execution_state import (
    PENDING_INITIAL,
    PENDING_WAITING_TO_START,
    REMOVED,
    RUNNING_OK,
    STOPPING,
    ExecutionState,
)
from ankaios.common.messages import FromAgent, ToAgent
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_from_pb, instance_name_to_pb, workload_state_to_pb
from ankaios.common.workload import InstanceName
from ankaios.server.core.device_directory import NODE_LOST_TICKS, SETTLE_TICKS
from ankaios.server.core.replies import Effect, SecondPassed
from tests.support.examples import examples
from tests.unit.devices.agents_machine import LOCAL, NAMES, SHARED, AgentsMachine, names, simulated_parts
from tests.unit.devices.simulated_nodes import ManualClock, Node
from tests.unit.server.scenario import Scenario, a_form, success_of

CONFIGURATION = {"discoveryHandler": {"name": "fake"}, "capacity": 1, "onDeviceLost": "restart"}
CONFIGURATIONS = {
    "cam": CONFIGURATION | {"offlineGraceSeconds": 10},
    "mic": CONFIGURATION | {"offlineGraceSeconds": 10},
}
MOST_ROUNDS = 2000  # far more than any exchange of messages needs
PLACED, REPLICATED, EVERYWHERE = ("p0", "p1", "p2"), "web", "probe"


class PlacedNode(Node):
    """An agent that runs what the server sends, and reports its states."""

    def __init__(self, name: str, loop: ManualClock) -> None:
        super().__init__(name, loop, SHARED, LOCAL)
        self.reported: dict[str, ExecutionState] = {}
        self.is_greeted = False
        self.is_on = True

    def connect(self) -> None:
        if self.is_on:
            self.is_greeted = False
            self.connected = True
            hello = grpc.AgentHello(agentName=self.name, protocolVersion="1.0.0", devices=True)
            self.outbox.append(grpc.ToServer(agentHello=hello))
            self.loop.do(self.process.manager.connected)

    def kill(self) -> None:
        """The agent loses its assigned workloads; its containers continue to run."""
        self.wanted = {owner: needs for owner, needs in self.wanted.items() if owner in self.containers}
        self.reported = {}
        super().kill()

    def lose_power(self) -> None:
        self.containers.clear()
        self.wanted.clear()
        self.kill()
        self.is_on = False

    def receive(self) -> None:
        message = self.inbox[0]
        match message.WhichOneof("FromServerEnum"):
            case "deviceUpdate" | "slotResponse":
                super().receive()
                return
            case "serverHello":
                added = {self._owner(it): self._needs(it) for it in message.serverHello.addedWorkloads}
                for owner in [owner for owner in self.wanted if owner not in added]:
                    self.end(owner)
                self._begin(added)
                self.is_greeted, self.reported = True, {}
            case "updateWorkload":
                for deleted in message.updateWorkload.deletedWorkloads:
                    self.end(str(instance_name_from_pb(deleted.instanceName)))
                self._begin({self._owner(it): self._needs(it) for it in message.updateWorkload.addedWorkloads})
            case "tellWorkloads":
                known = map(InstanceName.parse, self.wanted.keys() | self.containers.keys())
                names = [instance_name_to_pb(name) for name in known if name is not None]
                self.outbox.append(grpc.ToServer(knownWorkloads=grpc.KnownWorkloads(instanceNames=names)))
        self.inbox.popleft()

    def _begin(self, workloads: dict[str, tuple[str, int]]) -> None:
        for owner, (configuration, quantity) in workloads.items():
            self.want(owner, configuration, quantity)

    @staticmethod
    def _owner(added: grpc.AddedWorkload) -> str:
        return str(instance_name_from_pb(added.instanceName))

    @staticmethod
    def _needs(added: grpc.AddedWorkload) -> tuple[str, int]:
        (request,) = added.workload.resources.resources or [None]
        return (request.name, request.quantity) if request is not None else ("", 0)

    def report(self) -> bool:
        """Send the states that changed. Returns whether any did."""
        if not (self.connected and self.is_greeted):
            return False
        states = {owner: self._state(owner) for owner in self.process.workloads}
        gone = dict.fromkeys(self.reported.keys() - states.keys(), REMOVED)
        changed = {owner: it for owner, it in {**states, **gone}.items() if self.reported.get(owner) != it}
        names = {owner: InstanceName.parse(owner) for owner in changed}
        messages = [workload_state_to_pb(name, changed[owner]) for owner, name in names.items() if name is not None]
        self.reported = states
        if messages:
            update = grpc.UpdateWorkloadState(workloadStates=messages)
            self.outbox.append(grpc.ToServer(updateWorkloadState=update))
        return bool(messages)

    def _state(self, owner: str) -> ExecutionState:
        workload = self.process.workloads[owner]
        if workload.stopping:
            return STOPPING
        if owner in self.containers:
            return RUNNING_OK
        return PENDING_INITIAL if workload.waits is None else PENDING_WAITING_TO_START.because(workload.waits)


class PlacementAgreement(AgentsMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = ManualClock()
        self.nodes: dict[str, PlacedNode] = {name: PlacedNode(name, self.loop) for name in NAMES}
        self.workloads: dict[str, dict[str, Any]] = {}
        self.versions = count()
        self.start_server()
        for node in self.nodes.values():
            self.loop.do(node.process.start)
        self.run_without_faults(SETTLE_TICKS)

    # --- the server ---

    def start_server(self) -> None:
        """The server starts with the startup manifest."""
        self.scenario = Scenario()
        state = {"apiVersion": "v1", "workloads": self.workloads, "deviceConfigurations": CONFIGURATIONS}
        success_of(self.scenario.update({"desiredState": state}, "desiredState"))

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ToAgent) and self.nodes[effect.agent].connected:
                self.nodes[effect.agent].inbox.append(effect.message)

    def serve(self, node: PlacedNode) -> None:
        self.perform(self.scenario.server.handle(FromAgent(node.name, node.outbox.popleft())))

    def deliver_all(self) -> None:
        for _ in range(MOST_ROUNDS):
            busy = False
            for node in self.nodes.values():
                busy |= node.report()
                if node.outbox:
                    self.serve(node)
                elif node.inbox:
                    node.receive()
                busy |= bool(node.outbox or node.inbox)
            if not busy:
                return
        raise AssertionError(
            f"messages without end: {[(it.name, *it.outbox, *it.inbox) for it in self.nodes.values()]}"
        )

    def run_without_faults(self, seconds: int) -> None:
        self.connect_all()
        self.finish_work()
        self.pass_time(seconds)

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.perform(self.scenario.server.handle(SecondPassed()))
        self.loop.now += seconds
        self.loop.settle()
        for node in self.nodes.values():
            self.loop.do(node.process.time_passed)
            node.review()

    def change(self, name: str, form: dict[str, Any] | None) -> None:
        self.workloads.pop(name, None)
        if form is not None:
            form["runtimeConfig"] = f"version {next(self.versions)}"
            self.workloads[name] = form
        workloads = {} if form is None else {name: form}
        state = {"desiredState": {"apiVersion": "v1", "workloads": workloads}}
        effects = self.scenario.update(state, f"desiredState.workloads.{name}")
        success_of(effects)
        self.perform(effects)

    # --- steps ---

    @rule(name=st.sampled_from(PLACED), configuration=st.sampled_from(["cam", "mic"]), quantity=st.integers(1, 2))
    def workload_is_wanted(self, name: str, configuration: str, quantity: int) -> None:
        resources = [{"name": configuration, "quantity": quantity if configuration == "cam" else 1}]
        self.change(name, a_form(agent="", placement={}, resources=resources))

    @rule(replicas=st.integers(0, 3), spread=st.booleans(), configuration=st.sampled_from(["cam", "mic", ""]))
    def replicas_are_wanted(self, replicas: int, spread: bool, configuration: str) -> None:
        resources: dict[str, Any] = {"resources": [{"name": configuration, "quantity": 1}]} if configuration else {}
        self.change(REPLICATED, a_form(agent="", placement={"replicas": replicas, "spread": spread}, **resources))

    @rule()
    def an_instance_on_every_agent_is_wanted(self) -> None:
        self.change(EVERYWHERE, a_form(agent="", placement={"everyAgent": True}))

    @rule(name=st.sampled_from([*PLACED, REPLICATED, EVERYWHERE]))
    def workload_is_not_wanted_any_more(self, name: str) -> None:
        if name in self.workloads:
            self.change(name, None)

    @rule(name=names, number=st.integers(1, 4))
    def server_gets_messages(self, name: str, number: int) -> None:
        self.nodes[name].report()
        for _ in range(min(number, len(self.nodes[name].outbox))):
            self.serve(self.nodes[name])

    @rule(name=names, number=st.integers(0, 3))
    def disk_or_runtime_continues(self, name: str, number: int) -> None:
        self.nodes[name].go_on(number)

    @rule()
    def for_a_while_no_fault_happens(self) -> None:
        self.run_without_faults(1)

    @rule(name=names)
    def connection_breaks(self, name: str) -> None:
        if self.nodes[name].connected:
            self.nodes[name].cut()
            self.perform(self.scenario.gone(name))

    @rule(name=names)
    def agent_is_killed_and_starts_again(self, name: str) -> None:
        self.connection_breaks(name)
        self.nodes[name].kill()

    @rule(name=names, for_good=st.booleans())
    def node_loses_power(self, name: str, for_good: bool) -> None:
        """The server removes an agent that is disconnected for a long time."""
        self.connection_breaks(name)
        self.nodes[name].lose_power()
        if for_good:
            self.run_without_faults(NODE_LOST_TICKS + 1)
        self.run_without_faults(1)

    @rule(name=names)
    def node_has_power_again(self, name: str) -> None:
        self.nodes[name].is_on = True

    @rule(really=st.booleans())
    def server_is_killed_and_starts_again(self, really: bool) -> None:
        """Running agents connect in time."""
        if not really:
            return
        for node in self.nodes.values():
            node.cut()
        self.start_server()
        for _ in range(SETTLE_TICKS + 1):
            self.run_without_faults(1)

    @rule(seconds=st.sampled_from([2, 6, 11]))
    def time_passes(self, seconds: int) -> None:
        self.pass_time(seconds)

    # --- invariants after each step ---

    @invariant()
    def no_slot_has_two_users(self) -> None:
        used = Counter(slot for node in self.nodes.values() for slot in node.users())
        assert max(used.values(), default=1) == 1, used

    # --- invariants at the end ---

    def teardown(self) -> None:
        try:
            for node in self.nodes.values():
                node.is_on = True
            self.show_all_devices()
            for _ in range(10):
                self.run_without_faults(11)
            self.check()
        finally:
            for node in self.nodes.values():
                self.loop.do(node.process.kill)
            self.loop.close()

    def check(self) -> None:
        running = Counter(owner.partition(".")[0] for node in self.nodes.values() for owner in node.containers)
        wanted = self.wanted_instances()
        assert set(running) <= set(wanted), running
        assert max(running.values(), default=1) == 1, running
        for name, form in wanted.items():
            if name not in running:
                self.check_waiting(name, form)
        for node in self.nodes.values():
            node.check_at_rest()

    def wanted_instances(self) -> dict[str, dict[str, Any]]:
        found = {name: form for name, form in self.workloads.items() if name in PLACED}
        if REPLICATED in self.workloads:
            form = self.workloads[REPLICATED]
            found |= {f"{REPLICATED}-{number}": form for number in range(form["placement"]["replicas"])}
        if EVERYWHERE in self.workloads:
            found |= {f"{EVERYWHERE}-{name}": self.workloads[EVERYWHERE] for name in NAMES}
        return found

    def check_waiting(self, name: str, form: dict[str, Any]) -> None:
        """It may wait only if no agent has enough free devices. All agents see the shared ones."""
        (request,) = form["resources"]
        used = {slot.rpartition("-")[0] for node in self.nodes.values() for slot in node.users()}
        instances = self.scenario.get("deviceInstances")["deviceInstances"]
        free = [it for it in instances if it.startswith(f"{request['name']}-") and it not in used]
        assert len(free) < request["quantity"] if request["name"] == "cam" else not free, (name, free)


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with simulated_parts(monkeypatch):
        yield


TestPlacementAgreement = PlacementAgreement.TestCase
TestPlacementAgreement.settings = examples(12, stateful_step_count=30, derandomize=True)


def test_a_waiting_workload_is_not_placed_for_the_device_of_an_updated_one() -> None:
    """It was placed while the device was free between the two instances, and waited beside a free one."""
    machine = PlacementAgreement()
    machine.node_loses_power(for_good=False, name="a")
    machine.replicas_are_wanted(configuration="mic", replicas=2, spread=False)
    machine.workload_is_wanted(configuration="mic", name="p0", quantity=1)
    machine.node_loses_power(for_good=False, name="a")
    machine.replicas_are_wanted(configuration="mic", replicas=1, spread=False)
    machine.teardown()
