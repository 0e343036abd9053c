"""Several agents and a server in any interleaving, with crashes at any step: no slot in use is freed, none leaks.

Agents use the real device manager. Messages are delivered one at a time and connections break with messages in transit;
agent and server are killed at any step, also between a claim, its record and the start of a container; devices vanish
and return, and the disk fails.
"""

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server.core.device_directory import SETTLE_TICKS, DeviceDirectory, DirectoryChanges
from tests.support.examples import examples
from tests.unit.devices.agents_machine import LOCAL, NAMES, SHARED, AgentsMachine, names, simulated_parts
from tests.unit.devices.simulated_nodes import ManualClock, Node

HANDLER = base.DiscoveryHandler(name="fake")
CONFIGURATIONS = {
    name: base.DeviceConfiguration(discoveryHandler=HANDLER, capacity=1, offlineGraceSeconds=10)
    for name in ("cam", "mic")
}
numbers = st.integers(0, 3)


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with simulated_parts(monkeypatch):
        yield


class Agreement(AgentsMachine):
    crashes = True
    rounds = 8  # until all unused slots are found

    def __init__(self) -> None:
        super().__init__()
        self.loop = ManualClock()
        self.nodes = {name: self.new_node(name) for name in NAMES}
        self.directory = self.new_directory(settled=True)
        self.settled = True
        for node in self.nodes.values():
            self.loop.do(node.process.start)
            node.connect()
        self.deliver_all()

    def new_node(self, name: str) -> Node:
        return Node(name, self.loop, SHARED, LOCAL)

    def new_directory(self, settled: bool) -> DeviceDirectory:
        directory = DeviceDirectory(settled)
        directory.configure(CONFIGURATIONS)
        return directory

    def perform(self, changes: DirectoryChanges) -> None:
        for it in changes.messages:
            if self.nodes[it.agent].connected:
                self.nodes[it.agent].inbox.append(it.message)

    def serve(self, name: str) -> None:
        message = self.nodes[name].outbox.popleft()
        if message.HasField("agentHello"):
            self.perform(self.directory.hello(name, {}, True))
        elif message.HasField("deviceReport"):
            self.perform(self.directory.report(name, message.deviceReport))
        else:
            self.perform(self.directory.slot_request(name, message.slotRequest))

    def deliver_all(self) -> None:
        while any(node.outbox or node.inbox for node in self.nodes.values()):
            for node in self.nodes.values():
                if node.outbox:
                    self.serve(node.name)
                elif node.inbox:
                    node.receive()

    # --- steps ---

    @rule(name=names, number=numbers, configuration=st.sampled_from(["cam", "cam", "mic"]), quantity=st.integers(1, 2))
    def workload_is_wanted(self, name: str, number: int, configuration: str, quantity: int) -> None:
        self.nodes[name].want(f"w{number}.{name}", configuration, quantity if configuration == "cam" else 1)

    @precondition(lambda self: any(node.wanted for node in self.nodes.values()))
    @rule(number=st.integers(0, 11))
    def workload_is_not_wanted_any_more(self, number: int) -> None:
        wanted = [(node, owner) for node in self.nodes.values() for owner in node.wanted]
        node, owner = wanted[number % len(wanted)]
        node.end(owner)

    @rule(name=names, number=st.integers(1, 4))
    def server_gets_messages(self, name: str, number: int) -> None:
        for _ in range(min(number, len(self.nodes[name].outbox))):
            self.serve(name)

    @rule()
    def all_messages_arrive(self) -> None:
        self.deliver_all()

    @rule(name=names, number=numbers, steps=st.integers(1, 4))
    def disk_or_runtime_continues(self, name: str, number: int, steps: int) -> None:
        for _ in range(steps):
            self.nodes[name].go_on(number)

    @rule()
    def for_a_while_no_fault_happens(self) -> None:
        self.finish_work()

    @rule(name=names, broken=st.booleans())
    def disk_fails_or_recovers(self, name: str, broken: bool) -> None:
        self.nodes[name].process.disk_fails = broken

    @rule(name=names)
    def connection_breaks(self, name: str) -> None:
        if self.crashes and self.nodes[name].connected:
            self.nodes[name].cut()
            self.perform(self.directory.gone(name))

    @rule(name=names)
    def agent_is_killed_and_starts_again(self, name: str) -> None:
        if not self.crashes:
            return
        if self.nodes[name].connected:
            self.perform(self.directory.gone(name))
        self.nodes[name].kill()

    @rule(really=st.booleans())
    def server_is_killed_and_starts_again(self, really: bool) -> None:
        if not (self.crashes and really):  # more restarts would leave no server with a long run time
            return
        self.directory = self.new_directory(settled=False)
        self.settled = False
        for node in self.nodes.values():
            node.cut()

    @precondition(lambda self: not self.settled)
    @rule()
    def server_has_waited_for_all_agents(self) -> None:
        """The settle time is long enough for all agents to connect."""
        for node in self.nodes.values():
            if not node.connected:
                node.connect()
            while node.outbox:
                self.serve(node.name)
        for _ in range(SETTLE_TICKS):
            self.perform(self.directory.tick())
        self.settled = True

    @rule(seconds=st.sampled_from([2.0, 6.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        """Responses time out, devices are removed, failed steps are retried, unused slots are found."""
        self.loop.now += seconds
        self.loop.settle()
        for node in self.nodes.values():
            self.loop.do(node.process.time_passed)
            if self.crashes:
                node.review()

    # --- invariants after each step ---

    @invariant()
    def no_slot_has_two_users(self) -> None:
        used = [slot for node in self.nodes.values() for slots in node.containers.values() for slot in slots]
        assert len(used) == len(set(used)), used

    @invariant()
    def no_workload_has_one_device_twice(self) -> None:
        for node in self.nodes.values():
            for slots in node.containers.values():
                assert len({slot.rpartition("-")[0] for slot in slots}) == len(slots)

    # --- invariants at the end ---

    def teardown(self) -> None:
        """In the end the ledgers contain exactly the used slots, and no workload waits without a reason."""
        try:
            self.end_faults()
            self.check()
        finally:
            for node in self.nodes.values():
                self.loop.do(node.process.kill)
                node.close()
            self.loop.close()

    def check(self) -> None:
        self.no_slot_has_two_users()
        used = {slot: owner for node in self.nodes.values() for slot, owner in node.users().items()}
        claims = (self.directory.ledger.claims_on(name) for name in NAMES)
        server = {str(slot): claim.owner for held in claims for slot, claim in held.items()}
        assert shared_part(server) == shared_part(used)
        for node in self.nodes.values():
            node.check_at_rest()

    def end_faults(self) -> None:
        """All agents are connected and healthy, and there is time for all work."""
        if not self.settled:
            self.server_has_waited_for_all_agents()
        self.connect_all()
        for node in self.nodes.values():
            node.process.disk_fails = False
        self.show_all_devices()
        for _ in range(self.rounds):
            self.for_a_while_no_fault_happens()
            self.time_passes(11.0)


def shared_part(owners: dict[str, str]) -> dict[str, str]:
    return {slot: owner for slot, owner in owners.items() if slot.startswith("cam-")}


class AgreementWithoutCrashes(Agreement):
    """Without crashes no slot stays claimed and unused, so no review is needed."""

    crashes = False


TestAgreement = Agreement.TestCase
TestAgreement.settings = examples(25, stateful_step_count=50, derandomize=True)
TestAgreementWithoutCrashes = AgreementWithoutCrashes.TestCase
TestAgreementWithoutCrashes.settings = examples(15, stateful_step_count=40, derandomize=True)
