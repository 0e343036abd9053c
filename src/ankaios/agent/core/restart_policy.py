"""Decides whether and when an ended workload is restarted. Pure.

Input: the restart policy, the state in which the workload ended, its lifetime and its restart history. Output: the
decision, the delay and the text for the state. The life cycle stores the history and performs the restart.
"""

from msgspec import Struct

from ankaios.common.execution_state import (
    ENDED_WITHOUT_CODE,
    FAILED_EXEC_FAILED,
    FAILED_LOST,
    FAILED_UNKNOWN,
    SUCCEEDED_OK,
    ExecutionState,
)
from ankaios.common.growing_delay import growing_delay
from ankaios.common.workload import RestartPolicy

FIRST_RESTART_DELAY, LONGEST_RESTART_DELAY = 0.5, 30.0
SHORT_LIFE = 10.0  # seconds; after a longer lifetime the workload is restarted immediately
# The runtime answered, but does not know how the workload ended. Other texts come from a runtime that does not answer,
# or from a paused container: their process may be alive.
_UNKNOWN_TO_RUNTIME = frozenset(
    {"exited", "unknown", "unknown container state", ENDED_WITHOUT_CODE.additional_info.lower()}
)


class RestartHistory(Struct, frozen=True):
    """`restarts` counts all restarts of the instance, `short_lives` those in a row after less than `SHORT_LIFE`."""

    restarts: int = 0
    short_lives: int = 0


def needs_restart(policy: RestartPolicy, state: ExecutionState) -> bool:
    """With `ALWAYS`, also a lost container is restarted as soon as the runtime reports the loss."""
    match policy:
        case RestartPolicy.NEVER:
            return False
        case RestartPolicy.ON_FAILURE:
            return state.is_same(FAILED_EXEC_FAILED)
        case RestartPolicy.ALWAYS:
            ended = any(state.is_same(end) for end in (FAILED_EXEC_FAILED, SUCCEEDED_OK, FAILED_LOST))
            return ended or is_unknown_to_runtime(state)


def is_finished(policy: RestartPolicy, state: ExecutionState) -> bool:
    """Return whether the workload has ended and must not be restarted, also not after a restart of the agent."""
    ended = state.is_same(SUCCEEDED_OK) or state.is_same(FAILED_EXEC_FAILED)
    return ended and not needs_restart(policy, state)


def is_unknown_to_runtime(state: ExecutionState) -> bool:
    return state.is_same(FAILED_UNKNOWN) and state.additional_info.lower() in _UNKNOWN_TO_RUNTIME


def plan_restart(history: RestartHistory, lived: float) -> tuple[RestartHistory, float]:
    """Return the history with the next restart, and the delay in seconds before it.

    >>> plan_restart(RestartHistory(restarts=3, short_lives=3), lived=0.2)
    (RestartHistory(restarts=4, short_lives=4), 2.0)
    """
    short_lives = history.short_lives + 1 if lived < SHORT_LIFE else 1
    return RestartHistory(history.restarts + 1, short_lives), restart_delay_after(short_lives)


def restart_delay_after(short_lives: int) -> float:
    """Return the delay: the first restart is immediate, and each further delay is doubled."""
    if short_lives <= 1:
        return 0.0
    return growing_delay(short_lives - 1, FIRST_RESTART_DELAY, LONGEST_RESTART_DELAY)


def with_restart(state: ExecutionState, history: RestartHistory) -> ExecutionState:
    """Return the state with the planned restart, such as `Exit code: '1', restart 4 in 2 s`."""
    text = f"restart {history.restarts} in {restart_delay_after(history.short_lives):g} s"
    return state.because(f"{state.additional_info}, {text}" if state.additional_info else text)
