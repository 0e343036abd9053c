"""Explains why a workload is in its state: the chain of causes down to the root cause, as `ank why` shows it.

Input: the name of a workload and the facts of the server. Output: causes, each about one workload; the next one
explains the one before. Nothing is changed.
"""

from collections.abc import Iterable

from msgspec import Struct

from ankaios.common.execution_state import REMOVED, UNHEALTHY, ExecutionState
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_records import StateRecord
from ankaios.common.workload import InstanceName
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.waiting_reasons import (
    ClusterFacts,
    WaitingReason,
    agent_obstacles,
    blocking_dependents,
    unmet_dependencies,
)

_LONGEST_CHAIN = 20
# An end before a restart is mentioned for as long as this.
_RECENT_MS = 10 * 60 * 1000


class _Link(Struct):
    """One cause, and the workload that explains it."""

    kind: str
    text: str
    since_ms: int = 0
    output: tuple[str, ...] = ()
    explained_by: str = ""
    next_ms: int = 0


def explain(workload: str, facts: ClusterFacts) -> list[base.Cause]:
    """Empty if the workload is unknown."""
    causes: list[base.Cause] = []
    seen: set[str] = set()
    name = workload
    while name and name not in seen and len(causes) < _LONGEST_CHAIN:
        seen.add(name)
        instance, link = _link_of(name, facts)
        if link is None:
            break
        causes.append(_message(name, instance, link))
        name = link.explained_by
    if (rejected := facts.state.rejections.last_of(workload)) is not None:
        time_ms, text = rejected
        causes.append(
            base.Cause(workload=workload, kind="rejected", text=f"a change was rejected: {text}", sinceMs=time_ms)
        )
    return causes


def _message(name: str, instance: InstanceName | None, link: _Link) -> base.Cause:
    agent = instance.agent if instance is not None else ""
    return base.Cause(
        workload=name,
        agent=agent,
        kind=link.kind,
        text=link.text,
        sinceMs=link.since_ms,
        output=link.output,
        nextAttemptMs=link.next_ms,
    )


def _link_of(name: str, facts: ClusterFacts) -> tuple[InstanceName | None, _Link | None]:
    workload = facts.state.effective.get(name)
    if workload is None:
        return _undesired(name, facts)
    instance = workload.instance_name
    state = facts.state.workload_states.get(instance)
    if state is None:
        return instance, _Link("unknown", "has no state yet")
    record = facts.state.records.last_of(instance) or StateRecord(instance, 0, state)
    link = _explain_state(workload, state, record, facts)
    link.since_ms = link.since_ms or record.time_ms
    return instance, link


def _undesired(name: str, facts: ClusterFacts) -> tuple[InstanceName | None, _Link | None]:
    """It is being deleted, a hook has removed it, or it does not exist."""
    for instance, state in facts.state.workload_states.of_workload(name):
        link = _explain_stopping(instance, state, facts) or _Link("stopping", f"is no longer desired and is {state}")
        return instance, link
    if name in facts.state.desired["workloads"]:
        return None, _Link("hook", "was removed from the change by a mutating hook")
    records = facts.state.records.of_workload(name)
    if records:
        last = next((it for it in reversed(records) if not it.state.is_same(REMOVED)), records[-1])
        return last.name, _Link("removed", f"was removed ({last.state})", last.time_ms, last.output)
    return None, None


def _explain_state(
    workload: RenderedWorkload, state: ExecutionState, record: StateRecord, facts: ClusterFacts
) -> _Link:
    instance = workload.instance_name
    match state.state:
        case "AgentDisconnected":
            return _disconnected(instance.agent, facts)
        case "Running":
            return _explain_running(instance, state, facts)
        case "Succeeded":
            return _Link("succeeded", "has succeeded")
        case "Failed":
            return _explain_failure(record)
        case "NotScheduled":
            return _Link("placement", f"waits for an agent: {state.additional_info or 'none is named'}")
        case "Stopping":
            return _explain_stopping(instance, state, facts) or _Link("stopping", f"is {state}")
    return _explain_pending(workload, state, record, facts)


def _disconnected(agent: str, facts: ClusterFacts) -> _Link:
    since = facts.state.sessions.gone_since(agent)
    text = f"has no agent: '{agent}' is not connected" + ("" if since else ", and was not since the server started")
    return _Link("agent", text, since)


def _explain_running(instance: InstanceName, state: ExecutionState, facts: ClusterFacts) -> _Link:
    if state.health is not None and state.health.status == UNHEALTHY:
        return _Link("health", f"runs but is unhealthy: {state.health.text or 'its health check fails'}")
    if (end := _recent_end(instance, facts)) is not None:
        return _Link("running", f"runs again; before that it failed: {_end_text(end)}", 0, end.output)
    return _Link("running", "; ".join(filter(None, ["runs", state.additional_info])))


def _recent_end(instance: InstanceName, facts: ClusterFacts) -> StateRecord | None:
    """The last failure of the instance, if it is not long ago."""
    records = [it for it in facts.state.records.of_workload(instance.workload) if it.name == instance]
    ends = [it for it in records if it.state.state == "Failed"]
    return ends[-1] if ends and records[-1].time_ms - ends[-1].time_ms < _RECENT_MS else None


def _explain_failure(record: StateRecord) -> _Link:
    kind = "restart" if record.next_ms else "failed"
    return _Link(kind, f"has failed: {_end_text(record)}", 0, record.output, next_ms=record.next_ms)


def _end_text(record: StateRecord) -> str:
    parts = [record.state.additional_info or str(record.state)]
    if record.out_of_memory:
        parts.append("killed because it was out of memory")
    return ", ".join(parts)


def _explain_stopping(instance: InstanceName, state: ExecutionState, facts: ClusterFacts) -> _Link | None:
    if state.state != "Stopping":
        return None
    if state.sub_state == "WaitingToStop":
        blocking = blocking_dependents(facts.state.delete_graph.conditions(instance.workload), facts)
        return _waiting("waits for ", blocking) or _Link("stopping", "waits to stop")
    return _Link("stopping", f"is {state}: {state.additional_info}".rstrip(": "))


def _waiting(prefix: str, reasons: Iterable[WaitingReason]) -> _Link | None:
    """The first reason with another workload is explained next; all are named."""
    found = list(reasons)
    if not found:
        return None
    first = next((reason for reason in found if reason.workload), found[0])
    return _Link(first.kind, prefix + "; and for ".join(map(str, found)), explained_by=first.workload)


def _explain_pending(
    workload: RenderedWorkload, state: ExecutionState, record: StateRecord, facts: ClusterFacts
) -> _Link:
    instance, info = workload.instance_name, state.additional_info
    obstacles = agent_obstacles(instance, workload.form, facts)
    if instance.agent not in facts.state.agents:
        return _disconnected(instance.agent, facts)
    if state.sub_state == "StartingFailed":
        return _Link("failed", f"cannot start: {info}")
    if info.startswith("Retry "):
        text = f"cannot start, {info[0].lower()}{info[1:]}"
        return _Link("retry", text, next_ms=record.next_ms)
    if state.sub_state == "WaitingToStart" and info:
        return _Link("device", f"waits for devices: {info}")
    waits = _waiting("waits for ", [*unmet_dependencies(workload.form.get("dependencies", {}), facts), *obstacles])
    if waits is not None and state.sub_state != "Starting":
        return waits
    older = _older_instance(instance, facts)
    if older is not None and state.sub_state == "Initial":
        return older
    if (end := _recent_end(instance, facts)) is not None:
        return _Link("restart", f"starts again; before that it failed: {_end_text(end)}", 0, end.output)
    return _Link("starting", f"is {state}: {info}".rstrip(": ") if info else "is starting")


def _older_instance(instance: InstanceName, facts: ClusterFacts) -> _Link | None:
    """An instance that has to stop first."""
    for other, state in facts.state.workload_states.of_workload(instance.workload):
        if other != instance and (link := _explain_stopping(other, state, facts)) is not None:
            link.text = f"waits until its previous instance has stopped, which {link.text}"
            return link
    return None
