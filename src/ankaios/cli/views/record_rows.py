"""Records of workloads as rows and as JSON. Pure: messages in, texts out."""

from collections.abc import Iterable
from typing import Any

from ankaios.cli.views.times import local_time, utc_time
from ankaios.cli.views.workload_rows import info_text, state_text
from ankaios.common.pb import ank_base_pb2 as base

HEADER = ("TIME", "WORKLOAD", "AGENT", "STATE", "DETAILS")


def record_rows(records: Iterable[base.WorkloadRecord]) -> list[tuple[str, ...]]:
    return [
        (
            local_time(record.timeMs),
            record.instanceName.workloadName,
            record.instanceName.agentName,
            state_text(record.executionState),
            detail_text(record),
        )
        for record in records
    ]


def detail_text(record: base.WorkloadRecord) -> str:
    parts = [info_text(record.executionState)]
    if record.outOfMemory:
        parts.append("out of memory")
    if record.output:
        parts.append(f"last output: {record.output[-1]}")
    return "; ".join(part for part in parts if part)


def record_as_json(record: base.WorkloadRecord) -> str:
    """One line."""
    import json  # costs milliseconds that `ank describe` does not need

    name, state = record.instanceName, record.executionState
    form: dict[str, Any] = {
        "time": utc_time(record.timeMs),
        "workload": name.workloadName,
        "agent": name.agentName,
        "id": name.id,
        "state": state_text(state),
        "additionalInfo": state.additionalInfo,
        "source": record.source,
    }
    if record.HasField("exitCode"):
        form["exitCode"] = record.exitCode
    if record.output:
        form["output"] = list(record.output)
    if record.outOfMemory:
        form["outOfMemory"] = True
    if record.nextAttemptMs:
        form["nextAttempt"] = utc_time(record.nextAttemptMs)
    return json.dumps(form, ensure_ascii=False)
