"""What a workload may ask: allow and deny rules of its control interface.

Comes in: the rules of one workload, and its requests. Goes out: yes or no. Every mask, or every workload whose logs are
asked for, must match an allow rule and no deny rule.
"""

from collections.abc import Iterable
from typing import Literal

from ankaios.common.pb.ank_base_pb2 import Request
from ankaios.common.workload import AccessRule, ControlInterfaceAccess, LogRule, Operation, StateRule

Path = tuple[str, ...]
WILDCARD = "*"
_READING = (Operation.READ, Operation.READ_WRITE)
_WRITING = (Operation.WRITE, Operation.READ_WRITE)


class Authorizer:
    """Masks are split once: a workload may ask often."""

    def __init__(self, access: ControlInterfaceAccess) -> None:
        self._allow_read = _masks(access.allow, _READING)
        self._deny_read = _masks(access.deny, _READING)
        self._allow_write = _masks(access.allow, _WRITING)
        self._deny_write = _masks(access.deny, _WRITING)
        self._allow_logs = _patterns(access.allow)
        self._deny_logs = _patterns(access.deny)

    def allows(self, request: Request) -> bool:
        match request.WhichOneof("RequestContent"):
            case "completeStateRequest":
                masks = request.completeStateRequest.fieldMask
                return _all_granted(masks, self._allow_read, self._deny_read)
            case "updateStateRequest":
                return _all_granted(request.updateStateRequest.updateMask, self._allow_write, self._deny_write)
            case "logsRequest":
                return all(self._may_read_logs(item.workloadName) for item in request.logsRequest.workloadNames)
            case "logsCancelRequest" | "eventsCancelRequest":
                return True
            case _:
                return False

    def _may_read_logs(self, workload: str) -> bool:
        allowed = any(matches_name(pattern, workload) for pattern in self._allow_logs)
        return allowed and not any(matches_name(pattern, workload) for pattern in self._deny_logs)


def _masks(rules: Iterable[AccessRule], operations: tuple[Operation, ...]) -> list[Path]:
    """An empty mask is no mask."""
    return [
        tuple(mask.split("."))
        for rule in rules
        if isinstance(rule, StateRule) and rule.operation in operations
        for mask in rule.filter_masks
        if mask
    ]


def _patterns(rules: Iterable[AccessRule]) -> list[str]:
    """All patterns of all rules count, in whatever order they stand."""
    return [pattern for rule in rules if isinstance(rule, LogRule) for pattern in rule.workload_names]


def _all_granted(masks: Iterable[str], allow: list[Path], deny: list[Path]) -> bool:
    """No mask at all asks for everything, as one empty path does."""
    paths = [tuple(mask.split(".")) if mask else () for mask in masks] or [()]
    return all(
        any(matches("allow", rule, path) for rule in allow) and not any(matches("deny", rule, path) for rule in deny)
        for path in paths
    )


def matches(kind: Literal["allow", "deny"], rule: Path, path: Path) -> bool:
    """Whether the rule covers the path: an allow rule from its end downwards, a deny rule also everything above.

    A `*` in the request asks for every element, so it meets every element that a deny rule names.
    """
    if kind == "allow" and len(rule) > len(path) and rule[0] != WILDCARD:
        return False
    return all(
        ours in (WILDCARD, theirs) or (kind == "deny" and theirs == WILDCARD)
        for ours, theirs in zip(rule, path, strict=False)
    )


def matches_name(pattern: str, workload: str) -> bool:
    """One `*` stands for any part of the name, also an empty one."""
    before, star, after = pattern.partition(WILDCARD)
    if not star:
        return pattern == workload
    fits = len(workload) >= len(before) + len(after)
    return fits and workload.startswith(before) and workload.endswith(after)
