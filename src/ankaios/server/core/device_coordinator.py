"""Connects devices with workloads: brokers, placements, and what agents are sent.

Input: events about devices, and changes of workloads. Output: messages to agents, and `PlannedChanges`: workload
changes with all decisions about them, before anything is committed. Owns the device directory, the placements and the
brokers, and which of these are outdated; its parts own where workloads were before, and texts about offline devices.
"""

import logging
from collections.abc import Container, Iterable, Mapping

from msgspec.structs import replace

from ankaios.common.execution_state import PENDING_INITIAL, REMOVED, STOPPING, SUCCEEDED_OK, ExecutionState
from ankaios.common.messages import ToAgent
from ankaios.common.model.state import DEVICE_CONFIGURATION, DEVICE_INSTANCE, NODE_RESOURCE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.state_manipulation import Form
from ankaios.common.workload import InstanceName
from ankaios.server.core.brokers import BrokerSet, plan_brokers
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.device_directory import DeviceDirectory, DirectoryChanges
from ankaios.server.core.earlier_placements import EarlierPlacements
from ankaios.server.core.offline_devices import OfflineDevices
from ankaios.server.core.placement import (
    PlacementRequest,
    Placements,
    has_free_devices,
    lacking,
)
from ankaios.server.core.replicas import AgentTags, changed_instances_on
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import compare_rendered
from ankaios.server.core.workload_plan import (
    PlannedChanges,
    PlanningFacts,
    WorkloadChanges,
    is_withheld,
    plan_workloads,
    states_of_withheld,
)

_log = logging.getLogger(__name__)

_WAITING = (PENDING_INITIAL.sub_state, "WaitingToStart")
_ENDING = (STOPPING.state, REMOVED.state)
_MATTERS_FOR_BROKERS = ("nodes", "capacity", "shared", "lost")


class DeviceCoordinator:
    """Events return messages to agents; the workload changes that follow from them are returned by `due`."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._sessions = sessions = state.sessions
        self._directory = DeviceDirectory(config_of=state.config, is_desired=self._is_desired)
        self._offline = OfflineDevices(state)
        self._placements = Placements()
        self._earlier = EarlierPlacements(state, self._directory, self._placements)
        self._brokers: dict[str, BrokerSet] = {}  # by configuration
        self._stale: set[str] = set()  # configurations whose brokers have to be planned
        self._supply_changed = False
        self._changed_agents: set[str] = set()  # new ones, those with other tags, and lost ones
        self._suspects: set[str] = set()  # placed workloads whose agents may be unable to serve them
        # For `plan_workloads`, which changes nothing: it also answers where a workload would be placed.
        self.facts = PlanningFacts(
            placements=self._placements,
            supply=self._directory,
            fixed=self._earlier.fixed_placement,
            lacks_devices=self._lacks_devices,
            is_ungreeted=sessions.is_ungreeted,
            is_unsent=sessions.is_unsent,
        )

    def restore(self, placements: Mapping[str, Form]) -> None:
        """Continue with stored placements: workloads stay where they were."""
        self._earlier.restore(placements)

    # --- events ---

    def question(self, agent: str, hello: grpc.AgentHello) -> list[ToAgent]:
        return self._earlier.question(agent, hello)

    def known_workloads(self, agent: str, message: grpc.KnownWorkloads) -> list[ToAgent]:
        self._supply_changed |= self._earlier.report(agent, message)
        return []

    def hello(self, agent: str, hello: grpc.AgentHello) -> list[ToAgent]:
        self._supply_changed = True
        return self._apply(self._directory.hello(agent, hello.tags.tags, hello.devices))

    def gone(self, agent: str) -> list[ToAgent]:
        return self._apply(self._directory.gone(agent))

    def report(self, agent: str, message: grpc.ToServer) -> list[ToAgent]:
        if message.HasField("deviceReport"):
            return self._apply(self._directory.report(agent, message.deviceReport))
        return self._apply(self._directory.slot_request(agent, message.slotRequest))

    def tick(self) -> list[ToAgent]:
        """A second has passed."""
        return self._apply(self._directory.tick())

    def desired_changed(self, change: DesiredChange, rendered: Iterable[str] = ()) -> list[ToAgent]:
        """The desired state was committed. `rendered` are the names of workloads and instances that changed."""
        names = {*change.workloads, *rendered}
        configurations = {
            name: None if form is None else DEVICE_CONFIGURATION.from_form(form)
            for name, form in change.device_configurations.items()
        }
        messages = self._apply(self._directory.configure(configurations))
        messages += self._apply(self._directory.configs_changed(change.configs))
        for agent, tags in change.agent_tags.items():
            messages += self._apply(self._directory.tags_changed(agent, tags))
        self._stale |= change.device_configurations.keys()
        self._stale |= {name for name in self._directory.configurations if self._uses(name, change.configs)}
        for name, brokers in self._brokers.items():
            if taken := brokers.names & names:
                self._brokers[name] = brokers.without(taken)
                self._stale.add(name)
        self._supply_changed |= bool(change.agent_tags)
        self._changed_agents |= self._agents_with_free_names(change)
        return messages

    def _agents_with_free_names(self, change: DesiredChange) -> set[str]:
        """Agents whose instance was left out, because a workload that is deleted now had its name."""
        prefixes = [f"{name}-" for name in self._state.on_every_agent]
        deleted = [name for name, form in change.workloads.items() if form is None] if prefixes else []
        suffixes = {name.removeprefix(prefix) for name in deleted for prefix in prefixes if name.startswith(prefix)}
        return suffixes & self.agents().keys()

    def _uses(self, configuration: str, configs: Container[str]) -> bool:
        """Whether its broker is rendered with one of these configs."""
        broker = self._directory.configurations[configuration].broker
        return any(config in configs for config in broker.workload.configs.configs.values())

    def states_seen(self, states: Iterable[tuple[InstanceName, ExecutionState]]) -> None:
        """A workload beyond waiting has its devices. The end of an earlier instance is of no importance.

        Devices that were reserved and not claimed are free for others now.
        """
        for name, state in states:
            if not self._state.is_desired(name):
                continue
            if not state.additional_info:
                self._offline.state_seen(name)
            if _waits(state):
                self._suspect(name.workload)
            elif state.state not in _ENDING:
                self._supply_changed |= self._placements.started(name.workload)
            if state.is_same(REMOVED) and self._sessions.is_unsent(name):
                # The agent has removed the instance it had; the desired one has the same name and was not sent.
                self._state.put_states(states_of_withheld([self._state.effective[name.workload]], self.facts))

    def _suspect(self, workload: str) -> None:
        placement = self._placements.get(workload)
        if placement is not None and placement.agent and placement.request.resources:
            self._suspects.add(workload)

    @property
    def has_due(self) -> bool:
        """Whether an event since the last call of `due` may lead to changes."""
        return bool(self._stale or self._supply_changed or self._changed_agents or self._suspects)

    @property
    def must_plan(self) -> bool:
        """Whether `due` has to be called: after an event, and until the learning phase is finished."""
        return self.has_due or not self._earlier.is_finished

    def _apply(self, changes: DirectoryChanges) -> list[ToAgent]:
        for name, instance in changes.instances.items():
            self._instance_changed(name, None if instance is None else DEVICE_INSTANCE.to_form(instance))
        for agent, resources in changes.resources.items():
            self._state.agents.set_resources(agent, list(map(NODE_RESOURCE.to_form, resources)))
        for agent in changes.lost:
            self._placements.agent_lost(agent)
            self._earlier.agent_lost(agent)
        for agent in {agent for agent, _ in changes.unseen}:
            for workload in self._placements.placed_on(agent):
                self._suspect(workload)
        self._changed_agents |= changes.agents
        for text in changes.warnings:
            _log.warning("%s", text)
        self._supply_changed |= changes.changes_supply
        return changes.messages

    def _instance_changed(self, name: str, form: Form | None) -> None:
        """Brokers do not depend on the users of a device, so a claim does not cause planning."""
        before = self._state.tree.get("deviceInstances", {}).get(name)
        if before is None or form is None or any(before.get(key) != form.get(key) for key in _MATTERS_FOR_BROKERS):
            self._stale.add(name.rpartition("-")[0])
        self._state.replace_device_instance(name, form)
        self._offline.device_changed(name, before or {}, form or {})

    def _is_desired(self, owner: str) -> bool:
        name = InstanceName.parse(owner)
        return name is not None and self._state.is_desired(name)

    # --- plans ---

    def missing_devices(self, name: InstanceName, form: Form) -> str:
        """Why the agent of a workload could not give it devices now; "" if it could or if the instance has them."""
        request = PlacementRequest.from_form({"placement": {}, **form})
        if not request.resources or self._holds_devices(name, form):
            return ""
        if has_free_devices(self._directory, name.agent, request, self._placements.reserved):
            return ""
        return f"{request}, agent '{name.agent}' has not enough free ones"

    def _holds_devices(self, name: InstanceName, form: Form) -> bool:
        """The instance that runs under the name has the same devices."""
        current = self._state.effective.get(name.workload)
        if current is None or current.form.get("resources") != form.get("resources"):
            return False
        known = self._state.workload_states.get(current.instance_name)
        waits = known is None or (known.state == PENDING_INITIAL.state and known.sub_state in _WAITING)
        return current.instance_name.agent == name.agent and not waits

    def due(self) -> PlannedChanges:
        """Brokers and instances to add and remove, workloads to place, because of all events since the last call."""
        self._supply_changed |= self._earlier.learn()
        rendered = self._changed_instances()
        replicas = compare_rendered(self._state, rendered)
        brokers = self._broker_changes(self._stale)
        changes = WorkloadChanges({**replicas.added, **brokers.added}, {**replicas.deleted, **brokers.deleted})
        waiting: list[str] = []
        if self._supply_changed or changes.deleted:
            waiting = self._placements.waiting()
        stranded = set(filter(self._is_stranded, self._suspects))
        changed = changes.added.keys() | changes.deleted.keys()
        names = (name for name in (*waiting, *stranded) if name in self._state.effective and name not in changed)
        planned = plan_workloads(changes, self.facts, {name: self._state.effective[name] for name in names}, stranded)
        self._stale, self._supply_changed, self._changed_agents = set(), False, set()
        self._suspects = stranded
        return replace(planned, rendered=rendered)

    def _changed_instances(self) -> dict[str, RenderedWorkload | None]:
        """Instances of workloads that run on every agent, because of agents that came, changed or are lost."""
        state, tags = self._state, self.agents()
        if not self._changed_agents or not state.on_every_agent:
            return {}
        agents = {agent: tags.get(agent) for agent in self._changed_agents}
        return changed_instances_on(agents, state.on_every_agent, state.rendered, state.desired["workloads"])

    def agents(self) -> AgentTags:
        """Agents that instances can run on, with their tags."""
        return self._directory.agents()

    def _is_stranded(self, workload: str) -> bool:
        """Whether its agent has lost devices for good that it needs, and it may run elsewhere.

        A workload may if it was restarted because of the loss and waits. The broker of a device goes where its device
        is seen, unless it has done its work.
        """
        placement, rendered = self._placements.get(workload), self._state.effective.get(workload)
        if placement is None or not placement.agent or rendered is None:
            return False
        if not self._directory.has_reported(placement.agent):
            return False
        missing = lacking(self._directory, placement.agent, placement.request)
        state = self._state.workload_states.get(rendered.instance_name)
        if missing and self._is_broker_of_device(workload, placement.request):
            return state is None or state.state != SUCCEEDED_OK.state
        is_waiting = state is None or _waits(state)
        return bool(missing) and is_waiting and all(self._directory.moves_when_lost(it.resource) for it in missing)

    def _is_broker_of_device(self, workload: str, request: PlacementRequest) -> bool:
        configurations = (it.resource.rpartition("/")[2].rpartition("-")[0] for it in request.resources)
        return any(
            workload in self._brokers[name].names
            and self._directory.configurations[name].broker.strategy == base.BROKER_PER_DEVICE
            for name in configurations
            if name in self._brokers and name in self._directory.configurations
        )

    def commit(self, planned: PlannedChanges) -> None:
        """The changes were committed to the state. Devices that were reserved for a removed workload are free now."""
        self._supply_changed |= None in planned.placements.values()
        self._placements.apply(planned.placements)
        for name in planned.changes.added:
            self._placements.starts(name)
        self._earlier.applied(planned.placements)
        for placement in filter(None, planned.placements.values()):
            if placement.agent:
                self._directory.expect(placement.agent)
        self._sessions.commit(planned.changes.deleted.values(), planned.unsent)

    def _broker_changes(self, configurations: Iterable[str]) -> WorkloadChanges:
        added: dict[str, RenderedWorkload] = {}
        gone: list[str] = []
        for configuration in sorted(configurations):
            before = self._brokers.pop(configuration, BrokerSet()).forms
            after = self._plan_brokers(configuration, before)
            gone += [name for name in before if name not in after.forms]
            changed = {name: form for name, form in after.forms.items() if form != before.get(name)}
            added |= {name: RenderedWorkload.of(name, form) for name, form in changed.items()}
            if after.names:
                self._brokers[configuration] = after
        replaced = [name for name in (*gone, *added) if name in self._state.effective]
        return WorkloadChanges(added, {name: self._state.effective[name].instance_name for name in replaced})

    def _plan_brokers(self, configuration: str, existing: Mapping[str, Form]) -> BrokerSet:
        message = self._directory.configurations.get(configuration, base.DeviceConfiguration())
        instances = self._directory.instances_of(configuration) if message.HasField("broker") else {}
        user_workloads = self._state.rendered
        brokers = plan_brokers(configuration, message, instances, existing, user_workloads, self._state.config)
        for text in brokers.faults:
            _log.warning("%s", text)
        return brokers

    # --- greetings ---

    def may_greet(self, agent: str) -> bool:
        """Whether it is known which workloads belong on the agent; it deletes those that its greeting does not contain.

        That takes time only after a start of the server, and only if there are workloads that the server places; or
        while mutating hooks process an update, if there are workloads that run on every agent.
        """
        if self._changed_agents and self._state.on_every_agent:
            return False
        return self._earlier.may_greet(agent)

    def greet(self, agent: str) -> list[RenderedWorkload]:
        """The workloads for the greeting of the agent; the states of the others contain why they are not sent."""
        workloads = self._state.workloads_of_agent(agent)
        sent = [workload for workload in workloads if not is_withheld(workload, self.facts)]
        self._sessions.greet(agent, (workload.instance_name for workload in sent))
        self._state.put_states(states_of_withheld(workloads, self.facts))
        return sent

    def _lacks_devices(self, agent: str) -> bool:
        return agent in self._state.agents and not self._directory.offers_devices(agent)


def _waits(state: ExecutionState) -> bool:
    """The workload has not got its devices yet."""
    return state.state == PENDING_INITIAL.state and state.sub_state in _WAITING
