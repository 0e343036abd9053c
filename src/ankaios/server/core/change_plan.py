"""Describes what an update would do, from the same decisions that applying it would commit.

Input: a prepared update, the decisions about its workloads, and the facts of the cluster. Output: a `PlanResponse`.
Nothing is changed. The cost depends on the changed workloads, not on the size of the cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.proto_conversion import instance_name_to_pb
from ankaios.common.state_manipulation import Form, Path
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.delete_graph import NEEDED_WHILE_RUNNING
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.field_changes import field_changes
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import PreparedUpdate
from ankaios.server.core.stored_entries import (
    AGENT_TAGS_KIND,
    CONFIG_KIND,
    DEVICE_CONFIGURATION_KIND,
    desired_entries,
    entry_path,
)
from ankaios.server.core.update_rejected import UpdateRejected
from ankaios.server.core.waiting_reasons import (
    ClusterFacts,
    WaitingReason,
    agent_obstacles,
    blocking_dependents,
    unmet_dependencies,
)
from ankaios.server.core.workload_plan import PlannedChanges
from ankaios.storage.state_store import EntryKey


class _Change(Struct):
    """One workload of the plan; None stands for a workload that does not exist."""

    name: str
    before: RenderedWorkload | None
    after: RenderedWorkload | None
    waits_for: list[WaitingReason]

    @property
    def action(self) -> base.PlannedAction:
        if self.before is None:
            return base.PLANNED_CREATE
        if self.after is None:
            return base.PLANNED_DELETE
        old, new = self.before.instance_name, self.after.instance_name
        if old == new and self.before.form.get("runtime") == self.after.form["runtime"]:
            return base.PLANNED_RESTART
        return base.PLANNED_MOVE if old.agent and new.agent and old.agent != new.agent else base.PLANNED_UPDATE

    @property
    def starts_new_first(self) -> bool:
        return self.after is not None and starts_new_first(self.before, self.after)


def starts_new_first(before: RenderedWorkload | None, after: RenderedWorkload) -> bool:
    """Two instances run at the same time only if they have different names and the same agent."""
    wanted = bool(after.form.get("updateStrategy", {}).get("startNewFirst"))
    if not wanted or before is None or before.instance_name == after.instance_name:
        return False
    return before.instance_name.agent == after.instance_name.agent


def describe_rejection(fault: UpdateRejected) -> base.PlanResponse:
    return base.PlanResponse(accepted=False, rejection=str(fault), rejectedBy=fault.rule)


def describe_plan(prepared: PreparedUpdate, planned: PlannedChanges, facts: ClusterFacts) -> base.PlanResponse:
    changes = {change.name: change for change in _changes(planned, facts)}
    steps = _steps(changes)
    workloads = [_message(change, steps[change.name]) for change in changes.values()]
    workloads.sort(key=lambda workload: (workload.step, workload.name))
    return base.PlanResponse(accepted=True, workloads=workloads, entries=_entries(facts.state, prepared.desired))


def _changes(planned: PlannedChanges, facts: ClusterFacts) -> Iterator[_Change]:
    added, deleted = planned.changes.added, planned.changes.deleted
    needed_by = _new_dependents(added)
    for name in sorted(added.keys() | deleted.keys()):
        before = facts.state.effective.get(name) if name in deleted else None
        if before is None and name in deleted:
            before = RenderedWorkload(deleted[name], {})  # a hook deletes an unknown instance
        change = _Change(name, before, added.get(name), [])
        change.waits_for += _before_stop(change, needed_by.get(name, ()), facts)
        change.waits_for += _before_start(change, planned, facts)
        yield change


def _new_dependents(added: Mapping[str, RenderedWorkload]) -> dict[str, list[str]]:
    """Added workloads by the workload that they need running."""
    dependents: dict[str, list[str]] = {}
    for name, workload in added.items():
        for needed, condition in workload.form.get("dependencies", {}).items():
            if condition in NEEDED_WHILE_RUNNING:
                dependents.setdefault(needed, []).append(name)
    return dependents


def _before_stop(change: _Change, needed_by: Iterable[str], facts: ClusterFacts) -> list[WaitingReason]:
    if change.before is None or change.starts_new_first:
        return []
    if change.before.instance_name.agent not in facts.state.agents:
        return []
    dependents = {*facts.state.delete_graph.conditions(change.name), *needed_by} - {change.name}
    return blocking_dependents(sorted(dependents), facts)


def _before_start(change: _Change, planned: PlannedChanges, facts: ClusterFacts) -> list[WaitingReason]:
    workload = change.after
    if workload is None:
        return []
    name = workload.instance_name
    decided = planned.states.get(name)
    if not name.agent or name in planned.unsent:
        reason = decided.additional_info if decided is not None else ""
        return [WaitingReason("placement", reason)] if reason else []
    return [
        *unmet_dependencies(workload.form.get("dependencies", {}), facts),
        *agent_obstacles(name, workload.form, facts),
    ]


def _steps(changes: Mapping[str, _Change]) -> dict[str, int]:
    """A workload comes one step after the last changed workload that it waits for."""
    steps: dict[str, int] = {}
    for name in changes:
        _find_step(name, changes, steps)
    return steps


def _find_step(start: str, changes: Mapping[str, _Change], steps: dict[str, int]) -> None:
    """Without recursion, because chains can be long. Workloads that wait for each other are in one step."""
    way = [start]
    on_way = {start}
    while way:
        name = way[-1]
        needed = [reason.workload for reason in changes[name].waits_for if reason.workload in changes]
        ahead = next((other for other in needed if other not in steps and other not in on_way), None)
        if ahead is not None:
            way.append(ahead)
            on_way.add(ahead)
            continue
        steps[name] = 1 + max((steps.get(other, 0) for other in needed), default=0)
        on_way.discard(way.pop())


def _message(change: _Change, step: int) -> base.PlannedWorkload:
    action = change.action
    return base.PlannedWorkload(
        name=change.name,
        action=action,
        before=_instance_message(change.before),
        after=_instance_message(change.after),
        fields=() if action == base.PLANNED_DELETE else field_changes(_form(change.before), _form(change.after)),
        waitsFor=[str(reason) for reason in change.waits_for],
        step=step,
        startsNewFirst=change.starts_new_first,
    )


def _instance_message(workload: RenderedWorkload | None) -> base.WorkloadInstanceName | None:
    return None if workload is None else instance_name_to_pb(workload.instance_name)


def _form(workload: RenderedWorkload | None) -> Form | None:
    return None if workload is None else workload.form


def _entries(state: ServerState, change: DesiredChange) -> list[base.PlannedEntry]:
    """Entries other than workloads."""
    entries = [
        _entry(it.kind, it.name, it.before, it.after)
        for it in desired_entries(state.desired, change)
        if it.kind in (CONFIG_KIND, DEVICE_CONFIGURATION_KIND)
    ]
    entries += [
        _entry(AGENT_TAGS_KIND, agent, state.agents.form[agent].get("tags", {}), tags)
        for agent, tags in change.agent_tags.items()
        if agent in state.agents and state.agents.form[agent].get("tags", {}) != tags
    ]
    return sorted(entries, key=lambda entry: (entry.kind, entry.name))


def _entry(kind: str, name: str, before: Any, after: Any) -> base.PlannedEntry:
    action = base.PLANNED_CREATE if before is None else base.PLANNED_DELETE if after is None else base.PLANNED_UPDATE
    fields = () if after is None else field_changes(before, after)
    return base.PlannedEntry(kind=kind, name=name, action=action, fields=fields)


def hide_unreadable(plan: base.PlanResponse, is_readable: Callable[[Path], bool]) -> None:
    """Remove the details of what a workload that requests the plan may not read."""
    for workload in plan.workloads:
        if not is_readable(("desiredState", "workloads", workload.name)):
            del workload.fields[:]
        if not is_readable(("workloadStates",)):
            del workload.waitsFor[:]
    for entry in plan.entries:
        if not is_readable(_path_of(entry)):
            del entry.fields[:]


def _path_of(entry: base.PlannedEntry) -> Path:
    """A workload sees the tags of an agent only if it may read the whole agent."""
    return ("agents", entry.name) if entry.kind == AGENT_TAGS_KIND else entry_path(EntryKey(entry.kind, entry.name))
