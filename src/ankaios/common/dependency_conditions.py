"""The rules when a dependency is fulfilled, and when a dependent blocks a stop. Agents and `ank why` use them."""

from ankaios.common.execution_state import (
    FAILED_EXEC_FAILED,
    HEALTHY,
    PENDING_WAITING_TO_START,
    RUNNING_OK,
    SUCCEEDED_OK,
    ExecutionState,
)

_FULFILLED_BY = {
    "ADD_COND_RUNNING": RUNNING_OK,
    "ADD_COND_HEALTHY": RUNNING_OK,
    "ADD_COND_SUCCEEDED": SUCCEEDED_OK,
    "ADD_COND_FAILED": FAILED_EXEC_FAILED,
}


def fulfils(state: ExecutionState, condition: str) -> bool:
    """Return whether a workload in this state fulfils the condition of a dependency, such as `ADD_COND_RUNNING`."""
    if condition == "ADD_COND_HEALTHY" and (state.health is None or state.health.status != HEALTHY):
        return False
    return state.is_same(_FULFILLED_BY[condition])


def blocks_stop(state: ExecutionState) -> bool:
    """Return whether a dependent in this state has to stop first. A dependent that waits for its start does not."""
    return state.state in ("Pending", "Running") and not state.is_same(PENDING_WAITING_TO_START)
