"""Plans as text and as plain data. Pure: a `PlanResponse` in, lines or a form out.

`+` marks what is created, `~` what is changed, `-` what is deleted. Values of several lines are shown as a line diff.
"""

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any

from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.terminal.table import printable
from ankaios.common.pb import ank_base_pb2 as base

_SIGNS = {base.PLANNED_CREATE: "+", base.PLANNED_DELETE: "-"}
_STYLES = {"+": "good", "~": "busy", "-": "bad"}
_ACTIONS = {
    base.PLANNED_CREATE: "create",
    base.PLANNED_UPDATE: "update",
    base.PLANNED_RESTART: "restart",
    base.PLANNED_MOVE: "move",
    base.PLANNED_DELETE: "delete",
}
_KINDS = {"config": "config", "deviceConfiguration": "device configuration", "agentTags": "tags of agent"}
_CONTEXT = 1
NO_CHANGES = "No changes. The cluster is as the manifests describe."


def has_changes(plan: base.PlanResponse) -> bool:
    return bool(plan.workloads or plan.entries)


# --- text -------------------------------------------------------------------------------------------------------------


def plan_lines(output: CliOutput, plan: base.PlanResponse) -> Iterator[str]:
    if not has_changes(plan):
        yield NO_CHANGES
        return
    steps = {workload.step for workload in plan.workloads}
    step = 0
    for workload in plan.workloads:
        if len(steps) > 1 and workload.step != step:
            step = workload.step
            yield output.paint(f"Step {step}", "header")
        yield from _workload_lines(output, workload)
    for entry in plan.entries:
        sign = _SIGNS.get(entry.action, "~")
        yield output.paint(f"{sign} {entry.name}", _STYLES[sign]) + f"  {_KINDS.get(entry.kind, entry.kind)}"
        yield from _field_lines(output, entry.fields)
    yield ""
    yield f"{_summary(plan)} Nothing was changed."


def _workload_lines(output: CliOutput, workload: base.PlannedWorkload) -> Iterator[str]:
    sign = _SIGNS.get(workload.action, "~")
    yield f"{output.paint(f'{sign} {workload.name}', _STYLES[sign])}  {_what_happens(workload)}"
    if workload.action != base.PLANNED_CREATE:
        yield from _field_lines(output, workload.fields)
    for reason in workload.waitsFor:
        yield f"    {output.paint('waits for', 'busy')} {printable(reason)}"


def _what_happens(workload: base.PlannedWorkload) -> str:
    before, after = _agent(workload.before.agentName), _agent(workload.after.agentName)
    match workload.action:
        case base.PLANNED_CREATE:
            return f"create {after}{_runtime(workload)}"
        case base.PLANNED_DELETE:
            return f"delete, {before}"
        case base.PLANNED_MOVE:
            return f"move, {before} -> {after}"
        case base.PLANNED_RESTART:
            return f"restart {after}"
        case _:
            first = ", the new instance starts first" if workload.startsNewFirst else ""
            return f"update {after}{first}"


def _agent(name: str) -> str:
    return f"on agent '{name}'" if name else "on no agent"


def _runtime(workload: base.PlannedWorkload) -> str:
    found = next((field.after for field in workload.fields if field.path == "runtime"), "")
    return f" with {found}" if found else ""


def _field_lines(output: CliOutput, fields: Iterable[base.FieldChange]) -> Iterator[str]:
    for field in fields:
        before = field.before if field.HasField("before") else None
        after = field.after if field.HasField("after") else None
        if "\n" in (before or "") or "\n" in (after or ""):
            yield f"    {field.path or 'value'}:"
            yield from _line_diff(output, (before or "").splitlines(), (after or "").splitlines())
        else:
            yield f"    {field.path or 'value'}: {_one_line(output, before, after)}"


def _one_line(output: CliOutput, before: str | None, after: str | None) -> str:
    old = "" if before is None else output.paint(printable(before) or '""', "bad")
    new = "" if after is None else output.paint(printable(after) or '""', "good")
    if before is None:
        return f"+ {new}"
    return f"- {old}" if after is None else f"{old} -> {new}"


def _line_diff(output: CliOutput, before: list[str], after: list[str]) -> Iterator[str]:
    """Changed lines, with one unchanged line before and after each change."""
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT):
        for kind, low, high, new_low, new_high in group:
            if kind == "equal":
                yield from (f"        {printable(line)}" for line in before[low:high])
                continue
            yield from (output.paint(f"      - {printable(line)}", "bad") for line in before[low:high])
            yield from (output.paint(f"      + {printable(line)}", "good") for line in after[new_low:new_high])


def _summary(plan: base.PlanResponse) -> str:
    counts: dict[str, int] = {}
    for workload in plan.workloads:
        action = _ACTIONS.get(workload.action, "update")
        counts[action] = counts.get(action, 0) + 1
    parts = [f"{count} to {action}" for action, count in counts.items()]
    if plan.entries:
        parts.append(f"{len(plan.entries)} other {'entry' if len(plan.entries) == 1 else 'entries'} to change")
    return f"Plan: {', '.join(parts)}."


# --- form -------------------------------------------------------------------------------------------------------------


def plan_as_form(plan: base.PlanResponse) -> dict[str, Any]:
    form: dict[str, Any] = {"accepted": plan.accepted, "revision": plan.revision}
    if not plan.accepted:
        form |= {"rejection": plan.rejection, "rejectedBy": plan.rejectedBy}
    form["workloads"] = [_workload_form(workload) for workload in plan.workloads]
    form["entries"] = [
        {
            "kind": entry.kind,
            "name": entry.name,
            "action": _ACTIONS.get(entry.action, "update"),
            "fields": _field_forms(entry.fields),
        }
        for entry in plan.entries
    ]
    return form


def _workload_form(workload: base.PlannedWorkload) -> dict[str, Any]:
    return {
        "name": workload.name,
        "action": _ACTIONS.get(workload.action, "update"),
        "step": workload.step,
        "before": _instance_text(workload, "before"),
        "after": _instance_text(workload, "after"),
        "startsNewFirst": workload.startsNewFirst,
        "waitsFor": list(workload.waitsFor),
        "fields": _field_forms(workload.fields),
    }


def _instance_text(workload: base.PlannedWorkload, field: str) -> str | None:
    if not workload.HasField(field):
        return None
    name: base.WorkloadInstanceName = getattr(workload, field)
    return f"{name.workloadName}.{name.id}.{name.agentName}"


def _field_forms(fields: Iterable[base.FieldChange]) -> list[dict[str, Any]]:
    return [
        {
            "path": field.path,
            "before": field.before if field.HasField("before") else None,
            "after": field.after if field.HasField("after") else None,
        }
        for field in fields
    ]
