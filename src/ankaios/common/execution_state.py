"""How a workload is doing: states, substates, their texts and the one transition that is damped.

[impl->swdd~common-workload-states-supported-states~1]
[impl->swdd~common-workload-state-additional-information~1]
"""

from msgspec import Struct
from msgspec.structs import replace

_WITHOUT_SUB_STATES = {"AgentDisconnected", "NotScheduled", "Removed"}


class ExecutionState(Struct, frozen=True):
    """`state` and `sub_state` are the words of manifests, tables and events; `str()` is the table form."""

    state: str
    sub_state: str
    additional_info: str = ""

    def __str__(self) -> str:
        return self.state if self.state in _WITHOUT_SUB_STATES else f"{self.state}({self.sub_state})"

    def because(self, info: str) -> "ExecutionState":
        return replace(self, additional_info=info)

    def is_same(self, other: "ExecutionState") -> bool:
        """Equal but for the additional information."""
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


def exited(code: int) -> ExecutionState:
    """What the end of a process means."""
    return SUCCEEDED_OK if code == 0 else FAILED_EXEC_FAILED.because(f"Exit code: '{code}'")


_HELD = {STOPPING_REQUESTED_AT_RUNTIME.sub_state, STOPPING_WAITING_TO_STOP.sub_state}
_DAMPED = {"Running", "Succeeded", "Failed"}


def transition(old: ExecutionState, new: ExecutionState) -> ExecutionState:
    """What is to be stored when `new` is reported over `old`.

    While a stop is under way the runtime may still report the workload as running or ended; the state must not flip
    back and forth, so stopping is kept.
    [impl->swdd~common-workload-state-transitions~1]
    """
    if old.state == "Stopping" and old.sub_state in _HELD and new.state in _DAMPED:
        return old
    return new
