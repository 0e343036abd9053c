"""Rows of the workloads table from a complete state. Pure: protobuf messages come in, plain tuples go out.

Reads the messages directly: the conversions of `common` would load twice as much code as this command needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ankaios.common.pb import ank_base_pb2 as base

HEADER = ("WORKLOAD NAME", "AGENT", "RUNTIME", "EXECUTION STATE", "ADDITIONAL INFO")
STATE_COLUMN = 3
ROW_FIELDS = ("agent", "runtime", "placement")
"""What a row needs to know of the desired workload."""
MADE_BY_SERVER = "effectiveState.workloads.*.runtime"
"""The mask for workloads that are not desired: brokers of devices."""

Instance = tuple[str, str, str]
"""Workload, id, agent: the order of the text `<workload>.<id>.<agent>`, which is also the order of watched rows."""


class Row:
    """One instance of a workload as the table shows it."""

    __slots__ = ("info", "instance", "runtime", "state")

    def __init__(self, instance: Instance, runtime: str, state: str, info: str) -> None:
        self.instance = instance
        self.runtime = runtime
        self.state = state
        self.info = info

    @property
    def name(self) -> str:
        return self.instance[0]

    @property
    def agent(self) -> str:
        return self.instance[2]

    def cells(self) -> tuple[str, ...]:
        return (self.name, self.agent, self.runtime, self.state, self.info)

    def with_state(self, message: base.ExecutionState) -> Row:
        return Row(self.instance, self.runtime, state_text(message), info_text(message))


def rows_of(state: base.CompleteState) -> dict[Instance, Row]:
    """All instances that have a state.

    The runtime stands in the desired state, where the agent may still be a template: it is known only if both name and
    agent are the same, or if the server chose the agent. Brokers of devices stand only in the effective state.
    """
    desired, effective = state.desiredState.workloads.workloads, state.effectiveState.workloads.workloads
    rows: dict[Instance, Row] = {}
    for instance, execution_state in instances_of(state.workloadStates):
        name, _, agent = instance
        runtime = ""
        if name in desired and (desired[name].agent == agent or desired[name].HasField("placement")):
            runtime = desired[name].runtime
        elif name in effective and name not in desired:
            runtime = effective[name].runtime
        rows[instance] = Row(instance, runtime, state_text(execution_state), info_text(execution_state))
    return rows


def instances_of(states: base.WorkloadStatesMap) -> Iterator[tuple[Instance, base.ExecutionState]]:
    for agent, workloads in states.agentStateMap.items():
        for name, ids in workloads.wlNameStateMap.items():
            for instance_id, execution_state in ids.idStateMap.items():
                yield (name, instance_id, agent), execution_state


def instance_of(name: base.WorkloadInstanceName) -> Instance:
    return name.workloadName, name.id, name.agentName


def state_text(message: base.ExecutionState) -> str:
    """`Running(Ok)`; without parentheses where the only substate says the same as the state.

    The words are those of the protobuf names: PENDING_WAITING_TO_START of Pending is `Pending(WaitingToStart)`.
    """
    field = message.WhichOneof("ExecutionStateEnum")
    if field is None:
        return "Unknown"
    kind: Any = base.ExecutionState.DESCRIPTOR.fields_by_name[field].enum_type
    value = kind.values_by_number.get(getattr(message, field))
    if value is None:
        return f"{kind.name}(Unknown)"
    if len(kind.values) == 1 and _camel(value.name) == kind.name:
        return str(kind.name)
    prefix = f"{kind.name.upper()}_"
    return f"{kind.name}({_camel(value.name.removeprefix(prefix))})"


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def info_text(message: base.ExecutionState) -> str:
    return message.additionalInfo.strip().replace("\n", ", ")


class Filter:
    """What `get workloads` was asked to show: all given conditions must hold, of the names any."""

    def __init__(self, names: Collection[str] = (), agent: str | None = None, state: str | None = None) -> None:
        self.names = frozenset(names)
        self.agent = agent
        self.state = state.lower() if state is not None else None

    def matches(self, row: Row) -> bool:
        return (
            (not self.names or row.name in self.names)
            and (self.agent is None or row.agent == self.agent)
            and (self.state is None or row.state.lower() == self.state)
        )


def style_of(state: str) -> str:
    """How a state is coloured on a terminal: fine, under way, or in need of a look."""
    if state.startswith(("Running", "Succeeded")):
        return "good"
    if state.startswith(("Failed", "AgentDisconnected", "Pending(StartingFailed", "Stopping(DeleteFailed")):
        return "bad"
    if state.startswith(("Pending", "Stopping")):
        return "busy"
    return "dim"
