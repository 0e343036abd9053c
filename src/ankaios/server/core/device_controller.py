"""Joins devices to the state: what is seen, which workloads follow from it, and where workloads with devices run.

In come what agents say of devices, and changes of the desired state. Out go messages to agents and changes of the
effective workloads: brokers that come and go with their devices, and workloads for which a place was found. Owned: the
desk with the devices, the book with the places, which workloads are brokers, and what of that is to be worked out.
"""

import logging
from collections.abc import Container, Iterable, Mapping

from msgspec.structs import replace

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import NOT_SCHEDULED, PENDING_INITIAL, REMOVED, STOPPING, ExecutionState
from ankaios.common.messages import ToAgent
from ankaios.common.model.state import DEVICE_CONFIGURATION, DEVICE_INSTANCE, NODE_RESOURCE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_from_pb
from ankaios.common.state_manipulation import Form
from ankaios.common.workload import InstanceName, ResourceRequest
from ankaios.server.core.brokers import brokers_of
from ankaios.server.core.config_renderer import RenderedWorkload, render_workload
from ankaios.server.core.conventions import check_rendered_workload
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.device_desk import (
    NOT_SETTLED,
    Complaint,
    DeskEffect,
    DeviceDesk,
    InstanceChanged,
    NodeLost,
    ResourcesChanged,
)
from ankaios.server.core.placement import NOBODY, Place, PlacementBook, Wanted
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import CommittedUpdate, WorkloadChanges
from ankaios.server.core.whereabouts import Whereabouts

_log = logging.getLogger(__name__)

_WAITING = (PENDING_INITIAL.sub_state, "WaitingToStart")
_ENDING = (STOPPING.state, REMOVED.state)
_MATTERS_FOR_BROKERS = ("nodes", "capacity", "shared")


class DeviceController:
    """What happens is answered with messages to agents; which workloads change by it is asked for with `due`."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._desk = DeviceDesk()
        self._book = PlacementBook(self._desk)
        self._brokers: dict[str, dict[str, Form]] = {}  # configuration -> name -> as made, before it is placed
        self._names: dict[str, tuple[str, ...]] = {}  # the same by name alone, also of those whose name a user took
        self._configuration_of: dict[str, str] = {}  # by these names
        self._stale: set[str] = set()  # configurations whose brokers are to be worked out anew
        self._supply_changed = False
        self._is_learning = True  # not all agents had the time to reconnect after the start of the server
        self._holders: dict[str, InstanceName] = {}  # who uses devices, known while learning
        self._whereabouts = Whereabouts()  # known while learning

    # --- what happens ---

    def question(self, agent: str, hello: grpc.AgentHello) -> list[ToAgent]:
        """What a newly connected agent is asked first of all; it forgets what it heard when it hears anew."""
        self._whereabouts.forget(agent)
        if not hello.devices or not self._past_matters():
            return []
        return [ToAgent(agent, grpc.FromServer(tellWorkloads=grpc.TellWorkloads()))]

    def known_workloads(self, agent: str, message: grpc.KnownWorkloads) -> list[ToAgent]:
        """The answer; of one who was not asked, or too late, it does not count."""
        if not self._is_learning or not self._desk.knows_devices(agent):
            return []
        self._whereabouts.tell(agent, map(instance_name_from_pb, message.instanceNames))
        return self._follow([], supply_changed=True)

    def hello(self, agent: str, hello: grpc.AgentHello) -> list[ToAgent]:
        return self._follow(self._desk.hello(agent, hello.tags.tags, hello.devices), supply_changed=True)

    def gone(self, agent: str) -> list[ToAgent]:
        return self._follow(self._desk.gone(agent))

    def report(self, agent: str, message: grpc.ToServer) -> list[ToAgent]:
        if message.HasField("deviceReport"):
            return self._follow(self._desk.report(agent, message.deviceReport))
        return self._follow(self._desk.slot_request(agent, message.slotRequest))

    def tick(self) -> list[ToAgent]:
        """A second has passed."""
        return self._follow(self._desk.tick())

    def desired_changed(self, change: DesiredChange) -> list[ToAgent]:
        """After the desired state was taken over."""
        effects = self._desk.configure(
            {
                name: None if form is None else DEVICE_CONFIGURATION.from_form(form)
                for name, form in change.device_configurations.items()
            }
        )
        for agent, tags in change.agent_tags.items():
            effects += self._desk.tags_changed(agent, tags)
        self._stale |= change.device_configurations.keys()
        self._stale |= {name for name in self._desk.configurations if self._uses(name, change.configs)}
        for name in change.workloads.keys() & self._configuration_of.keys():
            configuration = self._configuration_of[name]
            self._brokers.get(configuration, {}).pop(name, None)  # it is the user's now, or was
            self._stale.add(configuration)
        return self._follow(effects, supply_changed=bool(change.agent_tags))

    def states_seen(self, states: Iterable[tuple[InstanceName, ExecutionState]]) -> None:
        """A workload that got beyond waiting has its devices; how an earlier one of the same name ends says nothing."""
        for name, state in states:
            waits = state.state == PENDING_INITIAL.state and state.sub_state in _WAITING
            if not self._state.is_desired(name):
                continue
            if not waits and state.state not in _ENDING:
                self._book.started(name.workload)
            if state.is_same(REMOVED) and name in self._state.withheld:
                self._explain([self._state.effective[name.workload]])  # the last that was sent is gone, this one stays

    def _follow(self, effects: Iterable[DeskEffect], supply_changed: bool = False) -> list[ToAgent]:
        messages: list[ToAgent] = []
        for effect in effects:
            match effect:
                case ToAgent():
                    messages.append(effect)
                case InstanceChanged(name, instance):
                    self._instance_changed(name, None if instance is None else DEVICE_INSTANCE.to_form(instance))
                case ResourcesChanged(agent, resources):
                    self._state.agents.set_resources(agent, list(map(NODE_RESOURCE.to_form, resources)))
                case NodeLost(agent):
                    self._book.agent_lost(agent)
                case Complaint(text):
                    _log.warning("%s", text)
            supply_changed |= not isinstance(effect, ToAgent | Complaint)
        self._supply_changed |= supply_changed
        return messages

    def _instance_changed(self, name: str, form: Form | None) -> None:
        """Who uses a device does not matter for brokers, so a claim costs no more with many of them."""
        before = self._state.tree.get("deviceInstances", {}).get(name)
        if before is None or form is None or any(before.get(key) != form.get(key) for key in _MATTERS_FOR_BROKERS):
            self._stale.add(name.rpartition("-")[0])
        self._state.replace_device_instance(name, form)

    def due(self) -> WorkloadChanges:
        """Workloads that come, go or move because of all that happened since this was asked last."""
        if not self._is_learning:
            self._holders.clear()
            self._whereabouts.clear()
        else:
            self._holders = self._desk.holders()
            if self._desk.is_settled:  # what is known by now counts once more
                self._is_learning, self._supply_changed = False, True
        changes = self._broker_changes(self._stale)
        if self._supply_changed:
            changes = _joined(changes, self._moves(changes))
        self._stale, self._supply_changed = set(), False
        return changes

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
        message = self._desk.configurations.get(configuration, base.DeviceConfiguration())
        instances = self._desk.instances_of(configuration) if message.HasField("broker") else {}
        wanted = brokers_of(configuration, message, instances, before)
        self._remember(configuration, tuple(wanted))
        taken = self._state.desired["workloads"]
        rendered = (self._rendered(name, form) for name, form in wanted.items() if name not in taken)
        return {it.instance_name.workload: it.form for it in rendered if it is not None}

    def _remember(self, configuration: str, names: tuple[str, ...]) -> None:
        for name in self._names.pop(configuration, ()):
            self._configuration_of.pop(name, None)
        if names:
            self._names[configuration] = names
            self._configuration_of |= dict.fromkeys(names, configuration)

    def _uses(self, configuration: str, configs: Container[str]) -> bool:
        """Whether its broker is rendered with one of these configs."""
        broker = self._desk.configurations[configuration].broker
        return any(config in configs for config in broker.workload.configs.configs.values())

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
        place = self._place(name, workload.form)
        return RenderedWorkload.of(name, {**workload.form, "agent": place.agent})

    def _place(self, name: str, form: Form) -> Place:
        wanted = _wanted(form)
        return self._book.place(name, wanted, self._given(InstanceName.of(name, "", form["runtimeConfig"]), wanted))

    def _given(self, name: InstanceName, wanted: Wanted) -> Place | None:
        """What is there stays where it is; who could be such a workload waits until agents had time to say so.

        One whose agent has not come back by then waits for it, as it would if the server had not ended.
        """
        holder = self._holders.get(name.workload)
        if holder is not None and holder.id == name.id and self._desk.may_have(holder.agent, wanted.admits):
            return Place(holder.agent, f"it uses devices of agent '{holder.agent}' already")
        agent = self._whereabouts.having(name.workload, name.id)
        if agent is not None and self._desk.may_have(agent, wanted.admits):
            return Place(agent, f"it is on agent '{agent}' already")
        if self._is_learning:
            return Place("", NOT_SETTLED if self._desk.candidates() else NOBODY)
        absent = self._whereabouts.said_to_have(name.workload, name.id)
        if absent is not None and self._desk.may_have(absent, wanted.admits):
            self._desk.expect(absent)
            return Place(absent, f"it is said to be on agent '{absent}' already")
        return None

    def _moves(self, pending: WorkloadChanges) -> WorkloadChanges:
        """Workloads that wait for a place, or lost theirs, and can have one now."""
        added: dict[str, RenderedWorkload] = {}
        deleted: dict[str, InstanceName] = {}
        for name in self._book.waiting():
            current = self._state.effective.get(name)
            if current is None or name in pending.added or name in pending.deleted:
                continue
            place = self._place(name, current.form)
            if place.agent != current.instance_name.agent:
                # The agent is chosen when the change is taken over; the answer is the same then.
                added[name] = RenderedWorkload.of(name, {**current.form, "agent": ""})
                deleted[name] = current.instance_name
            elif not place.agent:
                self._still_waits(current.instance_name, place)
        return WorkloadChanges(added, deleted)

    def _still_waits(self, name: InstanceName, place: Place) -> None:
        """For the same reason as before, or for another one that is worth telling."""
        state = NOT_SCHEDULED.because(place.why)
        if self._state.workload_states.get(name) != state:
            self._state.workload_states.put(name, state)

    def _explain(self, added: Iterable[RenderedWorkload]) -> None:
        """Say in the state where a workload was placed and why, or why it is not sent to its agent."""
        for workload in added:
            name = workload.instance_name
            place = self._place_of(workload)
            if self._withholds(workload):
                text = f"agent '{name.agent}' does not know devices, so the workload is not sent to it"
                self._state.workload_states.put(name, PENDING_INITIAL.because(text))
                self._state.withheld.add(name)
            elif place is not None:
                state = PENDING_INITIAL if place.agent else NOT_SCHEDULED
                self._state.workload_states.put(name, state.because(place.why))

    def _place_of(self, workload: RenderedWorkload) -> Place | None:
        """None if the user chose the agent; whether the server did, the effective workload does not tell."""
        name = workload.instance_name.workload
        return self._place(name, workload.form) if name in self._book else None

    def sendable(self, workloads: Iterable[RenderedWorkload]) -> list[RenderedWorkload]:
        """What a newly connected agent may be sent of its workloads; of the others the state says why not."""
        all_of_them = list(workloads)
        self._state.withheld.difference_update(workload.instance_name for workload in all_of_them)
        kept_back = [workload for workload in all_of_them if self._withholds(workload)]
        self._explain(kept_back)
        return [workload for workload in all_of_them if workload not in kept_back]

    def sent_part(self, committed: CommittedUpdate) -> CommittedUpdate:
        """What agents are told of an update. One instance may be in both parts, and be sent or withheld in only one.

        The state says then of all added workloads what there is to say.
        """
        sent = replace(
            committed,
            added=[workload for workload in committed.added if not self._withholds(workload)],
            deleted=[deleted for deleted in committed.deleted if deleted.instance_name not in self._state.withheld],
        )
        self._state.withheld.difference_update(deleted.instance_name for deleted in committed.deleted)
        for name in {deleted.instance_name for deleted in committed.deleted if deleted not in sent.deleted}:
            if self._state.is_desired(name):
                self._state.workload_states.put(name, PENDING_INITIAL)  # the same instance, no longer withheld
        self._explain(committed.added)
        return sent

    def may_greet(self, agent: str) -> bool:
        """Whether it is known which workloads belong on the agent; it would end those that its greeting leaves out.

        Only after a start of the server that is not so at once, and only if there is anything whose place is not fixed.
        """
        if not self._past_matters() or not self._desk.knows_devices(agent):
            return True
        held = (name for name in self._holders.values() if name.agent == agent)
        return (
            self._desk.has_reported(agent)
            and self._whereabouts.has_told(agent)
            and all(map(self._state.is_desired, (*held, *self._whereabouts.had_by(agent))))
        )

    def _past_matters(self) -> bool:
        return self._is_learning and bool(self._book.waiting() or self._desk.configurations)

    def _withholds(self, workload: RenderedWorkload) -> bool:
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
