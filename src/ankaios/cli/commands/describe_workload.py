"""`ank describe workload`: what was asked for, how it is doing and why, what it waits for, what it holds."""

from __future__ import annotations

from ankaios.cli.arguments import Call
from ankaios.cli.connection import Session, run_session
from ankaios.cli.description import Description
from ankaios.cli.device_rows import slots_used_by
from ankaios.cli.failures import told_as
from ankaios.cli.output import CliError
from ankaios.cli.workload_rows import info_text, instances_of, state_text, style_of
from ankaios.common.pb import ank_base_pb2 as base


def run(call: Call) -> int:
    name: str = call.values["name"]

    def action(session: Session) -> None:
        state = session.complete_state(f"desiredState.workloads.{name}", "workloadStates", "agents", "deviceInstances")
        if not is_known(name, state):
            _fail_on_unknown(session, name)
        call.output.line(described(name, state).text(call.output))

    with told_as("Failed to describe workload"):
        run_session(call, action)
    return 0


def is_known(name: str, state: base.CompleteState) -> bool:
    return name in state.desiredState.workloads.workloads or any(
        instance[0] == name for instance, _ in instances_of(state.workloadStates)
    )


def _fail_on_unknown(session: Session, name: str) -> None:
    from ankaios.cli.suggestions import did_you_mean

    state = session.complete_state("desiredState.workloads.*.agent")
    hint = did_you_mean("workload", name, state.desiredState.workloads.workloads)
    raise CliError(f"Workload name '{name}' does not exist.", hint)


def described(name: str, state: base.CompleteState) -> Description:
    workload = state.desiredState.workloads.workloads.get(name)
    description = Description()
    description.fact("Workload", name)
    if workload is None:
        description.fact("Note", "no longer wanted, not gone yet")
    else:
        _describe_wish(description, workload)
    _describe_instances(description, name, state)
    if workload is not None:
        _describe_dependencies(description, workload, state)
    held = slots_used_by(name, state.deviceInstances)
    description.table("Devices", ("DEVICE", "CONFIGURATION", "SLOT", "AGENT"), held)
    return description


def _describe_wish(description: Description, workload: base.Workload) -> None:
    description.fact("Agent", workload.agent)
    description.fact("Runtime", workload.runtime)
    description.fact("Restarts", base.RestartPolicy.Name(workload.restartPolicy))
    description.fact("Tags", ", ".join(f"{key}={value}" for key, value in sorted(workload.tags.tags.items())))
    wanted = [f"{request.quantity} x {request.name}" for request in workload.resources.resources]
    description.fact("Resources", ", ".join(wanted))


def _describe_instances(description: Description, name: str, state: base.CompleteState) -> None:
    for instance, execution_state in sorted(instances_of(state.workloadStates), key=lambda found: found[0]):
        if instance[0] == name:
            text = state_text(execution_state)
            description.fact("Instance", ".".join(instance))
            description.fact("State", text, style_of(text))
            description.fact("Reason", info_text(execution_state) or _absence(instance[2], state))


def _absence(agent: str, state: base.CompleteState) -> str:
    return f"agent '{agent}' is not connected" if agent and agent not in state.agents.agents else ""


def _describe_dependencies(description: Description, workload: base.Workload, state: base.CompleteState) -> None:
    states: dict[str, list[str]] = {}
    for instance, execution_state in instances_of(state.workloadStates):
        states.setdefault(instance[0], []).append(state_text(execution_state))
    rows = [
        (needed, base.AddCondition.Name(condition), ", ".join(sorted(states.get(needed, ["does not exist"]))))
        for needed, condition in sorted(workload.dependencies.dependencies.items())
    ]
    description.table("Dependencies", ("WORKLOAD", "NEEDED", "IS"), rows)
