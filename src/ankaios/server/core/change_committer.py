"""Commits changes to the state and determines their effects: updates, and changes of brokers and placements.

Input: prepared updates, and the placements and devices that they depend on. Output: committed changes with their
effects, and entries for the store. Owns the history, the agent tags that requests set, and what mutating hooks made of
workloads.
"""

from collections.abc import Container, Iterable

from msgspec import Struct

from ankaios.common.execution_state import PENDING_INITIAL, REMOVED
from ankaios.common.messages import ToAgent
from ankaios.common.workload import DeletedWorkload, InstanceName
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.device_coordinator import DeviceCoordinator
from ankaios.server.core.event_handler import EventHandler
from ankaios.server.core.history import History, HistoryLimits
from ankaios.server.core.log_request_handler import LogRequestHandler
from ankaios.server.core.replies import Effect, broadcast_states, updates_for_agents
from ankaios.server.core.requester import UpdateOrigin
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import CommittedUpdate, PreparedUpdate
from ankaios.server.core.stored_entries import desired_entries
from ankaios.server.core.stored_state import HookedWorkloads, RestoredState, TagOverrides, encode_hooked
from ankaios.server.core.workload_plan import PlannedChanges, WorkloadChanges, plan_workloads
from ankaios.storage.state_store import EntryChange, JsonValue, Revision


class CommittedChange(Struct, frozen=True):
    """`entries` of the desired state have changed. `effects` concern workloads, `messages` devices."""

    entries: list[EntryChange]
    update: CommittedUpdate
    effects: list[Effect]
    messages: list[ToAgent]


class ChangeCommitter:
    def __init__(
        self,
        state: ServerState,
        devices: DeviceCoordinator,
        events: EventHandler,
        logs: LogRequestHandler,
        *,
        is_durable: bool,
        limits: HistoryLimits | None,
    ) -> None:
        self._state = state
        self._devices = devices
        self._events = events
        self._logs = logs
        self._hooked = HookedWorkloads()
        self.history = History(limits)
        self.tags = TagOverrides(is_durable)
        # While mutating hooks process an update, the state that it was compared with must not change.
        self.hooks_are_running = False

    def restore(self, restored: RestoredState, revisions: Iterable[Revision], last_revision: int) -> None:
        """Continue with a stored state."""
        self.history.restore(revisions, last_revision)
        self.tags.restore(restored.tags)
        self._hooked.restore(restored.hooked)
        self._devices.restore(restored.placements)
        self._take_over(restored.update, plan_workloads(restored.update.changes, self._devices.facts))
        self._devices.desired_changed(restored.update.desired, restored.update.rendered)

    def drop_old_revisions(self) -> None:
        self._state.entries.note_dropped_revisions(self.history.drop_old(self._state.now))

    def commit(self, origin: UpdateOrigin, prepared: PreparedUpdate, changes: WorkloadChanges) -> CommittedChange:
        """Commit an update. `changes` are the prepared ones, or what mutating hooks made of them."""
        self._events.watch()
        entries = self._note_update(origin, prepared, changes)
        update = self._take_over(prepared, plan_workloads(changes, self._devices.facts))
        messages = self._devices.desired_changed(prepared.desired, prepared.rendered)
        return CommittedChange(entries, update, self._consequences(update), messages)

    def commit_own(self) -> list[Effect]:
        """Commit changes of brokers and placements. They have no requester, so there is no response.

        Changes that become due while hooks process an update are committed after it.
        """
        if self.hooks_are_running or not self._devices.must_plan:
            return []
        self._events.watch()
        planned = self._devices.due()
        nothing = DesiredChange(self._state.desired["apiVersion"])
        return self._consequences(self._take_over(PreparedUpdate(nothing, planned.rendered, planned.changes), planned))

    def known_hooked(self, names: Iterable[str]) -> dict[str, JsonValue]:
        """What agents have of these workloads, which mutating hooks may have changed."""
        known = self._state.effective
        return {name: encode_hooked(known[name]) for name in names if name in known}

    def _note_update(
        self, origin: UpdateOrigin, prepared: PreparedUpdate, changes: WorkloadChanges
    ) -> list[EntryChange]:
        """Before the update is applied: what has to be stored of it, and its revision."""
        desired = [
            *desired_entries(self._state.desired, prepared.desired),
            *self.tags.set(prepared.desired.agent_tags),
        ]
        self._state.entries.note_all(desired)
        self._state.entries.note_all(self._hooked.set(self._state.effective, prepared, changes))
        if desired:
            now = self._state.now
            revision = self.history.add(now, origin.requester_text, origin.masks, desired, origin.note)
            self._state.entries.note_revision(revision, self.history.drop_old(now))
        return desired

    def _take_over(self, prepared: PreparedUpdate, planned: PlannedChanges) -> CommittedUpdate:
        committed = commit_update(self._state, prepared, planned)
        self._devices.commit(planned)
        return committed

    def _consequences(self, update: CommittedUpdate) -> list[Effect]:
        effects = self._logs.workloads_deleted(update.deleted)
        effects += self._events.take_events()
        effects += broadcast_states((name, REMOVED) for name in update.unstarted)
        return effects + updates_for_agents(update, self._state.agents.form.keys())


def commit_update(state: ServerState, prepared: PreparedUpdate, planned: PlannedChanges) -> CommittedUpdate:
    """Commit the update. `planned` are the prepared changes, or those of the hooks, with all decisions about them."""
    changes = planned.changes
    state.put_desired(prepared.desired)
    for agent, tags in prepared.desired.agent_tags.items():
        state.agents.set_tags(agent, tags)
    state.put_rendered(prepared.rendered)
    # An addition that a hook removed does not exist; a removed deletion leaves the workload unchanged.
    state.put_effective({**dict.fromkeys(changes.deleted), **changes.added})
    for workload in changes.added.values():
        state.delete_graph.insert(workload.instance_name.workload, workload.form.get("dependencies", {}))
    unstarted = [name for name in _replaced(changes) if _never_started(state, name, planned.never_sent)]
    for name in unstarted:
        state.workload_states.remove(name)
    state.workload_states.add_initial(workload.instance_name for workload in changes.added.values())
    state.put_states(planned.states)
    deleted = [
        DeletedWorkload(name, dict(state.delete_graph.conditions(name.workload))) for name in changes.deleted.values()
    ]
    for name in unstarted:
        # No agent will report its removal.
        if name.workload not in state.effective:
            state.forget_removed(name)
    return _committed(planned, deleted, unstarted)


def _committed(
    planned: PlannedChanges, deleted: list[DeletedWorkload], unstarted: list[InstanceName]
) -> CommittedUpdate:
    added = list(planned.changes.added.values())
    not_sent = planned.never_sent.union(unstarted)
    return CommittedUpdate(
        added=added,
        deleted=deleted,
        unstarted=unstarted,
        sent_added=[workload for workload in added if workload.instance_name not in planned.unsent],
        sent_deleted=[it for it in deleted if it.instance_name not in not_sent],
    )


def _replaced(changes: WorkloadChanges) -> Iterable[InstanceName]:
    """Deleted instances that do not come back under the same name; those keep their state."""
    for name, instance_name in changes.deleted.items():
        if name not in changes.added or changes.added[name].instance_name != instance_name:
            yield instance_name


def _never_started(state: ServerState, name: InstanceName, never_sent: Container[InstanceName]) -> bool:
    """No agent has the workload, so the server removes its state.

    [impl->swdd~server-handles-not-started-deleted-workloads~1]
    """
    if not name.agent or name in never_sent:
        return True
    known = state.workload_states.get(name)
    return name.agent not in state.agents and known is not None and known.is_same(PENDING_INITIAL)
