"""The conditions that end the wait for workloads."""

from typing import Any

import pytest

from ankaios.cli.updates.wait_list import WaitList, parse_instance
from ankaios.cli.views.workload_rows import Instance, WorkloadRow
from ankaios.common.pb import ank_base_pb2 as base

A: Instance = ("a", "1", "n1")
TEXT = "a.1.n1"


def state(instance: Instance = A, **content: Any) -> base.WorkloadState:
    name, instance_id, agent = instance
    return base.WorkloadState(
        instanceName=base.WorkloadInstanceName(workloadName=name, agentName=agent, id=instance_id),
        executionState=base.ExecutionState(additionalInfo="", **content),
    )


def waiting(added: tuple[str, ...] = (), deleted: tuple[str, ...] = (), agents: tuple[str, ...] = ("n1",)) -> WaitList:
    return WaitList(added, deleted, {A: WorkloadRow(A, "podman", "Pending(Initial)", "")}, agents)


@pytest.mark.parametrize(
    "content",
    [
        {"running": 0},
        {"succeeded": 0},
        {"failed": 0},
        {"failed": 1},
        {"failed": 2},
        {"notScheduled": 0},
        {"pending": 8},
        {"agentDisconnected": 0},
    ],
)
def test_an_added_workload_is_done_when_it_has_settled(content: dict[str, int]) -> None:
    wait_list = waiting(added=(TEXT,))
    assert not wait_list.is_done
    wait_list.update([state(A, **content)])
    assert wait_list.is_done


@pytest.mark.parametrize("content", [{"pending": 0}, {"pending": 1}, {"pending": 2}, {"stopping": 0}, {"removed": 0}])
def test_an_added_workload_is_not_done_while_it_starts(content: dict[str, int]) -> None:
    wait_list = waiting(added=(TEXT,))
    wait_list.update([state(A, **content)])
    assert not wait_list.is_done


@pytest.mark.parametrize(
    ("content", "done"),
    [({"removed": 0}, True), ({"agentDisconnected": 0}, True), ({"running": 0}, False), ({"stopping": 8}, False)],
)
def test_a_deleted_workload_is_done_when_it_is_removed(content: dict[str, int], done: bool) -> None:
    wait_list = waiting(deleted=(TEXT,))
    wait_list.update([state(A, **content)])
    assert wait_list.is_done is done


def test_a_replaced_workload_must_be_removed_and_run_again() -> None:
    wait_list = waiting(added=(TEXT,), deleted=(TEXT,))
    wait_list.update([state(removed=0)])
    assert not wait_list.is_done
    wait_list.update([state(pending=2), state(running=0)])
    assert wait_list.is_done


def test_instances_of_an_agent_that_is_not_connected_are_done() -> None:
    assert waiting(added=(TEXT,), deleted=(TEXT,), agents=()).is_done


def test_states_of_other_workloads_change_nothing() -> None:
    wait_list = waiting(added=(TEXT,))
    wait_list.update([state(("a", "2", "n1"), running=0), state(("b", "1", "n1"), running=0)])
    assert not wait_list.is_done
    assert [row.state for row in wait_list.rows()] == ["Pending(Initial)"]


def test_the_spinner_turns_until_the_row_is_done() -> None:
    wait_list = waiting(added=(TEXT, "b.2.gone"))
    assert [wait_list.signs(step) for step in range(5)] == [["|", " "], ["/", " "], ["-", " "], ["\\", " "], ["|", " "]]
    wait_list.update([state(running=0)])
    assert wait_list.signs(0) == [" ", " "]
    assert [row.cells() for row in wait_list.rows()] == [
        ("a", "n1", "podman", "Running(Ok)", ""),
        ("b", "gone", "", "", ""),
    ]


def test_rows_are_in_order_of_the_names() -> None:
    rows = waiting(added=("c.1.n1", "b.1.n1", TEXT)).rows()
    assert [row.name for row in rows] == ["a", "b", "c"]


def test_instance_texts_may_end_with_an_empty_agent() -> None:
    assert parse_instance("a.1.") == ("a", "1", "")
    assert parse_instance("odd") == ("odd", "", "")
