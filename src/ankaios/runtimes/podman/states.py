"""Maps the container states of podman to execution states. Pure.

[impl->swdd~allowed-workload-states~2]
"""

from collections.abc import Iterable, Sequence

from ankaios.common.execution_state import (
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

PODMAN_UNREADABLE = FAILED_UNKNOWN.because("Error getting state from Podman.")
PODS_UNREADABLE = FAILED_UNKNOWN.because("Error getting state from pods.")
METADATA_UNREADABLE = FAILED_UNKNOWN.because("Could not load workload metadata")

_STARTING = {"created", "configured", "initialized"}
_STOPPING = {"stopping", "stopped", "removing"}

KUBE_STARTING = PENDING_STARTING.because("starting container")
KUBE_UNKNOWN = FAILED_UNKNOWN.because("unknown container state")
KUBE_PAUSED = FAILED_UNKNOWN.because("paused container")
KUBE_STOPPING = STOPPING.because("stopping container")


def container_state(word: str, exit_code: int | None) -> ExecutionState:
    """Map the state of one container.

    [impl->swdd~podman-state-getter-maps-state~3]
    [impl->swdd~podman-workload-maps-state~1]
    [impl->swdd~podman-workload-state~1]
    """
    known = word.lower()
    if known == "running":
        return RUNNING_OK
    if known == "exited" and exit_code is not None:
        return exited(exit_code)
    if known in _STARTING:
        return PENDING_STARTING.because(word)
    if known in _STOPPING:
        return STOPPING.because(word)
    return FAILED_UNKNOWN.because(word)


def kube_container_state(state: ExecutionState) -> ExecutionState:
    """Map the state of one container of a pod; the word of podman is replaced by a fixed text.

    [impl->swdd~podman-kube-state-getter-maps-state~2]
    """
    match state.state:
        case "Pending":
            return KUBE_STARTING
        case "Stopping":
            return KUBE_STOPPING
        case "Failed" if not state.is_same(FAILED_EXEC_FAILED):
            # A paused container is alive: no restart policy may replace it.
            return KUBE_PAUSED if state.additional_info.lower() == "paused" else KUBE_UNKNOWN
    return state


_PRIORITY = [FAILED_EXEC_FAILED, KUBE_STARTING, KUBE_UNKNOWN, RUNNING_OK, KUBE_STOPPING, SUCCEEDED_OK]


def _rank(state: ExecutionState) -> tuple[int, str]:
    rank = next(index for index, kind in enumerate(_PRIORITY) if kind.is_same(state))
    return rank, state.additional_info


def pods_state(pods: Iterable[Sequence[ExecutionState]]) -> ExecutionState:
    """Combine the states of the containers of all pods: return the state with the highest priority.

    [impl->swdd~podman-kube-state-getter-combines-states~2]
    [impl->swdd~podman-kube-state-getter-removed-if-no-container~1]
    [impl->swdd~podman-kube-state-getter-treats-missing-pods-as-unknown~1]
    """
    parts = [kube_container_state(state) for pod in pods for state in (pod or [KUBE_UNKNOWN])]
    return min(parts, key=_rank) if parts else FAILED_LOST


def is_final(state: ExecutionState) -> bool:
    """Return whether the container has ended with an exit code."""
    return state.is_same(SUCCEEDED_OK) or state.is_same(FAILED_EXEC_FAILED)
