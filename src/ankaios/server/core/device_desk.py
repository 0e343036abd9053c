"""The devices of the cluster, and the one ledger for those that several nodes share.

In come hellos and reports of agents, their requests for slots, the device configurations and the passing of time. Out
go messages to agents and what changed in the state. Owned: which node sees which device, and every slot of shared
devices; for local devices the seeing agent is the owner, and what it reports is mirrored here.

A server that has just started knows of no claims. Until agents had the time to reconnect, and to tell what they and
others hold, it tells nobody which slots are free and grants none; otherwise a slot could get a second owner.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ankaios.common.errors import AnkaiosError, Rejected
from ankaios.common.messages import ToAgent
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.devices.core.device_messages import change_from_pb, claims_from_pb
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict, SlotLedger
from ankaios.server.core.placement import Options

SETTLE_TICKS = 3
NODE_LOST_TICKS = 300
NOT_SETTLED = "the server has just started and still learns which devices are in use"


@dataclass(frozen=True, slots=True)
class InstanceChanged:
    """What stands under `deviceInstances.<name>` from now on; None: nothing any more."""

    name: str
    instance: base.DeviceInstance | None


@dataclass(frozen=True, slots=True)
class ResourcesChanged:
    """What stands under `agents.<agent>.resources` from now on."""

    agent: str
    resources: tuple[base.NodeResource, ...]


@dataclass(frozen=True, slots=True)
class NodeLost:
    """The agent was away for too long: nothing of it counts any more."""

    agent: str


@dataclass(frozen=True, slots=True)
class Complaint:
    """An agent said something that makes no sense; for the log."""

    text: str


DeskEffect = ToAgent | InstanceChanged | ResourcesChanged | NodeLost | Complaint


@dataclass(slots=True)
class _Agent:
    tags: Mapping[str, str] = field(default_factory=dict)
    knows_devices: bool = False
    connected: bool = False
    said_hello: bool = False
    reported: bool = False  # in this session
    gone_since: int = 0
    sees: set[str] = field(default_factory=set)
    resources: dict[str, base.NodeResource] = field(default_factory=dict)
    configurations: dict[str, base.DeviceConfiguration] | None = None  # as last sent


@dataclass(slots=True)
class _Device:
    """`views` is what each node says of it; `public` is what the state says."""

    shared: bool
    configuration: str
    views: dict[str, base.DeviceInstance] = field(default_factory=dict)
    public: base.DeviceInstance | None = None


class DeviceDesk:
    """Every method returns what is to be done about it."""

    def __init__(self, settled: bool = False) -> None:
        self.ledger = SlotLedger()
        self.configurations: dict[str, base.DeviceConfiguration] = {}
        self._agents: dict[str, _Agent] = {}
        self._devices: dict[str, _Device] = {}
        self._settled = settled
        self._now = 0

    # --- configurations ---

    def configure(self, changes: Mapping[str, base.DeviceConfiguration | None]) -> list[DeskEffect]:
        """Configurations were added or changed, or dropped if None."""
        effects: list[DeskEffect] = []
        for name, configuration in changes.items():
            if configuration is None:
                self.configurations.pop(name, None)
                for instance in list(self.instances_of(name)):
                    effects += self._drop(instance)
            else:
                self.configurations[name] = configuration
                effects += self._publish(self.instances_of(name))
        for agent in self._agents:
            effects += self._tell_configurations(agent)
        return effects

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
        record = self._agents.setdefault(agent, _Agent())
        record.tags, record.knows_devices = dict(tags), knows_devices
        record.connected = record.said_hello = True
        record.reported, record.configurations = False, None
        record.resources = {}
        effects = self._tell_configurations(agent)
        if not knows_devices:
            # It was replaced by one that uses no devices.
            effects += self._unsee(agent, set(record.sees))
            effects += self._forget_claims(agent, {})
        return effects

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
        if not self._settled and self._now >= SETTLE_TICKS:
            self._settled = True
            for name, record in self._agents.items():
                effects += self._truth([name], (it for it in record.sees if self._devices[it].shared))
        for name, record in list(self._agents.items()):
            if not record.connected and self._now - record.gone_since >= NODE_LOST_TICKS:
                effects += self._unsee(name, set(record.sees))
                effects += self._forget_claims(name, {})
                del self._agents[name]
                effects.append(NodeLost(name))
        return effects

    # --- reports ---

    def report(self, agent: str, report: grpc.DeviceReport) -> list[DeskEffect]:
        """What an agent sees. A complete report is also the truth about what it uses.

        [impl->akri~instance-level-resource~1]
        """
        record = self._agents.get(agent)
        if record is None or not record.knows_devices:
            return [Complaint(f"agent '{agent}' reports devices, but it said it knows none")]
        effects: list[DeskEffect] = []
        held = self._held_unseen(agent, report.held)
        hearsay: dict[Slot, Claim] = {}
        for name, message in sorted(report.seen.items()):
            try:
                claims = self._see(agent, name, message)
            except Rejected as fault:
                effects.append(Complaint(f"agent '{agent}' reports a device that cannot be: {fault}"))
                continue
            held |= {slot: claim for slot, claim in claims.items() if claim.node == agent}
            hearsay |= {slot: claim for slot, claim in claims.items() if claim.node != agent}
        missing = record.sees - report.seen.keys() if report.complete else record.sees.intersection(report.gone)
        effects += self._unsee(agent, set(missing))
        if report.complete:
            effects += self._forget_claims(agent, held)
            self._believe(held, hearsay)
        touched = record.sees.intersection(report.seen)
        effects += self._publish(touched, () if report.complete else (agent,))
        if report.complete:
            record.reported = True
            effects += self._truth([agent], (name for name in touched if self._devices[name].shared), always=True)
        return effects + self._take_resources(agent, report)

    def _see(self, agent: str, name: str, message: base.DeviceInstance) -> dict[Slot, Claim]:
        configuration = message.configurationName
        if configuration not in self.configurations:
            raise Rejected(f"there is no device configuration '{configuration}'")
        if name.rpartition("-")[0] != configuration or list(message.nodes) != [agent]:
            raise Rejected(f"'{name}' is no device of '{configuration}' on that node")
        claims = claims_from_pb(name, message)
        device = self._devices.setdefault(name, _Device(message.shared, configuration))
        if device.shared != message.shared or (not device.shared and device.views.keys() - {agent}):
            raise Rejected(f"'{name}' is already a device of another node")
        device.views[agent] = message
        self._agents[agent].sees.add(name)
        self._reopen(name)
        if not device.shared:
            self._mirror(name, {slot: claim for slot, claim in claims.items() if claim.node == agent})
        return claims if device.shared else {}

    def _held_unseen(self, agent: str, changes: Iterable[grpc.SlotChange]) -> dict[Slot, Claim]:
        """Slots in use of devices the agent does not see now. If nobody sees them, only the claims are on record."""
        held: dict[Slot, Claim] = {}
        for message in changes:
            with suppress(Rejected):
                change = change_from_pb(message)
                name = change.slot.instance
                if change.claim.node == agent and change.takes and self._is_shared(name):
                    held[change.slot] = change.claim
                    if name not in self._devices:
                        self.ledger.open(name, name.rpartition("-")[0], 0, online=False)
                        self._restore(change.slot, change.claim)
                        self.ledger.close(name)
        return held

    def _reopen(self, name: str) -> None:
        """Capacity of a shared device is what the configuration says, whatever a node still believes."""
        device = self._devices[name]
        online = any(self._agents[node].connected and view.attributes.online for node, view in device.views.items())
        configuration = self.configurations[device.configuration]
        capacity = configuration.capacity if configuration.HasField("capacity") else 1
        if not device.shared:
            capacity = next(iter(device.views.values())).capacity
        self.ledger.open(name, device.configuration, capacity, online)

    def _mirror(self, name: str, truth: Mapping[Slot, Claim]) -> None:
        held = self.ledger.claims(name)
        ended = [SlotChange(slot, claim, takes=False) for slot, claim in held.items() if truth.get(slot) != claim]
        self.ledger.apply(ended)
        for slot, claim in truth.items():
            self._restore(slot, claim)

    def _believe(self, held: Mapping[Slot, Claim], hearsay: Mapping[Slot, Claim]) -> None:
        """After a restart of the server the agents know best.

        What others hold is believed only of nodes that have not spoken yet; they may correct it when they do, and
        lose it if they never come back.
        """
        for slot, claim in held.items():
            self._restore(slot, claim)
        for slot, claim in hearsay.items():
            record = self._agents.get(claim.node)
            if record is None or not record.said_hello:
                self._agents.setdefault(claim.node, _Agent(gone_since=self._now))
                self._restore(slot, claim)

    def _restore(self, slot: Slot, claim: Claim) -> None:
        """If somebody else has it by now, the agent learns so with the truth that it is told next."""
        with suppress(SlotConflict):
            self.ledger.apply([SlotChange(slot, claim)], restore=True)

    def _forget_claims(self, agent: str, kept: Mapping[Slot, Claim]) -> list[DeskEffect]:
        ended = [
            SlotChange(slot, claim, takes=False)
            for slot, claim in self.ledger.claims_on(agent).items()
            if kept.get(slot) != claim and self._is_shared(slot.instance)
        ]
        self.ledger.apply(ended)
        return self._publish(change.slot.instance for change in ended)

    def _is_shared(self, name: str) -> bool:
        return name not in self._devices or self._devices[name].shared

    def _unsee(self, agent: str, names: Iterable[str]) -> list[DeskEffect]:
        effects: list[DeskEffect] = []
        for name in sorted(names):
            self._agents[agent].sees.discard(name)
            device = self._devices[name]
            del device.views[agent]
            if device.views:
                effects += self._publish([name])
            else:
                effects += self._drop(name)
        return effects

    def _drop(self, name: str) -> list[DeskEffect]:
        """Nobody sees it any more. Slots of a shared one that are in use stay on record in the ledger."""
        device = self._devices.pop(name)
        for node in device.views:
            self._agents[node].sees.discard(name)
        if not device.shared:
            self._mirror(name, {})
        self.ledger.close(name)
        return [InstanceChanged(name, None)] if device.public is not None else []

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
            names = {change.instance for change in request.changes}
            truth = self._truth([agent], names.intersection(self._devices), always=True)
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
        if record is None or name not in record.sees or not self._devices[name].shared:
            raise Rejected(f"cannot claim slot '{change.slot}': '{agent}' sees no such shared device")
        if not self._settled:
            raise SlotConflict(f"cannot claim slot '{change.slot}': {NOT_SETTLED}")
        return change

    # --- telling ---

    def _publish(self, names: Iterable[str], informed: Iterable[str] = ()) -> list[DeskEffect]:
        """Say what changed of these devices: to the state, and if they are shared to the agents that see them."""
        effects: list[DeskEffect] = []
        for name in sorted(set(names) & self._devices.keys()):
            self._reopen(name)
            device = self._devices[name]
            public = self._public(name)
            if public == device.public:
                continue
            told = device.public
            device.public = public
            effects.append(InstanceChanged(name, public))
            if device.shared and (told is None or _slots(told) != _slots(public)):
                effects += self._truth(device.views, [name])
            elif device.shared:
                effects += self._truth(set(device.views).intersection(informed), [name])
        return effects

    def _public(self, name: str) -> base.DeviceInstance:
        """What the node with the smallest name says of it, and who uses it."""
        device = self._devices[name]
        public = base.DeviceInstance()
        public.CopyFrom(device.views[min(device.views)])
        del public.nodes[:]
        public.nodes.extend(sorted(device.views))
        public.capacity = self.ledger.capacity(name)
        public.attributes.online = self.ledger.is_online(name)
        public.deviceUsage.values.clear()
        public.deviceUsage.values.update(self.ledger.usage(name))
        public.slotOwners.values.clear()
        public.slotOwners.values.update(self.ledger.owners(name))
        return public

    def _truth(self, agents: Iterable[str], names: Iterable[str], always: bool = False) -> list[DeskEffect]:
        """`always`: also to one whose first report is being answered just now."""
        if not self._settled:
            return []
        instances = {name: public for name in sorted(names) if (public := self._devices[name].public) is not None}
        if not instances:
            return []
        return [
            _to(agent, grpc.DeviceUpdate(instances=instances))
            for agent in sorted(agents)
            if self._agents[agent].reported or (always and self._agents[agent].connected)
        ]

    # --- what is so ---

    def knows_devices(self, agent: str) -> bool:
        record = self._agents.get(agent)
        return record is not None and record.knows_devices

    def instances_of(self, configuration: str) -> dict[str, base.DeviceInstance]:
        known = (name for name in self.ledger.instances(configuration) if name in self._devices)
        return {name: public for name in known if (public := self._devices[name].public) is not None}

    def instances(self) -> dict[str, base.DeviceInstance]:
        return {name: device.public for name, device in self._devices.items() if device.public is not None}

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
            seen = (name for name in record.sees if self._devices[name].configuration == target)
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
