"""Rows of the workloads table. Input: protobuf messages of the complete state. Output: rows and lines of the table.

The messages are read directly, because the conversions of `common` import twice as much code as `ank get workloads`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.terminal.table import CUT_LAST, WRAP, styled_table
from ankaios.cli.views.usage_texts import usage_cells
from ankaios.common.health_words import remove_health_words
from ankaios.common.pb import ank_base_pb2 as base

HEADER = ("WORKLOAD NAME", "AGENT", "RUNTIME", "EXECUTION STATE", "ADDITIONAL INFO")
STATE_COLUMN = 3
HEALTH_HEADER = "HEALTH"
ROW_FIELDS = ("agent", "runtime", "placement")
"""The fields of a desired workload that a row needs."""
ROW_MASKS = (
    "workloadStates",
    *(f"desiredState.workloads.*.{field}" for field in ROW_FIELDS),
    "effectiveState.workloads.*.runtime",  # brokers of devices are not part of the desired state
)

Instance = tuple[str, str, str]
"""Workload name, id, agent name: the order of `<workload>.<id>.<agent>`, by which rows are sorted."""


class WorkloadRow(NamedTuple):
    """One instance of a workload in the table. `health` is empty without health checks.

    `info` is the additional information, which includes the health; `reason` is the same without it.
    """

    instance: Instance
    runtime: str
    state: str
    info: str
    health: str = ""
    reason: str = ""
    restarts: int = 0

    @property
    def name(self) -> str:
        return self.instance[0]

    @property
    def agent(self) -> str:
        return self.instance[2]

    def cells(self) -> tuple[str, ...]:
        return (self.name, self.agent, self.runtime, self.state, self.info)

    def with_state(self, message: base.ExecutionState) -> "WorkloadRow":
        texts = state_text(message), info_text(message), health_text(message), reason_text(message)
        return WorkloadRow(self.instance, self.runtime, *texts, message.restarts)


class WorkloadFilter(NamedTuple):
    """The filters of `get workloads`: a row must match all of them, and one of the names."""

    names: Collection[str] = ()
    agent: str | None = None
    state: str | None = None

    def matches(self, row: WorkloadRow) -> bool:
        return (
            (not self.names or row.name in self.names)
            and (self.agent is None or row.agent == self.agent)
            and (self.state is None or row.state.lower() == self.state.lower())
        )


def workload_table(output: CliOutput, shown: Iterable[WorkloadRow]) -> list[str]:
    """The lines of `get workloads`, sorted by instance. It has a column for the health if a workload has any."""
    rows = sorted(shown, key=lambda row: row.instance)
    if not any(row.health for row in rows):
        return _table(output, HEADER, rows, [row.cells() for row in rows], WRAP)
    header = (*HEADER[: STATE_COLUMN + 1], HEALTH_HEADER, HEADER[-1])
    cells = [(*row.cells()[: STATE_COLUMN + 1], row.health, row.reason) for row in rows]
    return _table(output, header, rows, cells, WRAP)


def wide_table(
    output: CliOutput, shown: Iterable[WorkloadRow], usage: Mapping[Instance, base.ResourceUsage]
) -> list[str]:
    """The lines of `get workloads -o wide`; an instance without known usage has `-`."""
    rows = sorted(shown, key=lambda row: row.instance)
    header = (*HEADER[:-1], "CPU", "MEMORY", "UPTIME", HEADER[-1])
    cells = [(*row.cells()[:-1], *usage_cells(usage.get(row.instance)), row.info) for row in rows]
    return _table(output, header, rows, cells, WRAP)


def wait_table(output: CliOutput, rows: Sequence[WorkloadRow], signs: Sequence[str]) -> list[str]:
    """The lines of the wait table; each state has a sign before it."""
    header = (*HEADER[:STATE_COLUMN], f"  {HEADER[STATE_COLUMN]}", *HEADER[STATE_COLUMN + 1 :])
    cells = [
        (row.name, row.agent, row.runtime, f"{sign} {row.state}", row.info)
        for row, sign in zip(rows, signs, strict=True)
    ]
    return _table(output, header, rows, cells, CUT_LAST)


def _table(
    output: CliOutput,
    header: Sequence[str],
    rows: Sequence[WorkloadRow],
    cells: Sequence[Sequence[str]],
    overflow: str,
) -> list[str]:
    def style(row: int, column: int) -> str:
        if header[column] == HEALTH_HEADER:
            return health_style(rows[row].health)
        return state_style(rows[row].state) if column == STATE_COLUMN else ""

    return styled_table(output, header, cells, overflow, style)


def workload_rows(state: base.CompleteState) -> dict[Instance, WorkloadRow]:
    """The rows of all instances that have a state.

    The runtime is part of the desired state, where the agent may still be a template: it is shown only if name and
    agent are the same, or if the server selected the agent. Brokers of devices are only part of the effective state.
    """
    desired, effective = state.desiredState.workloads.workloads, state.effectiveState.workloads.workloads
    rows: dict[Instance, WorkloadRow] = {}
    for instance, execution_state in workload_instances(state.workloadStates):
        name, _, agent = instance
        runtime = ""
        if name in desired and (desired[name].agent == agent or desired[name].HasField("placement")):
            runtime = desired[name].runtime
        elif name in effective and name not in desired:
            runtime = effective[name].runtime
        rows[instance] = WorkloadRow(instance, runtime, "", "").with_state(execution_state)
    return rows


def workload_instances(states: base.WorkloadStatesMap) -> Iterator[tuple[Instance, base.ExecutionState]]:
    for agent, workloads in states.agentStateMap.items():
        for name, ids in workloads.wlNameStateMap.items():
            for instance_id, execution_state in ids.idStateMap.items():
                yield (name, instance_id, agent), execution_state


def instance_of(name: base.WorkloadInstanceName) -> Instance:
    return name.workloadName, name.id, name.agentName


def usage_by_instance(workloads: Iterable[base.WorkloadUsage]) -> dict[Instance, base.ResourceUsage]:
    return {instance_of(entry.instanceName): entry.usage for entry in workloads}


def instance_name(instance: Instance) -> base.WorkloadInstanceName:
    name, instance_id, agent = instance
    return base.WorkloadInstanceName(workloadName=name, agentName=agent, id=instance_id)


def state_text(message: base.ExecutionState) -> str:
    """`Running(Ok)`, or only the state if its single substate has the same name.

    The words are derived from the protobuf names: PENDING_WAITING_TO_START of Pending is `Pending(WaitingToStart)`.
    """
    field = message.WhichOneof("ExecutionStateEnum")
    if field is None:
        return "Unknown"
    kind: Any = base.ExecutionState.DESCRIPTOR.fields_by_name[field].enum_type
    value = kind.values_by_number.get(getattr(message, field))
    return state_words(kind, value.name) if value is not None else f"{kind.name}(Unknown)"


def state_words(kind: Any, value_name: str) -> str:
    if len(kind.values) == 1 and _camel(value_name) == kind.name:
        return str(kind.name)
    prefix = f"{kind.name.upper()}_"
    return f"{kind.name}({_camel(value_name.removeprefix(prefix))})"


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def info_text(message: base.ExecutionState) -> str:
    return _one_line(message.additionalInfo)


def reason_text(message: base.ExecutionState) -> str:
    """The additional information without the health, for places that show the health as well."""
    return _one_line(remove_health_words(message.additionalInfo, health_text(message), message.health.text))


def _one_line(text: str) -> str:
    return text.strip().replace("\n", ", ")


def health_text(message: base.ExecutionState) -> str:
    """`Healthy`, `Unhealthy` or `Starting`; empty without health checks."""
    if not message.HasField("health"):
        return ""
    value = base.HealthStatus.DESCRIPTOR.values_by_number.get(message.health.status)
    return _camel(value.name.removeprefix("HEALTH_")) if value is not None else "Unknown"


def health_style(health: str) -> str:
    return {"Healthy": "good", "Unhealthy": "bad", "Starting": "busy"}.get(health, "")


def state_style(state: str) -> str:
    """The style of a state on a terminal: good, busy, or bad."""
    if state.startswith(("Running", "Succeeded")):
        return "good"
    if state.startswith(("Failed", "AgentDisconnected", "Pending(StartingFailed", "Stopping(DeleteFailed")):
        return "bad"
    if state.startswith(("Pending", "Stopping")):
        return "busy"
    return "dim"
