"""Several agents and a server in any interleaving, with crashes at any step: a slot never has two users, none leaks.

The agents here do what `SlotOffice` and `Acquisition` do, with messages as plain queues, so that every order of steps
can be tried: messages are delivered one at a time, connections break with messages under way, processes lose their
memory and keep their files.
"""

from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ankaios.common.messages import ToAgent
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.device_messages import slot_request
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange
from ankaios.devices.core.workload_plan import Plan, Wish
from ankaios.devices.discovery.base import DiscoveredDevice
from ankaios.server.core.device_desk import DeskEffect, DeviceDesk

NODES = ("a", "b", "c")
DEVICES = [DiscoveredDevice("foo0"), DiscoveredDevice("foo1")]
CAPACITY = 1
CONFIGURATION = base.DeviceConfiguration(
    discoveryHandler=base.DiscoveryHandler(name="fake"), capacity=CAPACITY, offlineGraceSeconds=10
)


@dataclass
class SimulatedAgent:
    name: str
    node: NodeDevices = field(init=False)
    files: dict[str, dict[Slot, Claim]] = field(default_factory=dict)  # what survives a crash
    running: dict[str, set[Slot]] = field(default_factory=dict)  # containers, which outlive the agent
    asked: dict[str, tuple[str, list[SlotChange]]] = field(default_factory=dict)
    outbox: deque[grpc.ToServer] = field(default_factory=deque)
    inbox: deque[grpc.FromServer] = field(default_factory=deque)
    connected: bool = False
    number: int = 0

    def start(self) -> None:
        self.node = NodeDevices(self.name)
        self.asked = {}
        for claims in self.files.values():
            for slot, claim in claims.items():
                device = next(d for d in DEVICES if Instance.of("cam", d, True, "").name == slot.instance)
                self.node.remember(Instance.of("cam", device, True, self.name), CAPACITY, {slot: claim})
        self.node.configure({"cam": Configuration("cam", "fake", capacity=CAPACITY, offline_grace=10)})
        self.node.observe("cam", "s", DEVICES, True, 0)

    def send(self, message: grpc.ToServer) -> None:
        if self.connected:
            self.outbox.append(message)

    def connect(self) -> None:
        self.connected = True
        for _, changes in self.asked.values():
            self.node.settle(changes, granted=False)  # no answer will come
        self.asked = {}
        self.node.session_began()
        self.send(grpc.ToServer(agentHello=grpc.AgentHello(devices=True)))
        self.send(grpc.ToServer(deviceReport=self.node.complete_report()))

    def cut(self) -> None:
        self.connected = False
        self.outbox.clear()
        self.inbox.clear()

    def acquire(self, owner: str, quantity: int) -> None:
        if owner in self.files or any(owner == other for other, _ in self.asked.values()):
            return
        plan = self.node.plan([Wish("akri.sh/cam", "cam", quantity, True)], owner)
        if isinstance(plan, Plan) and self.connected:
            _, asked = self.node.begin(plan.changes)
            self.number += 1
            self.asked[str(self.number)] = (owner, asked)
            self.send(grpc.ToServer(slotRequest=slot_request(str(self.number), asked)))

    def receive(self) -> None:
        message = self.inbox.popleft()
        if message.HasField("deviceUpdate"):
            touched = self.node.learn(message.deviceUpdate.instances)
            for slot, claim in touched.taken_away.items():
                if slot in self.files.get(claim.owner, ()):
                    self.stop(claim.owner)
        elif message.slotResponse.requestId in self.asked:
            owner, changes = self.asked.pop(message.slotResponse.requestId)
            self.node.settle(changes, message.slotResponse.granted)
            if message.slotResponse.granted:
                self.files[owner] = {change.slot: change.claim for change in changes}
                self.running[owner] = {change.slot for change in changes}

    def give_up(self, request: str) -> None:
        """The answer takes too long."""
        _, changes = self.asked.pop(request)
        self.node.settle(changes, granted=False)
        self.send(grpc.ToServer(slotRequest=slot_request("undo", [change.reversed() for change in changes])))

    def stop(self, owner: str) -> None:
        self.running.pop(owner, None)
        self.files.pop(owner, None)
        ended = self.node.end(self.node.ledger.claims_of(owner))
        self.send(grpc.ToServer(slotRequest=slot_request("release", ended)))


class Agreement(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.agents = {name: SimulatedAgent(name) for name in NODES}
        self.desk = self.new_desk(settled=True)
        for agent in self.agents.values():
            agent.start()
            agent.connect()
        self.calm_down()

    def new_desk(self, settled: bool) -> DeviceDesk:
        desk = DeviceDesk(settled)
        desk.configure({"cam": CONFIGURATION})
        return desk

    def perform(self, effects: list[DeskEffect]) -> None:
        for effect in effects:
            if isinstance(effect, ToAgent) and self.agents[effect.agent].connected:
                self.agents[effect.agent].inbox.append(effect.message)

    def serve(self, name: str) -> None:
        message = self.agents[name].outbox.popleft()
        if message.HasField("agentHello"):
            self.perform(self.desk.hello(name, {}, True))
        elif message.HasField("deviceReport"):
            self.perform(self.desk.report(name, message.deviceReport))
        else:
            self.perform(self.desk.slot_request(name, message.slotRequest))

    def calm_down(self) -> None:
        while any(agent.outbox or agent.inbox for agent in self.agents.values()):
            for agent in self.agents.values():
                if agent.outbox:
                    self.serve(agent.name)
                elif agent.inbox:
                    agent.receive()

    # --- what may happen ---

    @rule(name=st.sampled_from(NODES), number=st.integers(0, 1), quantity=st.integers(1, 2))
    def workload_asks(self, name: str, number: int, quantity: int) -> None:
        self.agents[name].acquire(f"w{number}.{name}", quantity)

    @rule(name=st.sampled_from(NODES), number=st.integers(0, 1))
    def workload_ends(self, name: str, number: int) -> None:
        if f"w{number}.{name}" in self.agents[name].files:
            self.agents[name].stop(f"w{number}.{name}")

    @rule(name=st.sampled_from(NODES), number=st.integers(1, 4))
    def server_gets_messages(self, name: str, number: int) -> None:
        for _ in range(min(number, len(self.agents[name].outbox))):
            self.serve(name)

    @rule(name=st.sampled_from(NODES), number=st.integers(1, 6))
    def agent_gets_messages(self, name: str, number: int) -> None:
        for _ in range(min(number, len(self.agents[name].inbox))):
            self.agents[name].receive()

    @rule()
    def all_messages_arrive(self) -> None:
        self.calm_down()

    @rule(name=st.sampled_from(NODES))
    def agent_loses_patience(self, name: str) -> None:
        if self.agents[name].asked:
            self.agents[name].give_up(min(self.agents[name].asked))

    @rule(name=st.sampled_from(NODES), crashes=st.booleans())
    def connection_breaks(self, name: str, crashes: bool) -> None:
        agent = self.agents[name]
        if agent.connected:
            agent.cut()
            self.perform(self.desk.gone(name))
        if crashes:
            agent.start()

    @rule(name=st.sampled_from(NODES))
    def agent_connects(self, name: str) -> None:
        if not self.agents[name].connected:
            self.agents[name].connect()

    @precondition(lambda self: any(agent.running for agent in self.agents.values()))
    @rule()
    def server_restarts_and_waits_for_agents(self) -> None:
        """The time to settle is long enough for all agents; what they said before is lost."""
        before = {name: dict(agent.running) for name, agent in self.agents.items()}
        self.desk = self.new_desk(settled=False)
        for agent in self.agents.values():
            agent.cut()
        for agent in self.agents.values():
            agent.connect()
            while agent.outbox:
                self.serve(agent.name)
        for _ in range(3):
            self.perform(self.desk.tick())
        self.calm_down()
        assert {name: agent.running for name, agent in self.agents.items()} == before

    # --- what must always be so ---

    @invariant()
    def no_slot_has_two_users(self) -> None:
        used = [slot for agent in self.agents.values() for slots in agent.running.values() for slot in slots]
        assert len(used) == len(set(used)), used

    @invariant()
    def no_workload_has_one_device_twice(self) -> None:
        for agent in self.agents.values():
            for slots in agent.running.values():
                assert len({slot.instance for slot in slots}) == len(slots)

    def teardown(self) -> None:
        """When everything calms down, the ledgers say what is used, no more and no less."""
        for agent in self.agents.values():
            if not agent.connected:
                agent.connect()
        self.calm_down()
        self.no_slot_has_two_users()
        used = {slot: owner for it in self.agents.values() for owner, slots in it.running.items() for slot in slots}
        known = {slot: claim.owner for name in NODES for slot, claim in self.desk.ledger.claims_on(name).items()}
        assert known == used
        for agent in self.agents.values():
            held = {slot: claim for name in NODES for slot, claim in agent.node.ledger.claims_on(name).items()}
            assert {slot: claim.owner for slot, claim in held.items()} == used


TestAgreement = Agreement.TestCase
TestAgreement.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
