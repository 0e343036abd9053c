"""Rows of the workloads table."""

import pytest

from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.views.workload_rows import (
    WorkloadFilter,
    WorkloadRow,
    health_text,
    info_text,
    instance_name,
    instance_of,
    state_style,
    state_text,
    workload_rows,
    workload_table,
)
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base

TEXTS = {
    ("agentDisconnected", 0): "AgentDisconnected",
    ("pending", 0): "Pending(Initial)",
    ("pending", 1): "Pending(WaitingToStart)",
    ("pending", 2): "Pending(Starting)",
    ("pending", 8): "Pending(StartingFailed)",
    ("running", 0): "Running(Ok)",
    ("stopping", 0): "Stopping(Stopping)",
    ("stopping", 1): "Stopping(WaitingToStop)",
    ("stopping", 2): "Stopping(RequestedAtRuntime)",
    ("stopping", 8): "Stopping(DeleteFailed)",
    ("succeeded", 0): "Succeeded(Ok)",
    ("failed", 0): "Failed(ExecFailed)",
    ("failed", 1): "Failed(Unknown)",
    ("failed", 2): "Failed(Lost)",
    ("notScheduled", 0): "NotScheduled",
    ("removed", 0): "Removed",
}


def execution_state(field: str, number: int, info: str = "") -> base.ExecutionState:
    message = base.ExecutionState(additionalInfo=info)
    setattr(message, field, number)
    return message


@pytest.mark.parametrize(("field", "number"), TEXTS)
def test_every_state_has_its_text(field: str, number: int) -> None:
    assert state_text(execution_state(field, number)) == TEXTS[field, number]


def test_states_of_newer_servers_are_shown_as_unknown() -> None:
    assert state_text(base.ExecutionState()) == "Unknown"
    assert state_text(execution_state("failed", 77)) == "Failed(Unknown)"


def test_additional_info_is_trimmed_and_becomes_one_line() -> None:
    assert info_text(execution_state("failed", 0, " a\nb \n")) == "a, b"


def a_state() -> base.CompleteState:
    running = {"state": "Running", "subState": "Ok", "additionalInfo": ""}
    return COMPLETE_STATE.from_form(
        {
            "desiredState": {
                "apiVersion": "v1",
                "workloads": {"a": {"agent": "n1", "runtime": "podman"}, "b": {"agent": "{{n}}", "runtime": "podman"}},
            },
            "workloadStates": {"n1": {"a": {"1": running}, "b": {"2": running}}, "": {"c": {"3": running}}},
        }
    )


def test_the_runtime_is_known_if_name_and_agent_are_those_of_the_desired_state() -> None:
    rows = workload_rows(a_state())
    assert {instance: row.cells() for instance, row in rows.items()} == {
        ("a", "1", "n1"): ("a", "n1", "podman", "Running(Ok)", ""),
        ("b", "2", "n1"): ("b", "n1", "", "Running(Ok)", ""),
        ("c", "3", ""): ("c", "", "", "Running(Ok)", ""),
    }


def test_the_runtime_of_a_broker_comes_from_the_effective_state() -> None:
    """The desired state takes precedence: the workload may be moving from one agent to another."""
    state = a_state()
    workloads = {name: {"agent": "n1", "runtime": "native"} for name in ("a", "b", "c")}
    effective = COMPLETE_STATE.from_form({"effectiveState": {"apiVersion": "v1", "workloads": workloads}})
    state.MergeFrom(effective)
    assert {row.name: row.runtime for row in workload_rows(state).values()} == {"a": "podman", "b": "", "c": "native"}


def test_a_row_takes_a_new_state() -> None:
    row = WorkloadRow(("a", "1", "n"), "podman", "x", "y").with_state(execution_state("failed", 2, "why"))
    assert row.cells() == ("a", "n", "podman", "Failed(Lost)", "why")


@pytest.mark.parametrize(
    ("wanted", "matching"),
    [
        (WorkloadFilter(), {"a", "b", "c"}),
        (WorkloadFilter(["a", "x"]), {"a"}),
        (WorkloadFilter(agent="n1"), {"a", "b"}),
        (WorkloadFilter(agent=""), {"c"}),
        (WorkloadFilter(state="rUNNING(oK)"), {"a", "b", "c"}),
        (WorkloadFilter(state="Running"), set()),
        (WorkloadFilter(["a", "c"], agent="n1"), {"a"}),
    ],
)
def test_filters_must_all_hold(wanted: WorkloadFilter, matching: set[str]) -> None:
    assert {row.name for row in workload_rows(a_state()).values() if wanted.matches(row)} == matching


def test_instances_have_the_order_of_their_text() -> None:
    name = base.WorkloadInstanceName(workloadName="w", agentName="a", id="i")
    assert instance_of(name) == ("w", "i", "a")
    assert instance_name(("w", "i", "a")) == name


def test_the_style_depends_on_the_state() -> None:
    states = ("Running(Ok)", "Failed(Lost)", "Pending(Initial)", "Pending(StartingFailed)", "Removed")
    assert [state_style(state) for state in states] == ["good", "bad", "busy", "bad", "dim"]


def test_the_runtime_of_a_workload_placed_by_the_server_is_known() -> None:
    state = base.CompleteState()
    desired = state.desiredState.workloads.workloads["cam"]
    desired.agent, desired.runtime = "", "native"
    desired.placement.SetInParent()
    state.workloadStates.agentStateMap["n2"].wlNameStateMap["cam"].idStateMap["1"].running = base.RUNNING_OK
    assert [row.cells()[:3] for row in workload_rows(state).values()] == [("cam", "n2", "native")]


def test_health_has_a_column_if_a_workload_has_health_checks() -> None:
    output = CliOutput()
    plain = WorkloadRow(("a", "1", "n"), "podman", "Running(Ok)", "")
    assert "HEALTH" not in workload_table(output, [plain])[0]
    checked = execution_state("running", 0, "unhealthy: x")
    checked.health.status = base.HEALTH_UNHEALTHY
    checked.health.text = "x"
    lines = workload_table(output, [plain, plain._replace(instance=("b", "1", "n")).with_state(checked)])
    assert lines[0].split()[-3:] == ["HEALTH", "ADDITIONAL", "INFO"]
    assert lines[2].split() == ["b", "n", "podman", "Running(Ok)", "Unhealthy", "x"]


def test_a_health_of_newer_servers_is_shown_as_unknown() -> None:
    message = execution_state("running", 0)
    assert health_text(message) == ""
    message.health.status = 77  # type: ignore[assignment]
    assert health_text(message) == "Unknown"
