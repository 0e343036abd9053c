"""`ank describe workload`: desired state, current state and its reason, dependencies, devices, and a timeline."""

from collections.abc import Sequence

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.hints import unknown_workload_hint
from ankaios.cli.terminal.description import Description
from ankaios.cli.terminal.output import CliError
from ankaios.cli.views.device_rows import slots_used_by
from ankaios.cli.views.record_rows import detail_text
from ankaios.cli.views.times import local_time
from ankaios.cli.views.workload_rows import (
    health_style,
    health_text,
    reason_text,
    state_style,
    state_text,
    workload_instances,
)
from ankaios.common.pb import ank_base_pb2 as base

_MOST_RECORDS = 15


def run(call: CommandCall) -> None:
    name: str = call.values["name"]
    with open_session(call, "Failed to describe workload") as session:
        state = session.complete_state(f"desiredState.workloads.{name}", "workloadStates", "agents", "deviceInstances")
        if not exists(name, state):
            raise CliError(f"Workload name '{name}' does not exist.", unknown_workload_hint(session, name))
        description = describe_workload(name, state)
        if session.accepts_additions:
            wanted = base.Request(recordsRequest=base.RecordsRequest(workloads=[name]))
            add_timeline(description, session.request_addition(wanted).recordsResponse.records)
        call.output.line(description.text(call.output))


def exists(name: str, state: base.CompleteState) -> bool:
    return name in state.desiredState.workloads.workloads or any(
        instance[0] == name for instance, _ in workload_instances(state.workloadStates)
    )


def describe_workload(name: str, state: base.CompleteState) -> Description:
    workload = state.desiredState.workloads.workloads.get(name)
    description = Description()
    description.fact("Workload", name)
    if workload is None:
        description.fact("Note", "not desired any more, not removed yet")
    else:
        _add_desired(description, workload)
    _add_instances(description, name, state)
    if workload is not None:
        _add_dependencies(description, workload, state)
    used = slots_used_by(name, state.deviceInstances)
    description.table("Devices", ("DEVICE", "CONFIGURATION", "SLOT", "AGENT"), used)
    return description


def add_timeline(description: Description, records: Sequence[base.WorkloadRecord]) -> None:
    rows = [(local_time(it.timeMs), state_text(it.executionState), detail_text(it)) for it in records[-_MOST_RECORDS:]]
    description.table("Timeline", ("TIME", "STATE", "DETAILS"), rows)


def _add_desired(description: Description, workload: base.Workload) -> None:
    description.fact("Agent", workload.agent)
    description.fact("Runtime", workload.runtime)
    description.fact("Restarts", base.RestartPolicy.Name(workload.restartPolicy))
    description.fact("Tags", ", ".join(f"{key}={value}" for key, value in sorted(workload.tags.tags.items())))
    resources = [f"{request.quantity} x {request.name}" for request in workload.resources.resources]
    description.fact("Resources", ", ".join(resources))


def _add_instances(description: Description, name: str, state: base.CompleteState) -> None:
    for instance, execution_state in sorted(workload_instances(state.workloadStates), key=lambda found: found[0]):
        if instance[0] == name:
            text = state_text(execution_state)
            description.fact("Instance", ".".join(instance))
            description.fact("State", text, state_style(text))
            health = health_text(execution_state)
            description.fact("Health", health, health_style(health))
            description.fact("Restarted", _times(execution_state.restarts))
            description.fact("Reason", reason_text(execution_state) or _missing_agent(instance[2], state))


def _times(number: int) -> str:
    return "" if not number else "once" if number == 1 else f"{number} times"


def _missing_agent(agent: str, state: base.CompleteState) -> str:
    return f"agent '{agent}' is not connected" if agent and agent not in state.agents.agents else ""


def _add_dependencies(description: Description, workload: base.Workload, state: base.CompleteState) -> None:
    states: dict[str, list[str]] = {}
    for instance, execution_state in workload_instances(state.workloadStates):
        health = health_text(execution_state)
        text = f"{state_text(execution_state)}, {health}" if health else state_text(execution_state)
        states.setdefault(instance[0], []).append(text)
    rows = [
        (needed, base.AddCondition.Name(condition), ", ".join(sorted(states.get(needed, ["does not exist"]))))
        for needed, condition in sorted(workload.dependencies.dependencies.items())
    ]
    description.table("Dependencies", ("WORKLOAD", "NEEDED", "IS"), rows)
