"""Comparison of access rules: the rights that a workload may grant to another one."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.access_rules import (
    READING,
    excess_of,
    is_path_granted,
    log_patterns,
    matches_name,
    state_masks,
)
from ankaios.common.workload import ControlInterfaceAccess, LogRule, Operation, StateRule
from tests.support.examples import examples


def state_access(
    allow: list[str], deny: list[str] | None = None, operation: Operation = Operation.READ
) -> ControlInterfaceAccess:
    return ControlInterfaceAccess(
        (StateRule(operation, tuple(allow)),), (StateRule(operation, tuple(deny)),) if deny else ()
    )


def log_access(allow: list[str], deny: list[str] | None = None) -> ControlInterfaceAccess:
    return ControlInterfaceAccess((LogRule(tuple(allow)),), (LogRule(tuple(deny)),) if deny else ())


@pytest.mark.parametrize(
    ("given", "limit", "excess"),
    [
        ((["a.b"], []), (["a"], []), None),
        ((["a"], []), (["a.b"], []), "read 'a'"),
        ((["a.*"], []), (["a.b"], []), "read 'a.*'"),
        ((["a.b.c"], []), (["a.*"], []), None),
        ((["*"], []), (["*"], []), None),
        ((["*"], []), (["*.b"], []), "read '*'"),
        ((["a"], []), (["a"], ["a.secret"]), "read 'a'"),
        ((["a"], ["a.secret"]), (["a"], ["a.secret"]), None),
        ((["a"], ["a.*"]), (["a"], ["a.secret"]), None),
        ((["a.b"], []), (["a"], ["a.secret"]), None),
    ],
)
def test_state_rights_beyond_the_limit_are_named(
    given: tuple[list[str], list[str]], limit: tuple[list[str], list[str]], excess: str | None
) -> None:
    assert excess_of(state_access(*given), state_access(*limit)) == excess


def test_the_right_to_read_does_not_give_the_right_to_write() -> None:
    reader, both = state_access(["a"]), state_access(["a"], operation=Operation.READ_WRITE)
    assert excess_of(both, reader) == "write 'a'"
    assert excess_of(reader, both) is None


@pytest.mark.parametrize(
    ("given", "limit", "excess"),
    [
        (["nav"], (["nav*"], []), None),
        (["nav*"], (["*"], []), None),
        (["*"], (["nav*"], []), "logs of '*'"),
        (["nav*"], (["*"], ["nav_secret"]), "logs of 'nav*'"),
        (["nav*"], (["*"], ["*secret"]), "logs of 'nav*'"),
        (["nav"], (["*"], ["web*"]), None),
    ],
)
def test_log_rights_beyond_the_limit_are_named(
    given: list[str], limit: tuple[list[str], list[str]], excess: str | None
) -> None:
    assert excess_of(log_access(given), log_access(*limit)) == excess


def test_denied_logs_may_be_passed_on_if_they_are_denied_there_too() -> None:
    limit = log_access(["*"], ["nav_secret"])
    assert excess_of(log_access(["nav*"], ["nav_*"]), limit) is None


PARTS = ("a", "b", "*")
MASKS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map(".".join)
ACCESS = st.builds(state_access, st.lists(MASKS, max_size=3), st.lists(MASKS, max_size=2))
PATHS = [path for length in range(4) for path in product(PARTS, repeat=length)]


def granted_paths(access: ControlInterfaceAccess) -> set[tuple[str, ...]]:
    allow, deny = state_masks(access.allow, READING), state_masks(access.deny, READING)
    return {path for path in PATHS if is_path_granted(path, allow, deny)}


@examples(150)
@given(ACCESS, ACCESS)
def test_rights_within_the_limit_grant_no_path_outside_of_it(
    access: ControlInterfaceAccess, limit: ControlInterfaceAccess
) -> None:
    if excess_of(access, limit) is None:
        assert granted_paths(access) <= granted_paths(limit)


PATTERNS = st.sampled_from(["*", "a", "b", "a*", "*b", "a*b", "ab*", "*ab", "aab", "b*a"])
NAMES = ["".join(letters) for length in range(1, 5) for letters in product("ab", repeat=length)]
LOG_ACCESS = st.builds(log_access, st.lists(PATTERNS, max_size=3), st.lists(PATTERNS, max_size=2))


def granted_names(access: ControlInterfaceAccess) -> set[str]:
    allow, deny = log_patterns(access.allow), log_patterns(access.deny)
    return {
        name
        for name in NAMES
        if any(matches_name(pattern, name) for pattern in allow)
        and not any(matches_name(pattern, name) for pattern in deny)
    }


@examples(150)
@given(LOG_ACCESS, LOG_ACCESS)
def test_rights_within_the_limit_grant_no_logs_outside_of_it(
    access: ControlInterfaceAccess, limit: ControlInterfaceAccess
) -> None:
    if excess_of(access, limit) is None:
        assert granted_names(access) <= granted_names(limit)


@examples(80)
@given(st.one_of(ACCESS, LOG_ACCESS))
def test_every_access_is_within_itself(access: ControlInterfaceAccess) -> None:
    assert excess_of(access, access) is None
