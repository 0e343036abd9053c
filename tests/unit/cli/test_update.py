"""The masks of the requests around an update, and the rows of the wait table."""

from ankaios.cli.updates.update import agent_masks, changed_rows, row_masks
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base

RUNNING = {"state": "Running", "subState": "Ok", "additionalInfo": ""}
PENDING = {"state": "Pending", "subState": "Initial", "additionalInfo": ""}


def a_state(**states: dict[str, str]) -> base.CompleteState:
    workloads = {name: {"agent": "n1", "runtime": "podman"} for name in states}
    return COMPLETE_STATE.from_form(
        {
            "desiredState": {"apiVersion": "v1", "workloads": workloads},
            "workloadStates": {"n1": {name: {"1": state} for name, state in states.items()}},
        }
    )


def test_few_workloads_are_requested_by_name() -> None:
    assert row_masks(["b", "a"]) == [
        "workloadStates.*.a",
        "desiredState.workloads.a.agent",
        "desiredState.workloads.a.runtime",
        "desiredState.workloads.a.placement",
        "workloadStates.*.b",
        "desiredState.workloads.b.agent",
        "desiredState.workloads.b.runtime",
        "desiredState.workloads.b.placement",
    ]


def test_many_or_unknown_workloads_are_requested_together_but_never_the_whole_state() -> None:
    everything = [
        "workloadStates",
        "desiredState.workloads.*.agent",
        "desiredState.workloads.*.runtime",
        "desiredState.workloads.*.placement",
    ]
    assert row_masks(None) == everything
    assert row_masks([str(number) for number in range(100)]) == everything
    assert row_masks([]) == ["workloadStates"]


def test_only_the_agents_of_the_changed_instances_are_requested() -> None:
    assert agent_masks([("a", "1", "n2"), ("b", "1", "n1"), ("c", "1", "")]) == ["agents.n1", "agents.n2"]
    assert agent_masks([("a", "1", str(number)) for number in range(100)]) == ["agents"]


def test_the_newest_row_of_each_changed_instance_counts() -> None:
    gone, kept, new = ("gone", "1", "n1"), ("kept", "1", "n1"), ("new", "9", "n1")
    after = a_state(kept=PENDING, new=PENDING)
    rows = changed_rows([gone, kept, new], a_state(gone=RUNNING, kept=RUNNING, other=RUNNING), after)
    assert {instance: (row.runtime, row.state) for instance, row in rows.items()} == {
        gone: ("podman", "Running(Ok)"),
        kept: ("podman", "Pending(Initial)"),
        new: ("podman", ""),
    }


def test_an_instance_without_agent_and_state_is_not_scheduled() -> None:
    rows = changed_rows([("x", "1", "")], base.CompleteState(), base.CompleteState())
    assert rows["x", "1", ""].state == "NotScheduled"
