"""The form of events."""

import pytest

from ankaios.cli.commands.get_events import event_text, timestamp
from ankaios.cli.commands.get_workloads import updated
from ankaios.cli.connection import CommandFailed
from ankaios.cli.failures import execution_error
from ankaios.cli.workload_rows import Instance, Row
from ankaios.common.pb import ank_base_pb2 as base

SECOND = 1_772_352_930


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (123456789, "2026-03-01T08:15:30.123456789+00:00"),
        (123456000, "2026-03-01T08:15:30.123456+00:00"),
        (120000000, "2026-03-01T08:15:30.120+00:00"),
        (0, "2026-03-01T08:15:30+00:00"),
    ],
)
def test_time_stamps_have_as_many_groups_of_digits_as_needed(nanoseconds: int, text: str) -> None:
    assert timestamp((SECOND) * 10**9 + nanoseconds) == text


def test_empty_lists_are_left_out_and_the_order_is_fixed() -> None:
    event = base.CompleteStateResponse(
        completeState=base.CompleteState(),
        alteredFields=base.AlteredFields(removedFields=["r"], updatedFields=["u"]),
    )
    assert (
        event_text(event, "T", "yaml")
        == "---\ntimestamp: T\nupdatedFields:\n- u\nremovedFields:\n- r\ncompleteState: {}\n"
    )
    assert event_text(event, "T", "json") == (
        '{"timestamp":"T","updatedFields":["u"],"removedFields":["r"],"completeState":{}}\n'
    )


def test_watched_rows_follow_the_states() -> None:
    instance: Instance = ("a", "1", "n")
    rows = {instance: Row(instance, "podman", "Pending(Initial)", "")}

    def state(**content: int) -> base.WorkloadState:
        name = base.WorkloadInstanceName(workloadName="a", agentName="n", id="1")
        return base.WorkloadState(instanceName=name, executionState=base.ExecutionState(additionalInfo="", **content))  # type: ignore[arg-type]

    assert updated(rows, state(running=0)) and rows[instance].state == "Running(Ok)"
    assert updated(rows, state(removed=0)) and not rows
    assert updated(rows, state(removed=0))
    assert not updated(rows, state(running=0))


def test_reasons_for_developers_are_escaped() -> None:
    assert execution_error(CommandFailed('a "b"\n\\')) == r'ExecutionError("a \"b\"\n\\")'
