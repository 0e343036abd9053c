"""Matching and comparison of access rules of the control interface. Pure.

Input: rules and paths. Output: whether they match. The agent checks whether the rules of a workload allow its request.
When a workload writes another workload, the server checks that the new rules do not exceed the rules of the writer.
"""

from collections.abc import Iterable, Sequence

from ankaios.common.state_manipulation import WILDCARD, Path
from ankaios.common.workload import AccessRule, ControlInterfaceAccess, LogRule, Operation, StateRule

EVERYTHING: Path = (WILDCARD,)
READING = (Operation.READ, Operation.READ_WRITE)
WRITING = (Operation.WRITE, Operation.READ_WRITE)


def state_masks(rules: Iterable[AccessRule], operations: tuple[Operation, ...]) -> list[Path]:
    """Return the masks of all state rules for one kind of operation. An empty mask matches nothing."""
    return [
        tuple(mask.split("."))
        for rule in rules
        if isinstance(rule, StateRule) and rule.operation in operations
        for mask in rule.filter_masks
        if mask
    ]


def log_patterns(rules: Iterable[AccessRule]) -> list[str]:
    """Return the patterns of all log rules."""
    return [pattern for rule in rules if isinstance(rule, LogRule) for pattern in rule.workload_names]


# --- matching ---------------------------------------------------------------------------------------------------------


def allows_path(rule: Path, path: Path) -> bool:
    """Return whether an allow rule covers the path: the rule covers its path and everything below.

    Only the rule `*` covers the empty path. A `*` of the rule stands for any part. Only a `*` of the rule covers a `*`
    of the path.
    """
    if rule == EVERYTHING:
        return True
    return len(rule) <= len(path) and all(part in (WILDCARD, other) for part, other in zip(rule, path, strict=False))


def denies_path(rule: Path, path: Path) -> bool:
    """Return whether a deny rule covers the path: the rule covers its path, everything below and everything above.

    A `*` of the path selects every element, so it also selects the element that the rule denies.
    """
    return all(WILDCARD in (part, other) or part == other for part, other in zip(rule, path, strict=False))


def is_path_granted(path: Path, allow: Iterable[Path], deny: Iterable[Path]) -> bool:
    return any(allows_path(rule, path) for rule in allow) and not any(denies_path(rule, path) for rule in deny)


def matches_name(pattern: str, workload: str) -> bool:
    """Return whether the pattern matches. One `*` stands for any part of the name, also an empty one."""
    before, star, after = pattern.partition(WILDCARD)
    if not star:
        return pattern == workload
    fits = len(workload) >= len(before) + len(after)
    return fits and workload.startswith(before) and workload.endswith(after)


# --- comparison -------------------------------------------------------------------------------------------------------


def excess_of(access: ControlInterfaceAccess, limit: ControlInterfaceAccess) -> str | None:
    """Return the first right of `access` that exceeds `limit`, as text for users; None if there is none."""
    for operations, word in ((READING, "read"), (WRITING, "write")):
        mine, own = _StateRights.of(access, operations), _StateRights.of(limit, operations)
        for mask in mine.allow:
            if not own.cover(mask, mine.deny):
                return f"{word} '{'.'.join(mask)}'"
    patterns = log_patterns(access.allow)
    for pattern in patterns:
        if not _covers_logs(pattern, log_patterns(access.deny), limit):
            return f"logs of '{pattern}'"
    return None


class _StateRights:
    def __init__(self, allow: Sequence[Path], deny: Sequence[Path]) -> None:
        self.allow = allow
        self.deny = deny

    @classmethod
    def of(cls, access: ControlInterfaceAccess, operations: tuple[Operation, ...]) -> "_StateRights":
        return cls(state_masks(access.allow, operations), state_masks(access.deny, operations))

    def cover(self, mask: Path, denied: Iterable[Path]) -> bool:
        """Return whether these rights allow everything that `mask` allows and `denied` does not deny."""
        if not any(allows_path(rule, mask) for rule in self.allow):
            return False
        return all(any(_includes(other, rule) for other in denied) for rule in self.deny if denies_path(rule, mask))


def _includes(wide: Path, narrow: Path) -> bool:
    """Return whether the deny rule `wide` denies everything that the deny rule `narrow` denies."""
    return len(wide) <= len(narrow) and all(
        part in (WILDCARD, other) for part, other in zip(wide, narrow, strict=False)
    )


def _covers_logs(pattern: str, denied: Sequence[str], limit: ControlInterfaceAccess) -> bool:
    if not any(_includes_pattern(rule, pattern) for rule in log_patterns(limit.allow)):
        return False
    overlapping = (rule for rule in log_patterns(limit.deny) if _may_overlap(rule, pattern))
    return all(any(_includes_pattern(other, rule) for other in denied) for rule in overlapping)


def _includes_pattern(wide: str, narrow: str) -> bool:
    """Return whether every name that matches `narrow` matches `wide`."""
    if WILDCARD not in narrow:
        return matches_name(wide, narrow)
    before, star, after = wide.partition(WILDCARD)
    inner, _, end = narrow.partition(WILDCARD)
    return bool(star) and inner.startswith(before) and end.endswith(after)


def _may_overlap(one: str, other: str) -> bool:
    """Return whether a name can match both."""
    if WILDCARD not in one:
        return matches_name(other, one)
    if WILDCARD not in other:
        return matches_name(one, other)
    (before, _, after), (inner, _, end) = one.partition(WILDCARD), other.partition(WILDCARD)
    fits_start = before.startswith(inner) or inner.startswith(before)
    return fits_start and (after.endswith(end) or end.endswith(after))
