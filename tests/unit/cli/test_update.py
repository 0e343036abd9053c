"""What is asked for around an update, the rows of the wait table, and how often it is drawn."""

import io
from typing import Any, cast

from ankaios.cli.connection import Session
from ankaios.cli.output import Output
from ankaios.cli.screen import MANY_ROWS
from ankaios.cli.update import _wait, agent_masks, changed_rows, row_masks
from ankaios.cli.wait_list import WaitList
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_form import complete_state_from_form

RUNNING = {"state": "Running", "subState": "Ok", "additionalInfo": ""}
PENDING = {"state": "Pending", "subState": "Initial", "additionalInfo": ""}


def a_state(**states: dict[str, str]) -> base.CompleteState:
    workloads = {name: {"agent": "n1", "runtime": "podman"} for name in states}
    return complete_state_from_form(
        {
            "desiredState": {"apiVersion": "v1", "workloads": workloads},
            "workloadStates": {"n1": {name: {"1": state} for name, state in states.items()}},
        }
    )


def test_few_workloads_are_asked_for_by_name() -> None:
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


def test_many_or_unforeseeable_workloads_are_asked_for_at_once_but_never_the_whole_state() -> None:
    everything = [
        "workloadStates",
        "desiredState.workloads.*.agent",
        "desiredState.workloads.*.runtime",
        "desiredState.workloads.*.placement",
    ]
    assert row_masks(None) == everything
    assert row_masks([str(number) for number in range(100)]) == everything
    assert row_masks([]) == ["workloadStates"]


def test_only_agents_that_matter_are_asked_for() -> None:
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


def test_an_instance_without_agent_is_not_scheduled_even_if_no_state_says_so() -> None:
    rows = changed_rows([("x", "1", "")], base.CompleteState(), base.CompleteState())
    assert rows["x", "1", ""].state == "NotScheduled"


class FakeSession:
    """Gives one state after the other, as fast as it is asked."""

    def __init__(self, names: list[str], early: list[str] | None = None) -> None:
        self._states = [running(name) for name in names]
        self._early = [running(name) for name in early or []]

    def kept_states(self) -> list[base.WorkloadState]:
        return self._early

    async def next_states(self, limit: float) -> list[base.WorkloadState]:
        return [self._states.pop(0)]


def running(name: str) -> base.WorkloadState:
    instance = base.WorkloadInstanceName(workloadName=name, agentName="n1", id="1")
    return base.WorkloadState(instanceName=instance, executionState=base.ExecutionState(running=base.RUNNING_OK))


async def tables(names: list[str], **early: Any) -> list[str]:
    output = Output(stdout := io.StringIO(), io.StringIO(), {})
    wait_list = WaitList([f"{name}.1.n1" for name in names], [], {}, ["n1"])
    waited_for = [name for name in names if name not in early.get("early", [])]
    await _wait(output, cast(Session, FakeSession(waited_for, **early)), wait_list)
    return stdout.getvalue().split("\n\n")[:-1]


async def test_the_table_is_drawn_first_and_after_every_message() -> None:
    drawn = await tables(["a", "b"])
    assert [table.count("Running(Ok)") for table in drawn] == [0, 1, 2]


async def test_what_came_early_is_drawn_after_the_first_table() -> None:
    assert [table.count("Running(Ok)") for table in await tables(["a"], early=["a"])] == [0, 1]


async def test_a_large_table_is_drawn_at_the_steps_of_the_spinner_and_at_the_end() -> None:
    names = [f"w{number}" for number in range(MANY_ROWS + 1)]
    drawn = await tables(names)
    assert len(drawn) < MANY_ROWS
    assert drawn[-1].count("Running(Ok)") == MANY_ROWS + 1
