"""Execution states of workloads: states, substates, their texts and the transition that is suppressed.

[impl->swdd~common-workload-states-supported-states~1]
[impl->swdd~common-workload-state-additional-information~1]
"""

import re

from msgspec import Struct
from msgspec.structs import replace

_WITHOUT_SUB_STATES = {"AgentDisconnected", "NotScheduled", "Removed"}


class HealthState(Struct, frozen=True):
    """The result of the health checks of a running workload; `status` is one of the words below."""

    status: str
    text: str = ""


STARTING, HEALTHY, UNHEALTHY = "Starting", "Healthy", "Unhealthy"


class ExecutionState(Struct, frozen=True):
    """`state` and `sub_state` are the words in tables and events; `str()` is the text in tables.

    `restarts` counts how often the agent has restarted the workload since it was created or updated.
    """

    state: str
    sub_state: str
    additional_info: str = ""
    health: HealthState | None = None
    restarts: int = 0

    def __str__(self) -> str:
        return self.state if self.state in _WITHOUT_SUB_STATES else f"{self.state}({self.sub_state})"

    def because(self, info: str) -> "ExecutionState":
        return replace(self, additional_info=info)

    def is_same(self, other: "ExecutionState") -> bool:
        """Return whether both are equal except for additional information, health and restarts."""
        return self.state == other.state and self.sub_state == other.sub_state


AGENT_DISCONNECTED = ExecutionState("AgentDisconnected", "AgentDisconnected")
PENDING_INITIAL = ExecutionState("Pending", "Initial")
PENDING_WAITING_TO_START = ExecutionState("Pending", "WaitingToStart")
PENDING_STARTING = ExecutionState("Pending", "Starting")
PENDING_STARTING_FAILED = ExecutionState("Pending", "StartingFailed")
RUNNING_OK = ExecutionState("Running", "Ok")
STOPPING = ExecutionState("Stopping", "Stopping")
STOPPING_WAITING_TO_STOP = ExecutionState("Stopping", "WaitingToStop")
STOPPING_REQUESTED_AT_RUNTIME = ExecutionState("Stopping", "RequestedAtRuntime")
STOPPING_DELETE_FAILED = ExecutionState("Stopping", "DeleteFailed")
SUCCEEDED_OK = ExecutionState("Succeeded", "Ok")
FAILED_EXEC_FAILED = ExecutionState("Failed", "ExecFailed")
FAILED_UNKNOWN = ExecutionState("Failed", "Unknown")
FAILED_LOST = ExecutionState("Failed", "Lost")
NOT_SCHEDULED = ExecutionState("NotScheduled", "NotScheduled")
REMOVED = ExecutionState("Removed", "Removed")

TRIGGERED_AT_RUNTIME = "Triggered at runtime."
ENDED_WITHOUT_CODE = FAILED_UNKNOWN.because("The process ended without an exit code.")


def exited(code: int) -> ExecutionState:
    """Return the state after the process has ended with this exit code."""
    return SUCCEEDED_OK if code == 0 else FAILED_EXEC_FAILED.because(f"Exit code: '{code}'")


def exit_code_of(state: ExecutionState) -> int | None:
    """Return the exit code in a state of `exited`, also if more text follows it."""
    if state.is_same(SUCCEEDED_OK):
        return 0
    found = re.match(r"Exit code: '(-?\d{1,9})'", state.additional_info) if state.is_same(FAILED_EXEC_FAILED) else None
    return int(found[1]) if found else None


_HELD = {STOPPING_REQUESTED_AT_RUNTIME.sub_state, STOPPING_WAITING_TO_STOP.sub_state}
_SUPPRESSED = {"Running", "Succeeded", "Failed"}


def transition(old: ExecutionState, new: ExecutionState) -> ExecutionState:
    """Return the state to store when `new` is reported after `old`.

    While a workload is being stopped, the runtime may still report it as running or ended. The stored state stays
    stopping, so that it does not alternate.
    [impl->swdd~common-workload-state-transitions~1]
    """
    if old.state == "Stopping" and old.sub_state in _HELD and new.state in _SUPPRESSED:
        return old
    return new
