"""Decides which requests a workload may send through its control interface.

Input: the access rules of one workload, and its requests. Output: yes or no. Every mask, or every workload whose logs
are requested, must match an allow rule and no deny rule.
"""

from collections.abc import Iterable

from ankaios.common.access_rules import (
    READING,
    WRITING,
    is_path_granted,
    log_patterns,
    matches_name,
    state_masks,
)
from ankaios.common.pb.ank_base_pb2 import Request
from ankaios.common.state_manipulation import Path
from ankaios.common.workload import ControlInterfaceAccess


class Authorizer:
    """Masks are split once, because a workload may send many requests."""

    def __init__(self, access: ControlInterfaceAccess) -> None:
        self._allow_read = state_masks(access.allow, READING)
        self._deny_read = state_masks(access.deny, READING)
        self._allow_write = state_masks(access.allow, WRITING)
        self._deny_write = state_masks(access.deny, WRITING)
        self._allow_logs = log_patterns(access.allow)
        self._deny_logs = log_patterns(access.deny)

    def allows(self, request: Request) -> bool:
        match request.WhichOneof("RequestContent"):
            case "completeStateRequest":
                masks = request.completeStateRequest.fieldMask
                return _all_granted(masks, self._allow_read, self._deny_read)
            case "updateStateRequest":
                return _all_granted(request.updateStateRequest.updateMask, self._allow_write, self._deny_write)
            case "planRequest":
                return _all_granted(request.planRequest.update.updateMask, self._allow_write, self._deny_write)
            case "recordsRequest":
                named = [f"workloadStates.*.{name}" for name in request.recordsRequest.workloads]
                return _all_granted(named or ["workloadStates"], self._allow_read, self._deny_read)
            case "whyRequest" | "rolloutsRequest":
                return _all_granted(["workloadStates"], self._allow_read, self._deny_read)
            case "historyRequest":
                names = request.historyRequest.workloads
                return _all_granted(_workload_masks(names) or ["desiredState"], self._allow_read, self._deny_read)
            case "rollbackRequest":
                names = request.rollbackRequest.workloads
                return _all_granted(_workload_masks(names), self._allow_write, self._deny_write)
            case "logsRequest":
                return all(self._may_read_logs(item.workloadName) for item in request.logsRequest.workloadNames)
            case "logsCancelRequest" | "eventsCancelRequest":
                return True
            case _:
                return False

    def _may_read_logs(self, workload: str) -> bool:
        allowed = any(matches_name(pattern, workload) for pattern in self._allow_logs)
        return allowed and not any(matches_name(pattern, workload) for pattern in self._deny_logs)


def _workload_masks(names: Iterable[str]) -> list[str]:
    return [f"desiredState.workloads.{name}" for name in names]


def _all_granted(masks: Iterable[str], allow: list[Path], deny: list[Path]) -> bool:
    """A request without masks selects everything, like an empty path."""
    paths = [tuple(mask.split(".")) if mask else () for mask in masks] or [()]
    return all(is_path_granted(path, allow, deny) for path in paths)
