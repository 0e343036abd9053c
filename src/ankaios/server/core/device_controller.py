"""Joins devices to the state: what is seen, which workloads follow from it, and where workloads with devices run.

In come what agents say of devices, and changes of the desired state. Out go messages to agents and changes of the
effective workloads: brokers that come and go with their devices, and workloads for which a place was found. Owned: the
desk with the devices, the book with the places, and which workloads are brokers.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import NOT_SCHEDULED, PENDING_INITIAL, ExecutionState
from ankaios.common.messages import ToAgent
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.state_form import device_configuration_from_form, device_instance_to_form, node_resource_to_form
from ankaios.common.state_manipulation import Form
from ankaios.common.workload import InstanceName, ResourceRequest
from ankaios.server.core.brokers import brokers_of
from ankaios.server.core.config_renderer import RenderedWorkload, render_workload
from ankaios.server.core.conventions import check_rendered_workload
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.device_desk import (
    Complaint,
    DeskEffect,
    DeviceDesk,
    InstanceChanged,
    NodeLost,
    ResourcesChanged,
)
from ankaios.server.core.placement import Place, PlacementBook, Wanted
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import CommittedUpdate, WorkloadChanges

_log = logging.getLogger(__name__)

_WAITING = (PENDING_INITIAL.sub_state, "WaitingToStart")


@dataclass(slots=True)
class DeviceNews:
    """Messages to agents, and workloads that come or go because of devices."""

    messages: list[ToAgent] = field(default_factory=list)
    changes: WorkloadChanges = field(default_factory=lambda: WorkloadChanges({}, {}))


class DeviceController:
    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._desk = DeviceDesk()
        self._book = PlacementBook(self._desk)
        self._brokers: dict[str, dict[str, Form]] = {}  # configuration -> name -> as made, before it is placed

    # --- what happens ---

    def hello(self, agent: str, hello: grpc.AgentHello) -> DeviceNews:
        return self._follow(self._desk.hello(agent, hello.tags.tags, hello.devices), supply_changed=True)

    def gone(self, agent: str) -> DeviceNews:
        return self._follow(self._desk.gone(agent))

    def report(self, agent: str, message: grpc.ToServer) -> DeviceNews:
        if message.HasField("deviceReport"):
            return self._follow(self._desk.report(agent, message.deviceReport))
        return self._follow(self._desk.slot_request(agent, message.slotRequest))

    def tick(self) -> DeviceNews:
        """A second has passed."""
        return self._follow(self._desk.tick())

    def desired_changed(self, change: DesiredChange) -> DeviceNews:
        """After the desired state was taken over."""
        effects = self._desk.configure(
            {
                name: None if form is None else device_configuration_from_form(form)
                for name, form in change.device_configurations.items()
            }
        )
        for agent, tags in change.agent_tags.items():
            effects += self._desk.tags_changed(agent, tags)
        for known in self._brokers.values():
            for name in change.workloads:
                known.pop(name, None)  # it is the user's now, or was
        stale = set(change.device_configurations)
        if change.configs or change.workloads:
            stale |= self._desk.configurations.keys()
        return self._follow(effects, stale, supply_changed=bool(change.agent_tags))

    def states_seen(self, states: Iterable[tuple[InstanceName, ExecutionState]]) -> None:
        """A workload that got beyond waiting has its devices."""
        for name, state in states:
            if state.state != PENDING_INITIAL.state or state.sub_state not in _WAITING:
                self._book.started(name.workload)

    def _follow(
        self, effects: Iterable[DeskEffect], configurations: Iterable[str] = (), supply_changed: bool = False
    ) -> DeviceNews:
        news = DeviceNews()
        stale = set(configurations)
        for effect in effects:
            match effect:
                case ToAgent():
                    news.messages.append(effect)
                case InstanceChanged(name, instance):
                    form = None if instance is None else device_instance_to_form(instance)
                    self._state.replace_device_instance(name, form)
                    stale.add(name.rpartition("-")[0])
                case ResourcesChanged(agent, resources):
                    self._state.agents.set_resources(agent, list(map(node_resource_to_form, resources)))
                case NodeLost(agent):
                    self._book.agent_lost(agent)
                case Complaint(text):
                    _log.warning("%s", text)
            supply_changed |= not isinstance(effect, ToAgent | Complaint)
        changes = self._broker_changes(stale)
        if supply_changed:
            changes = _joined(changes, self._moves(changes))
        news.changes = changes
        return news

    # --- brokers ---

    def _broker_changes(self, configurations: Iterable[str]) -> WorkloadChanges:
        added: dict[str, RenderedWorkload] = {}
        gone: list[str] = []
        for configuration in sorted(configurations):
            before = self._brokers.get(configuration, {})
            after = self._brokers_of(configuration, before)
            gone += [name for name in before if name not in after]
            added |= {name: RenderedWorkload.of(name, form) for name, form in after.items() if form != before.get(name)}
            self._brokers[configuration] = after
            if not after:
                del self._brokers[configuration]
        replaced = [name for name in (*gone, *added) if name in self._state.effective]
        deleted = {name: self._state.effective[name].instance_name for name in replaced}
        return WorkloadChanges(added, deleted)

    def _brokers_of(self, configuration: str, before: Mapping[str, Form]) -> dict[str, Form]:
        """A workload of the same name that a user wants goes first."""
        message = self._desk.configurations.get(configuration)
        if message is None or not message.HasField("broker"):
            return {}
        wanted = brokers_of(configuration, message, self._desk.instances_of(configuration), before)
        taken = self._state.desired["workloads"]
        rendered = (self._rendered(name, form) for name, form in wanted.items() if name not in taken)
        return {it.instance_name.workload: it.form for it in rendered if it is not None}

    def _rendered(self, name: str, form: Form) -> RenderedWorkload | None:
        try:
            workload = render_workload(name, form, self._state.config)
            check_rendered_workload(workload)
        except Rejected as fault:
            _log.warning("The broker '%s' cannot be made: %s", name, fault)
            return None
        return workload

    # --- places ---

    def placed(self, changes: WorkloadChanges) -> WorkloadChanges:
        """Give an agent to those added workloads that leave the choice to the server."""
        for name in changes.deleted.keys() - changes.added.keys():
            self._book.forget(name)
        return replace(changes, added={name: self._placed(name, workload) for name, workload in changes.added.items()})

    def _placed(self, name: str, workload: RenderedWorkload) -> RenderedWorkload:
        if "placement" not in workload.form or workload.form["agent"]:
            self._book.forget(name)
            return workload
        place = self._book.place(name, _wanted(workload.form))
        return RenderedWorkload.of(name, {**workload.form, "agent": place.agent})

    def _moves(self, pending: WorkloadChanges) -> WorkloadChanges:
        """Workloads that wait for a place, or lost theirs, and can have one now."""
        added: dict[str, RenderedWorkload] = {}
        deleted: dict[str, InstanceName] = {}
        for name in self._book.waiting():
            current = self._state.effective.get(name)
            if current is None or name in pending.added or name in pending.deleted:
                continue
            place = self._book.place(name, _wanted(current.form))
            if place.agent != current.instance_name.agent:
                # The agent is chosen when the change is taken over; the answer is the same then.
                added[name] = RenderedWorkload.of(name, {**current.form, "agent": ""})
                deleted[name] = current.instance_name
        return WorkloadChanges(added, deleted)

    def explain(self, added: Iterable[RenderedWorkload]) -> None:
        """Say in the state where a workload was placed and why, or why it is not sent to its agent."""
        for workload in added:
            name = workload.instance_name
            place = self._place_of(workload)
            if self.withholds(workload):
                text = f"agent '{name.agent}' does not know devices, so the workload is not sent to it"
                self._state.workload_states.put(name, PENDING_INITIAL.because(text))
                self._state.withheld.add(name)
            elif place is not None:
                state = PENDING_INITIAL if place.agent else NOT_SCHEDULED
                self._state.workload_states.put(name, state.because(place.why))

    def _place_of(self, workload: RenderedWorkload) -> Place | None:
        if "placement" not in workload.form:
            return None
        return self._book.place(workload.instance_name.workload, _wanted(workload.form))

    def sendable(self, workloads: Iterable[RenderedWorkload]) -> list[RenderedWorkload]:
        """What a newly connected agent may be sent of its workloads; of the others the state says why not."""
        all_of_them = list(workloads)
        self._state.withheld.difference_update(workload.instance_name for workload in all_of_them)
        kept_back = [workload for workload in all_of_them if self.withholds(workload)]
        self.explain(kept_back)
        return [workload for workload in all_of_them if workload not in kept_back]

    def sent_part(self, committed: CommittedUpdate) -> CommittedUpdate:
        withheld = self._state.withheld
        return replace(
            committed,
            added=[workload for workload in committed.added if workload.instance_name not in withheld],
            deleted=[deleted for deleted in committed.deleted if deleted.instance_name not in withheld],
        )

    def withholds(self, workload: RenderedWorkload) -> bool:
        """An agent that does not know devices would start the workload without them."""
        agent = workload.instance_name.agent
        return (
            bool(workload.form.get("resources")) and agent in self._state.agents and not self._desk.knows_devices(agent)
        )


def _wanted(form: Form) -> Wanted:
    requests = tuple(ResourceRequest(**request) for request in form.get("resources", ()))
    return Wanted.of(requests, form["placement"].get("tags", {}))


def _joined(first: WorkloadChanges, second: WorkloadChanges) -> WorkloadChanges:
    return WorkloadChanges({**first.added, **second.added}, {**first.deleted, **second.deleted})
