import pytest

from ankaios.common import execution_state
from ankaios.common.execution_state import (
    AGENT_DISCONNECTED,
    FAILED_EXEC_FAILED,
    FAILED_LOST,
    FAILED_UNKNOWN,
    PENDING_INITIAL,
    REMOVED,
    RUNNING_OK,
    STOPPING,
    STOPPING_DELETE_FAILED,
    STOPPING_REQUESTED_AT_RUNTIME,
    STOPPING_WAITING_TO_STOP,
    SUCCEEDED_OK,
    ExecutionState,
    exited,
    transition,
)

ALL = [value for value in vars(execution_state).values() if isinstance(value, ExecutionState)]


def test_every_state_of_ankaios_exists_with_its_text() -> None:
    """[utest->swdd~common-workload-states-supported-states~1]"""
    assert {str(state) for state in ALL} == {
        "AgentDisconnected",
        "Pending(Initial)",
        "Pending(WaitingToStart)",
        "Pending(Starting)",
        "Pending(StartingFailed)",
        "Running(Ok)",
        "Stopping(Stopping)",
        "Stopping(WaitingToStop)",
        "Stopping(RequestedAtRuntime)",
        "Stopping(DeleteFailed)",
        "Succeeded(Ok)",
        "Failed(ExecFailed)",
        "Failed(Unknown)",
        "Failed(Lost)",
        "NotScheduled",
        "Removed",
    }


def test_additional_information_does_not_change_the_kind_of_a_state() -> None:
    """[utest->swdd~common-workload-state-additional-information~1]"""
    state = FAILED_LOST.because("the container is gone")
    assert state.additional_info == "the container is gone"
    assert FAILED_LOST.additional_info == ""
    assert state.is_same(FAILED_LOST)
    assert not state.is_same(FAILED_UNKNOWN)
    assert str(state) == "Failed(Lost)"


@pytest.mark.parametrize("held", [STOPPING_REQUESTED_AT_RUNTIME, STOPPING_WAITING_TO_STOP])
@pytest.mark.parametrize("reported", [RUNNING_OK, SUCCEEDED_OK, FAILED_EXEC_FAILED, FAILED_LOST, FAILED_UNKNOWN])
def test_a_stopping_workload_does_not_become_running_again(held: ExecutionState, reported: ExecutionState) -> None:
    """[utest->swdd~common-workload-state-transitions~1]"""
    assert transition(held, reported) == held


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (STOPPING_REQUESTED_AT_RUNTIME, REMOVED),
        (STOPPING_REQUESTED_AT_RUNTIME, STOPPING_DELETE_FAILED),
        (STOPPING_WAITING_TO_STOP, STOPPING_REQUESTED_AT_RUNTIME),
        (STOPPING_WAITING_TO_STOP, AGENT_DISCONNECTED),
        (STOPPING, RUNNING_OK),
        (STOPPING_DELETE_FAILED, RUNNING_OK),
        (PENDING_INITIAL, RUNNING_OK),
        (RUNNING_OK, SUCCEEDED_OK),
    ],
)
def test_all_other_transitions_are_accepted(old: ExecutionState, new: ExecutionState) -> None:
    """[utest->swdd~common-workload-state-transitions~1]"""
    assert transition(old, new) == new


def test_an_exit_code_determines_whether_a_workload_succeeded() -> None:
    assert exited(0) == SUCCEEDED_OK
    assert exited(137) == FAILED_EXEC_FAILED.because("Exit code: '137'")
