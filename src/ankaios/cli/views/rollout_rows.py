"""Rollouts as rows, lines and JSON. Pure: messages in, texts out."""

from collections.abc import Iterable, Iterator
from typing import Any

from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.terminal.table import one_line
from ankaios.cli.views.times import span_text, utc_time
from ankaios.cli.views.workload_rows import info_text, state_style, state_text
from ankaios.common.pb import ank_base_pb2 as base

HEADER = ("ROLLOUT", "PHASE", "READY", "AGE", "REASON")
_PHASES = {
    base.ROLLOUT_WAITING: ("waiting", "busy"),
    base.ROLLOUT_SETTLING: ("settling", "busy"),
    base.ROLLOUT_RESTORING: ("restoring", "bad"),
    base.ROLLOUT_COMPLETED: ("completed", "good"),
    base.ROLLOUT_RESTORED: ("restored", "bad"),
    base.ROLLOUT_RESTORE_INCOMPLETE: ("restore incomplete", "bad"),
}


def is_running(rollout: base.RolloutInfo) -> bool:
    return rollout.phase in (base.ROLLOUT_WAITING, base.ROLLOUT_SETTLING, base.ROLLOUT_RESTORING)


def phase_text(rollout: base.RolloutInfo) -> str:
    return _PHASES.get(rollout.phase, ("unknown", "dim"))[0]


def rollout_rows(rollouts: Iterable[base.RolloutInfo], now_ms: int) -> list[tuple[str, ...]]:
    return [
        (rollout.name, phase_text(rollout), _ready(rollout), span_text(now_ms - rollout.startedMs), rollout.reason)
        for rollout in rollouts
    ]


def _ready(rollout: base.RolloutInfo) -> str:
    return f"{sum(workload.isReady for workload in rollout.workloads)}/{len(rollout.workloads)}"


def rollout_lines(output: CliOutput, rollout: base.RolloutInfo, now_ms: int) -> Iterator[str]:
    phase, style = _PHASES.get(rollout.phase, ("unknown", "dim"))
    left = rollout.deadlineMs - now_ms
    limit = f", time limit in {span_text(left)}" if phase in ("waiting", "restoring") and left > 0 else ""
    yield f"{rollout.name}: {output.paint(phase, style)}{limit}"
    for workload in rollout.workloads:
        name, state = workload.instanceName, state_text(workload.executionState) or "Removed"
        info = info_text(workload.executionState)
        sign = output.paint("ok", "good") if workload.isReady else output.paint("..", "busy")
        shown = output.paint(state, state_style(state))
        where = f" ({name.agentName})" if name.agentName else ""
        yield f"  {sign} {name.workloadName}{where} {shown}{f': {one_line(info)}' if info else ''}"
    if rollout.reason:
        yield f"  reason: {one_line(rollout.reason)}"


def rollout_form(rollout: base.RolloutInfo) -> dict[str, Any]:
    return {
        "name": rollout.name,
        "phase": phase_text(rollout),
        "requester": rollout.requester,
        "started": utc_time(rollout.startedMs),
        "deadline": utc_time(rollout.deadlineMs),
        "settleMs": rollout.settleMs,
        "reason": rollout.reason,
        "workloads": [
            {
                "workload": it.instanceName.workloadName,
                "agent": it.instanceName.agentName,
                "state": state_text(it.executionState),
                "additionalInfo": info_text(it.executionState),
                "isReady": it.isReady,
            }
            for it in rollout.workloads
        ],
    }
