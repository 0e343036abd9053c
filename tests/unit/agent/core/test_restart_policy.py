"""Unit tests of the restart policy."""

import pytest

from ankaios.agent.core.restart_policy import (
    RestartHistory,
    is_finished,
    needs_restart,
    plan_restart,
    restart_delay_after,
    with_restart,
)
from ankaios.common.execution_state import (
    ENDED_WITHOUT_CODE,
    FAILED_EXEC_FAILED,
    FAILED_LOST,
    FAILED_UNKNOWN,
    PENDING_STARTING,
    RUNNING_OK,
    STOPPING,
    SUCCEEDED_OK,
    ExecutionState,
    exited,
)
from ankaios.common.workload import RestartPolicy

NEVER, ON_FAILURE, ALWAYS = RestartPolicy.NEVER, RestartPolicy.ON_FAILURE, RestartPolicy.ALWAYS


@pytest.mark.parametrize(
    ("state", "policies"),
    [
        (exited(3), {ON_FAILURE, ALWAYS}),
        (SUCCEEDED_OK, {ALWAYS}),
        (FAILED_LOST, {ALWAYS}),
        (FAILED_UNKNOWN.because("Unknown"), {ALWAYS}),
        (FAILED_UNKNOWN.because("exited"), {ALWAYS}),
        (FAILED_UNKNOWN.because("unknown container state"), {ALWAYS}),
        (ENDED_WITHOUT_CODE, {ALWAYS}),
        (FAILED_UNKNOWN.because("paused"), set()),
        (FAILED_UNKNOWN.because("paused container"), set()),
        (FAILED_UNKNOWN.because("Error getting state from Podman."), set()),
        (FAILED_UNKNOWN, set()),
        (RUNNING_OK, set()),
        (PENDING_STARTING, set()),
        (STOPPING, set()),
    ],
)
def test_the_policy_decides_which_ends_are_followed_by_a_restart(
    state: ExecutionState, policies: set[RestartPolicy]
) -> None:
    assert {policy for policy in RestartPolicy if needs_restart(policy, state)} == policies


def test_the_first_restart_is_immediate_and_then_the_delays_double_to_their_limit() -> None:
    history, delays = RestartHistory(), []
    for _ in range(10):
        history, delay = plan_restart(history, lived=9.9)
        delays.append(delay)
    assert delays == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert history == RestartHistory(restarts=10, short_lives=10)


def test_after_a_long_run_time_the_delays_restart_and_the_count_continues() -> None:
    assert plan_restart(RestartHistory(7, 7), lived=10.0) == (RestartHistory(8, 1), 0.0)
    assert plan_restart(RestartHistory(8, 1), lived=0.0) == (RestartHistory(9, 2), 0.5)


def test_any_number_of_short_runs_has_a_delay() -> None:
    assert restart_delay_after(100_000) == 30.0


def test_the_state_contains_the_restart_after_its_own_information() -> None:
    history = RestartHistory(restarts=4, short_lives=4)
    assert with_restart(exited(1), history) == FAILED_EXEC_FAILED.because("Exit code: '1', restart 4 in 2 s")
    assert with_restart(SUCCEEDED_OK, RestartHistory(2, 2)) == SUCCEEDED_OK.because("restart 2 in 0.5 s")


@pytest.mark.parametrize(
    ("state", "policies"),
    [(SUCCEEDED_OK, {NEVER, ON_FAILURE}), (exited(3), {NEVER}), (FAILED_LOST, set()), (RUNNING_OK, set())],
)
def test_a_workload_is_finished_if_it_ended_and_its_policy_requires_no_restart(
    state: ExecutionState, policies: set[RestartPolicy]
) -> None:
    assert {policy for policy in RestartPolicy if is_finished(policy, state)} == policies
