"""The devices of all agents, and the ledger of the devices that several nodes share.

Input: hellos and reports of agents, their requests for slots, the device configurations, and the passing of time.
Output: messages to agents, and what changed in the state. Owns what is known about each agent; the registry owns the
devices.

A server that has just started has no claims. It sends and grants no slots before agents had the time to reconnect
and to report theirs, counted from the first one that did; otherwise a slot could get a second owner.
"""

from collections.abc import Callable, Container, Iterable, Mapping

from msgspec import Struct, field

from ankaios.common.errors import AnkaiosError, Rejected
from ankaios.common.messages import ToAgent
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX, InstanceName
from ankaios.devices.core.device_messages import change_from_pb
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict, SlotLedger
from ankaios.server.core.device_configurations import configuration_for_agents, discovers, lost_device_policy
from ankaios.server.core.device_registry import DeviceRegistry
from ankaios.server.core.placement import FreeDevices

SETTLE_TICKS = 3
NODE_LOST_TICKS = 300
NOT_SETTLED = "the server has just started and waits for the reports of its agents"


class DirectoryChanges(Struct):
    """The effect of one event. `instances` and `resources` are the new content of `deviceInstances.<name>` (None:
    removed) and of `agents.<agent>.resources`, `lost` are agents that were disconnected for too long, `unseen` are
    devices by the agent that has lost them, `agents` are those that are new, have other tags, or are lost, `warnings`
    are for the log.
    """

    messages: list[ToAgent] = field(default_factory=list)
    instances: dict[str, base.DeviceInstance | None] = field(default_factory=dict)
    resources: dict[str, tuple[base.NodeResource, ...]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    unseen: list[tuple[str, str]] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    @property
    def changes_supply(self) -> bool:
        return bool(self.instances or self.resources or self.lost)

    def send(self, agent: str, message: grpc.DeviceUpdate | grpc.SlotResponse) -> None:
        if isinstance(message, grpc.DeviceUpdate):
            self.messages.append(ToAgent(agent, grpc.FromServer(deviceUpdate=message)))
        else:
            self.messages.append(ToAgent(agent, grpc.FromServer(slotResponse=message)))


class _Agent(Struct):
    offers_devices: bool = False
    connected: bool = False
    reported: bool = False  # in this session
    gone_since: int = 0
    resources: dict[str, base.NodeResource] = field(default_factory=dict)
    configurations: dict[str, base.DeviceConfiguration] | None = None  # as last sent


class DeviceDirectory:
    """Each method for an event returns its effect."""

    def __init__(
        self,
        settled: bool = False,
        config_of: Callable[[str], object] = lambda key: None,
        is_desired: Callable[[str], bool] = lambda owner: True,
    ) -> None:
        """`config_of` returns a configuration item, `is_desired` whether the owner of a claim is to run where it is."""
        self._agents: dict[str, _Agent] = {}
        self._tags: dict[str, Mapping[str, str]] = {}  # of agents that have sent a hello
        self._registry = DeviceRegistry(lambda node: self._agents[node].connected)
        self._settled = settled
        self._now = 0
        self._first_hello: int | None = None
        self._changes = DirectoryChanges()
        self._config_of = config_of
        self._is_desired = is_desired
        self._lost: dict[str, dict[str, base.DeviceInstance]] = {}  # by device and agent: gone, but held by a workload
        self._forgotten: dict[str, dict[Slot, Claim]] = {}  # claims of agents that were lost

    def _take_changes(self) -> DirectoryChanges:
        changes, self._changes = self._changes, DirectoryChanges()
        return changes

    # --- configurations ---

    def configure(self, configurations: Mapping[str, base.DeviceConfiguration | None]) -> DirectoryChanges:
        """Configurations were added or changed, or removed if None."""
        for name, configuration in configurations.items():
            instances = list(self._registry.instances_of(name))
            if configuration is None:
                self._registry.configurations.pop(name, None)
                for instance in instances:
                    self._registry.drop(instance)
                    self._gone(instance)
            else:
                self._registry.configurations[name] = configuration
                self._publish(instances)
        for agent in self._agents if configurations else ():
            self._send_configurations(agent)
        return self._take_changes()

    def _send_configurations(self, agent: str) -> None:
        """An agent receives what it has to discover whenever that changes."""
        record = self._agents[agent]
        if not record.connected or not record.offers_devices:
            return
        wanted = {
            name: configuration_for_agents(configuration, self._config_of)
            for name, configuration in self.configurations.items()
            if discovers(configuration, agent, self._tags[agent])
        }
        if wanted == record.configurations:
            return
        record.configurations = wanted
        message = grpc.DeviceUpdate(complete=True)
        message.configurations.SetInParent()
        for name, configuration in wanted.items():
            message.configurations.deviceConfigurations[name].CopyFrom(configuration)
        self._changes.send(agent, message)

    # --- agents ---

    def configs_changed(self, keys: Container[str]) -> DirectoryChanges:
        """Configurations may refer to these configuration items."""
        properties = (it.discoveryHandler.discoveryProperties.configs for it in self.configurations.values())
        if any(key in keys for configs in properties for key in configs.values()):
            for agent in self._agents:
                self._send_configurations(agent)
        return self._take_changes()

    def hello(self, agent: str, tags: Mapping[str, str], offers_devices: bool) -> DirectoryChanges:
        if self._first_hello is None:
            self._first_hello = self._now
        self._changes.agents.add(agent)
        record = self._agents.setdefault(agent, _Agent())
        self._tags[agent] = dict(tags)
        record.connected, record.offers_devices = True, offers_devices
        record.reported, record.configurations = False, None
        record.resources = {}
        self._send_configurations(agent)
        if not offers_devices:  # an earlier agent of this name may have offered some
            self._forget(agent)
        return self._take_changes()

    def tags_changed(self, agent: str, tags: Mapping[str, str]) -> DirectoryChanges:
        if agent in self._tags:
            self._tags[agent] = dict(tags)
            self._changes.agents.add(agent)
            self._send_configurations(agent)
        return self._take_changes()

    def gone(self, agent: str) -> DirectoryChanges:
        """The workloads of the agent may continue, so its claims stay for now."""
        if (record := self._agents.get(agent)) is not None:
            record.connected = record.reported = False
            record.gone_since = self._now
            self._publish(self._registry.seen_by(agent))
        return self._take_changes()

    def tick(self) -> DirectoryChanges:
        """A second has passed."""
        self._now += 1
        if not self._settled and self._first_hello is not None and self._now - self._first_hello >= SETTLE_TICKS:
            self._settled = True
            for name in self._agents:
                self._send_slots([name], self._shared(self._registry.seen_by(name)))
        for name, record in list(self._agents.items()):
            if not record.connected and self._now - record.gone_since >= NODE_LOST_TICKS:
                claims = self.ledger.claims_on(name).items()
                self._forgotten[name] = {slot: it for slot, it in claims if self._registry.is_shared(slot.instance)}
                self._forget(name)
                self._changes.lost.append(name)
                self._changes.agents.add(name)
                self._tags.pop(name, None)
                del self._agents[name]
        return self._take_changes()

    def _forget(self, agent: str) -> None:
        for name in [name for name, agents in self._lost.items() if agent in agents]:
            self._found_again(agent, name)
        self._unsee(agent, self._registry.seen_by(agent))
        self._publish(self._registry.forget_claims(agent, {}))

    def _unsee(self, agent: str, names: Iterable[str]) -> None:
        for name in sorted(names):
            self._changes.unseen.append((agent, name))
            if self._registry.unsee(agent, name):
                self._publish([name])
            else:
                self._gone(name)

    # --- devices that are gone, but held ---

    def _gone(self, name: str) -> None:
        """No agent sees the device. It stays in the state as long as a workload holds one of its slots."""
        views = self._lost.get(name)
        self._changes.instances[name] = views[min(views)] if views else None

    def _lose(self, agent: str, name: str, message: base.DeviceInstance) -> None:
        try:
            self._registry.check_lost(agent, name, message)
        except Rejected as fault:
            self._changes.warnings.append(f"agent '{agent}' reports an invalid device: {fault}")
            return
        message.attributes.online = False
        self._lost.setdefault(name, {})[agent] = message
        if name in self._registry.seen_by(agent):
            self._unsee(agent, [name])
        elif name not in self._registry:
            self._gone(name)

    def _found_again(self, agent: str, name: str) -> None:
        """The agent sees the device again, or no workload of it holds a slot any more."""
        views = self._lost.get(name, {})
        if views.pop(agent, None) is not None and not views:
            del self._lost[name]
        if name not in self._registry:
            self._gone(name)

    # --- reports ---

    def report(self, agent: str, report: grpc.DeviceReport) -> DirectoryChanges:
        """What an agent sees. A complete report also contains all its claims.

        [impl->akri~instance-level-resource~1]
        """
        record = self._agents.get(agent)
        if record is None or not record.offers_devices:
            self._changes.warnings.append(f"agent '{agent}' reports devices, but offers none according to its hello")
            return self._take_changes()
        lost = {name for name, message in report.seen.items() if message.lost}
        present = {name: message for name, message in report.seen.items() if name not in lost}
        for name in sorted(name for name, agents in self._lost.items() if agent in agents):
            if name not in lost and (report.complete or name in present or name in report.gone):
                self._found_again(agent, name)
        claims = self._see(agent, present)
        sees = self._registry.seen_by(agent)
        self._unsee(agent, sees - report.seen.keys() if report.complete else sees & set(report.gone))
        for name in sorted(lost):
            self._lose(agent, name, report.seen[name])
        seen = self._registry.seen_by(agent) & present.keys()
        if report.complete:
            claims |= self._registry.hold_unseen(agent, report.held)
            self._take_claims(agent, claims)
            self._publish(seen)
            record.reported = True
            self._send_slots([agent], self._shared(seen), always=True)
        else:
            self._publish(seen, informed=agent)
        self._take_resources(agent, report)
        return self._take_changes()

    def _see(self, agent: str, seen: Mapping[str, base.DeviceInstance]) -> dict[Slot, Claim]:
        claims: dict[Slot, Claim] = {}
        for name, message in sorted(seen.items()):
            try:
                claims |= self._registry.see(agent, name, message)
            except Rejected as fault:
                self._changes.warnings.append(f"agent '{agent}' reports an invalid device: {fault}")
        return claims

    def _take_claims(self, agent: str, claims: Mapping[Slot, Claim]) -> None:
        """An agent decides about its own claims. Claims of others that it reports count only after a server restart.

        Then they are taken over for nodes that have not connected yet; those correct them when they do, and lose them
        if they never return.
        """
        held = {slot: claim for slot, claim in claims.items() if claim.node == agent}
        self._publish(self._registry.forget_claims(agent, held))
        self._take_back(agent, held)
        for slot, claim in claims.items():
            if claim.node == agent or claim.node not in self._tags:
                self.expect(claim.node)
                self._registry.restore(slot, claim)

    def _take_back(self, agent: str, held: Mapping[Slot, Claim]) -> None:
        """The agent was lost and returns. Its claims are older than those that others were granted in between."""
        for slot, claim in self._forgotten.pop(agent, {}).items():
            holder = self.ledger.claim(slot)
            is_twice = held.get(slot) == claim and holder is not None and holder.node != agent
            if is_twice and holder is not None and self._is_desired(claim.owner):
                text = f"slot '{slot}' is held twice: '{claim.owner}' had it before '{holder.owner}', which loses it"
                self._changes.warnings.append(text)
                self.ledger.release({slot: holder})
                self._registry.restore(slot, claim)
                self._publish([slot.instance])

    def _take_resources(self, agent: str, report: grpc.DeviceReport) -> None:
        record = self._agents[agent]
        resources = {} if report.complete else dict(record.resources)
        resources.update({resource.name: resource for resource in report.resources})
        for name in report.goneResources:
            resources.pop(name, None)
        if resources != record.resources:
            record.resources = dict(sorted(resources.items()))
            self._changes.resources[agent] = tuple(record.resources.values())

    # --- slots of shared devices ---

    def slot_request(self, agent: str, request: grpc.SlotRequest) -> DirectoryChanges:
        """Make all changes or none. The slots are sent before the answer, so that the agent has the present claims."""
        try:
            wanted = [self._checked(agent, change_from_pb(change)) for change in request.changes]
            made = self.ledger.apply(wanted)
        except AnkaiosError as fault:
            names = {change.instance for change in request.changes if change.instance in self._registry}
            self._send_slots([agent], names, always=True)
            self._changes.send(agent, grpc.SlotResponse(requestId=request.requestId, reason=str(fault)))
        else:
            self._publish({change.slot.instance for change in made})
            self._changes.send(agent, grpc.SlotResponse(requestId=request.requestId, granted=True))
        return self._take_changes()

    def _checked(self, agent: str, change: SlotChange) -> SlotChange:
        name = change.slot.instance
        if change.claim.node != agent:
            raise Rejected(
                f"cannot change slot '{change.slot}': '{agent}' cannot change claims of '{change.claim.node}'"
            )
        if not change.takes:
            return change
        if name not in self._registry.seen_by(agent) or not self._registry.is_shared(name):
            raise Rejected(f"cannot claim slot '{change.slot}': '{agent}' sees no such shared device")
        if not self._settled:
            raise SlotConflict(f"cannot claim slot '{change.slot}': {NOT_SETTLED}")
        return change

    def _publish(self, names: Iterable[str], informed: str | None = None) -> None:
        """Update these devices in the state, and send the slots of shared ones to the agents that see them.

        `informed` may see a device for the first time, so its slots are sent to it in any case.
        """
        for name in sorted(set(names)):
            if (change := self._registry.refresh(name)) is None:
                continue
            before, now = change
            self._changes.instances[name] = now
            if now.shared:
                viewers = self._registry.viewers(name)
                is_new = before is None or _slots(before) != _slots(now)
                self._send_slots(viewers if is_new else {informed or ""}.intersection(viewers), [name])

    def _send_slots(self, agents: Iterable[str], names: Iterable[str], always: bool = False) -> None:
        """`always`: also to an agent whose first report is being processed."""
        if not self._settled:
            return
        instances = {name: public for name in sorted(names) if (public := self._registry.public(name)) is not None}
        for agent in sorted(agents) if instances else ():
            if self._agents[agent].reported or (always and self._agents[agent].connected):
                self._changes.send(agent, grpc.DeviceUpdate(instances=instances))

    def _shared(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self._registry.is_shared(name)]

    # --- queries ---

    @property
    def ledger(self) -> SlotLedger:
        return self._registry.ledger

    @property
    def configurations(self) -> Mapping[str, base.DeviceConfiguration]:
        return self._registry.configurations

    @property
    def is_settled(self) -> bool:
        return self._settled

    def offers_devices(self, agent: str) -> bool:
        record = self._agents.get(agent)
        return record is not None and record.offers_devices

    def expect(self, agent: str) -> None:
        """The agent has something according to others. If it was never connected, it counts as gone from now on."""
        self._agents.setdefault(agent, _Agent(gone_since=self._now))

    def may_run(self, agent: str, accepts: Callable[[Mapping[str, str]], bool]) -> bool:
        """Whether the agent can run a workload that accepts its tags; an agent that has not connected yet can."""
        if agent not in self._tags:
            return True
        return self._agents[agent].offers_devices and accepts(self._tags[agent])

    def has_reported(self, agent: str) -> bool:
        """Whether the agent has sent its complete report in this session."""
        return agent in self._agents and self._agents[agent].reported

    def holders(self) -> dict[str, InstanceName]:
        """Workloads that use devices of the agent they run on, by name."""
        owners = (
            InstanceName.parse(claim.owner)
            for agent in self.ledger.nodes()
            for claim in self.ledger.claims_on(agent).values()
            if agent in self._agents and claim.owner.endswith(f".{agent}")
        )
        return {name.workload: name for name in owners if name is not None}

    def instances_of(self, configuration: str) -> dict[str, base.DeviceInstance]:
        return self._registry.instances_of(configuration)

    def agents(self) -> Mapping[str, Mapping[str, str]]:
        """Agents that are connected or may return, with their tags. The caller does not change the mapping."""
        return self._tags

    def candidates(self, with_devices: bool) -> dict[str, Mapping[str, str]]:
        return {
            name: self._tags[name]
            for name, it in sorted(self._agents.items())
            if it.connected and (it.offers_devices or not with_devices)
        }

    def free_devices(self, agent: str, resource: str, where: Mapping[str, str]) -> FreeDevices:
        return self._devices(
            agent,
            resource,
            where,
            lambda name: len(self.ledger.free_slots(name)) if self._registry.is_online_at(name, agent) else 0,
            lambda known: max(0, known.allocatable - known.allocated),
        )

    def all_devices(self, agent: str, resource: str, where: Mapping[str, str]) -> FreeDevices:
        """As if nothing was in use, and those that are offline for a short time were online."""
        return self._devices(agent, resource, where, self.ledger.capacity, lambda known: known.capacity)

    def _devices(
        self,
        agent: str,
        resource: str,
        where: Mapping[str, str],
        slots: Callable[[str], int],
        quantity: Callable[[base.NodeResource], int],
    ) -> FreeDevices:
        sees = self._registry.seen_by(agent)
        target = resource.removeprefix(DEFAULT_RESOURCE_PREFIX)
        if target in sees:
            return FreeDevices({target: slots(target)} if self._has(target, where) else {})
        if target in self.configurations and resource != target:
            seen = (name for name in sees if self._registry.configuration_of(name) == target)
            required = self.configurations[target].distinct == base.DISTINCT_REQUIRED
            return FreeDevices({name: slots(name) for name in seen if self._has(name, where)}, required)
        known = self._agents[agent].resources.get(resource)
        return FreeDevices({f"{agent}:{resource}": quantity(known)} if known and not where else {})

    def _has(self, name: str, where: Mapping[str, str]) -> bool:
        public = self._registry.public(name)
        return not where or (public is not None and where.items() <= dict(public.brokerProperties.values).items())

    def moves_when_lost(self, resource: str) -> bool:
        """Whether a workload that loses such a device for good is restarted, and so may be restarted elsewhere."""
        target = resource.removeprefix(DEFAULT_RESOURCE_PREFIX)
        configuration = self.configurations.get(target) or self.configurations.get(target.rpartition("-")[0])
        return configuration is not None and lost_device_policy(configuration) == base.ON_DEVICE_LOST_RESTART


def _slots(instance: base.DeviceInstance) -> tuple[int, dict[str, str], dict[str, str]]:
    return instance.capacity, dict(instance.deviceUsage.values), dict(instance.slotOwners.values)
