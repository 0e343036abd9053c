"""What agents and server say to each other about devices, and the one ledger for those that several nodes share.

In come hellos and reports of agents, their requests for slots, the device configurations and the passing of time. Out
go messages to agents and what changed in the state. Owned: what is known of each agent; the devices are in a registry.

A server that has just started knows of no claims. Until agents had the time to reconnect, counted from the first that
did, and to tell what they and others hold, it tells nobody which slots are free and grants none; otherwise a slot could
get a second owner.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from ankaios.common.errors import AnkaiosError, Rejected
from ankaios.common.messages import ToAgent
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX, InstanceName
from ankaios.devices.core.device_messages import change_from_pb
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict, SlotLedger
from ankaios.server.core.device_registry import DeviceRegistry
from ankaios.server.core.placement import Options

SETTLE_TICKS = 3
NODE_LOST_TICKS = 300
NOT_SETTLED = "the server has just started and still learns what is in use"


class InstanceChanged(Struct, frozen=True):
    """What stands under `deviceInstances.<name>` from now on; None: nothing any more."""

    name: str
    instance: base.DeviceInstance | None


class ResourcesChanged(Struct, frozen=True):
    """What stands under `agents.<agent>.resources` from now on."""

    agent: str
    resources: tuple[base.NodeResource, ...]


class NodeLost(Struct, frozen=True):
    """The agent was away for too long: nothing of it counts any more."""

    agent: str


class Complaint(Struct, frozen=True):
    """An agent said something that makes no sense; for the log."""

    text: str


DeskEffect = ToAgent | InstanceChanged | ResourcesChanged | NodeLost | Complaint


class _Agent(Struct):
    tags: Mapping[str, str] = field(default_factory=dict)
    knows_devices: bool = False
    connected: bool = False
    said_hello: bool = False
    reported: bool = False  # in this session
    gone_since: int = 0
    sees: set[str] = field(default_factory=set)
    resources: dict[str, base.NodeResource] = field(default_factory=dict)
    configurations: dict[str, base.DeviceConfiguration] | None = None  # as last sent


class DeviceDesk:
    """Every method returns what is to be done about it."""

    def __init__(self, settled: bool = False) -> None:
        self._agents: dict[str, _Agent] = {}
        self._registry = DeviceRegistry(lambda node: self._agents[node].connected)
        self._settled = settled
        self._now = 0
        self._first_hello: int | None = None

    # --- configurations ---

    def configure(self, changes: Mapping[str, base.DeviceConfiguration | None]) -> list[DeskEffect]:
        """Configurations were added or changed, or dropped if None."""
        effects: list[DeskEffect] = []
        for name, configuration in changes.items():
            instances = list(self._registry.instances_of(name))
            if configuration is None:
                self._registry.configurations.pop(name, None)
                for instance in instances:
                    effects += self._drop(instance)
            else:
                self._registry.configurations[name] = configuration
                effects += self._publish(instances)
        for agent in self._agents if changes else ():
            effects += self._tell_configurations(agent)
        return effects

    def _drop(self, name: str) -> list[DeskEffect]:
        for agent in self._registry.viewers(name):
            self._agents[agent].sees.discard(name)
        self._registry.drop(name)
        return [InstanceChanged(name, None)]

    def _tell_configurations(self, agent: str) -> list[DeskEffect]:
        """An agent is told what it is to discover whenever that changes."""
        record = self._agents[agent]
        if not record.connected or not record.knows_devices:
            return []
        wanted = {
            name: _for_agents(configuration)
            for name, configuration in self.configurations.items()
            if discovers(configuration, agent, record.tags)
        }
        if wanted == record.configurations:
            return []
        record.configurations = wanted
        message = grpc.DeviceUpdate(complete=True)
        message.configurations.SetInParent()
        for name, configuration in wanted.items():
            message.configurations.deviceConfigurations[name].CopyFrom(configuration)
        return [_to(agent, message)]

    # --- agents come and go ---

    def hello(self, agent: str, tags: Mapping[str, str], knows_devices: bool) -> list[DeskEffect]:
        if self._first_hello is None and knows_devices:
            self._first_hello = self._now
        record = self._agents.setdefault(agent, _Agent())
        record.tags, record.knows_devices = dict(tags), knows_devices
        record.connected = record.said_hello = True
        record.reported, record.configurations = False, None
        record.resources = {}
        effects = self._tell_configurations(agent)
        # One that knows no devices took the place of one that perhaps did.
        return effects if knows_devices else effects + self._forget(agent)

    def tags_changed(self, agent: str, tags: Mapping[str, str]) -> list[DeskEffect]:
        if agent not in self._agents:
            return []
        self._agents[agent].tags = dict(tags)
        return self._tell_configurations(agent)

    def gone(self, agent: str) -> list[DeskEffect]:
        """Its workloads may well go on, so nothing is taken from it yet."""
        if (record := self._agents.get(agent)) is None:
            return []
        record.connected = record.reported = False
        record.gone_since = self._now
        return self._publish(record.sees)

    def tick(self) -> list[DeskEffect]:
        """A second has passed."""
        self._now += 1
        effects: list[DeskEffect] = []
        if not self._settled and self._first_hello is not None and self._now - self._first_hello >= SETTLE_TICKS:
            self._settled = True
            for name, record in self._agents.items():
                effects += self._truth([name], self._shared(record.sees))
        for name, record in list(self._agents.items()):
            if not record.connected and self._now - record.gone_since >= NODE_LOST_TICKS:
                effects += [*self._forget(name), NodeLost(name)]
                del self._agents[name]
        return effects

    def _forget(self, agent: str) -> list[DeskEffect]:
        effects = self._unsee(agent, set(self._agents[agent].sees))
        return effects + self._publish(self._registry.forget_claims(agent, {}))

    def _unsee(self, agent: str, names: Iterable[str]) -> list[DeskEffect]:
        effects: list[DeskEffect] = []
        for name in sorted(names):
            self._agents[agent].sees.discard(name)
            is_seen = self._registry.unsee(agent, name)
            effects += self._publish([name]) if is_seen else [InstanceChanged(name, None)]
        return effects

    # --- reports ---

    def report(self, agent: str, report: grpc.DeviceReport) -> list[DeskEffect]:
        """What an agent sees. A complete report is also the truth about what it uses.

        [impl->akri~instance-level-resource~1]
        """
        record = self._agents.get(agent)
        if record is None or not record.knows_devices:
            return [Complaint(f"agent '{agent}' reports devices, but it said it knows none")]
        known, effects = self._see(agent, report.seen)
        missing = record.sees - report.seen.keys() if report.complete else record.sees.intersection(report.gone)
        effects += self._unsee(agent, set(missing))
        touched = record.sees.intersection(report.seen)
        if report.complete:
            known |= self._registry.hold_unseen(agent, report.held)
            effects += self._believe(agent, known)
            effects += self._publish(touched)
            record.reported = True
            effects += self._truth([agent], self._shared(touched), always=True)
        else:
            effects += self._publish(touched, informed=agent)
        return effects + self._take_resources(agent, report)

    def _see(self, agent: str, seen: Mapping[str, base.DeviceInstance]) -> tuple[dict[Slot, Claim], list[DeskEffect]]:
        claims: dict[Slot, Claim] = {}
        complaints: list[DeskEffect] = []
        for name, message in sorted(seen.items()):
            try:
                claims |= self._registry.see(agent, name, message)
                self._agents[agent].sees.add(name)
            except Rejected as fault:
                complaints.append(Complaint(f"agent '{agent}' reports a device that cannot be: {fault}"))
        return claims, complaints

    def _believe(self, agent: str, known: Mapping[Slot, Claim]) -> list[DeskEffect]:
        """What an agent says of itself is so. What it heard of others counts only after a restart of the server.

        Then it is believed of nodes that have not spoken yet; they may correct it when they do, and lose it if they
        never come back.
        """
        held = {slot: claim for slot, claim in known.items() if claim.node == agent}
        effects = self._publish(self._registry.forget_claims(agent, held))
        for slot, claim in known.items():
            record = self._agents.get(claim.node)
            if claim.node == agent or record is None or not record.said_hello:
                self._agents.setdefault(claim.node, _Agent(gone_since=self._now))
                self._registry.restore(slot, claim)
        return effects

    def _take_resources(self, agent: str, report: grpc.DeviceReport) -> list[DeskEffect]:
        record = self._agents[agent]
        resources = {} if report.complete else dict(record.resources)
        resources.update({resource.name: resource for resource in report.resources})
        for name in report.goneResources:
            resources.pop(name, None)
        if resources == record.resources:
            return []
        record.resources = dict(sorted(resources.items()))
        return [ResourcesChanged(agent, tuple(record.resources.values()))]

    # --- slots of shared devices ---

    def slot_request(self, agent: str, request: grpc.SlotRequest) -> list[DeskEffect]:
        """All changes or none. Whoever sees the devices is told before the answer, so the asker decides on facts."""
        try:
            changes = [self._checked(agent, change_from_pb(change)) for change in request.changes]
            made = self.ledger.apply(changes)
        except AnkaiosError as fault:
            names = {change.instance for change in request.changes if change.instance in self._registry}
            truth = self._truth([agent], names, always=True)
            return [*truth, _to(agent, grpc.SlotResponse(requestId=request.requestId, reason=str(fault)))]
        effects = self._publish({change.slot.instance for change in made})
        return [*effects, _to(agent, grpc.SlotResponse(requestId=request.requestId, granted=True))]

    def _checked(self, agent: str, change: SlotChange) -> SlotChange:
        name = change.slot.instance
        if change.claim.node != agent:
            raise Rejected(f"cannot change slot '{change.slot}': '{agent}' cannot speak for '{change.claim.node}'")
        if not change.takes:
            return change
        record = self._agents.get(agent)
        if record is None or name not in record.sees or not self._registry.is_shared(name):
            raise Rejected(f"cannot claim slot '{change.slot}': '{agent}' sees no such shared device")
        if not self._settled:
            raise SlotConflict(f"cannot claim slot '{change.slot}': {NOT_SETTLED}")
        return change

    # --- telling ---

    def _publish(self, names: Iterable[str], informed: str | None = None) -> list[DeskEffect]:
        """Say what changed of these devices: to the state, and if they are shared to the agents that see them.

        `informed` sees a device for the first time, perhaps, and so has to be told of its slots in any case.
        """
        effects: list[DeskEffect] = []
        for name in sorted(set(names)):
            if (change := self._registry.refresh(name)) is None:
                continue
            before, now = change
            effects.append(InstanceChanged(name, now))
            if now.shared:
                has_news = before is None or _slots(before) != _slots(now)
                viewers = self._registry.viewers(name)
                effects += self._truth(viewers if has_news else {informed or ""}.intersection(viewers), [name])
        return effects

    def _truth(self, agents: Iterable[str], names: Iterable[str], always: bool = False) -> list[DeskEffect]:
        """`always`: also to one whose first report is being answered just now."""
        if not self._settled:
            return []
        instances = {name: public for name in sorted(names) if (public := self._registry.public(name)) is not None}
        if not instances:
            return []
        return [
            _to(agent, grpc.DeviceUpdate(instances=instances))
            for agent in sorted(agents)
            if self._agents[agent].reported or (always and self._agents[agent].connected)
        ]

    def _shared(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self._registry.is_shared(name)]

    # --- what is so ---

    @property
    def ledger(self) -> SlotLedger:
        return self._registry.ledger

    @property
    def configurations(self) -> Mapping[str, base.DeviceConfiguration]:
        return self._registry.configurations

    @property
    def is_settled(self) -> bool:
        return self._settled

    def knows_devices(self, agent: str) -> bool:
        record = self._agents.get(agent)
        return record is not None and record.knows_devices

    def expect(self, agent: str) -> None:
        """It is said to have something. If it was not seen yet, it counts as away from now on."""
        self._agents.setdefault(agent, _Agent(gone_since=self._now))

    def may_have(self, agent: str, is_admitted: Callable[[Mapping[str, str]], bool]) -> bool:
        """Whether it can be the place of what it is said to have, by its tags; as long as it did not speak, it can."""
        record = self._agents.get(agent)
        return record is None or not record.said_hello or (record.knows_devices and is_admitted(record.tags))

    def has_reported(self, agent: str) -> bool:
        """All it sees and holds, since it is connected."""
        return agent in self._agents and self._agents[agent].reported

    def holders(self) -> dict[str, InstanceName]:
        """Workloads that use devices where they run, by name, as far as that was said."""
        owners = (
            InstanceName.parse(claim.owner)
            for agent in self._agents
            for claim in self.ledger.claims_on(agent).values()
            if claim.owner.endswith(f".{agent}")
        )
        return {name.workload: name for name in owners if name is not None}

    def instances_of(self, configuration: str) -> dict[str, base.DeviceInstance]:
        return self._registry.instances_of(configuration)

    def instances(self) -> dict[str, base.DeviceInstance]:
        return self._registry.instances()

    def candidates(self) -> dict[str, Mapping[str, str]]:
        """Agents that can be given workloads with devices now, with their tags."""
        return {name: it.tags for name, it in sorted(self._agents.items()) if it.connected and it.knows_devices}

    def options(self, agent: str, resource: str) -> Options:
        """What of the resource one container on that agent could get now."""
        record = self._agents[agent]
        target = resource.removeprefix(DEFAULT_RESOURCE_PREFIX)
        if target in record.sees:
            return Options({target: len(self.ledger.free_slots(target))})
        if target in self.configurations and resource != target:
            seen = (name for name in record.sees if self._registry.configuration_of(name) == target)
            required = self.configurations[target].distinct == base.DISTINCT_REQUIRED
            return Options({name: len(self.ledger.free_slots(name)) for name in seen}, required)
        known = record.resources.get(resource)
        return Options({f"{agent}:{resource}": max(0, known.allocatable - known.allocated)} if known else {})


def discovers(configuration: base.DeviceConfiguration, agent: str, tags: Mapping[str, str]) -> bool:
    """Those that are named, and those that carry all the tags; everybody, if nobody is named."""
    if not configuration.HasField("placement"):
        return True
    wanted, named = configuration.placement.tags.tags, configuration.placement.agents
    if not wanted and not named:
        return True
    return agent in named or (bool(wanted) and all(tags.get(key) == value for key, value in wanted.items()))


def _for_agents(configuration: base.DeviceConfiguration) -> base.DeviceConfiguration:
    """Brokers and placement are none of an agent's business; their change must not disturb it.

    Only brokers that may use any device have somewhere to go when they lose theirs, so they are started again.
    """
    message = base.DeviceConfiguration()
    message.CopyFrom(configuration)
    anywhere = message.HasField("broker") and message.broker.strategy == base.BROKER_PER_CONFIGURATION
    if anywhere and not message.HasField("onDeviceLost"):
        message.onDeviceLost = base.ON_DEVICE_LOST_RESTART
    message.ClearField("broker")
    message.ClearField("placement")
    return message


def _slots(instance: base.DeviceInstance) -> tuple[int, dict[str, str], dict[str, str]]:
    return instance.capacity, dict(instance.deviceUsage.values), dict(instance.slotOwners.values)


def _to(agent: str, message: grpc.DeviceUpdate | grpc.SlotResponse) -> ToAgent:
    if isinstance(message, grpc.DeviceUpdate):
        return ToAgent(agent, grpc.FromServer(deviceUpdate=message))
    return ToAgent(agent, grpc.FromServer(slotResponse=message))
