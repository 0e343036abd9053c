"""Allow and deny rules, by the examples and against a naive model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.agent.core.authorizer import Authorizer
from ankaios.common.access_rules import matches_name
from ankaios.common.pb.ank_base_pb2 import (
    CompleteState,
    CompleteStateRequest,
    EventsCancelRequest,
    HistoryRequest,
    LogsCancelRequest,
    LogsRequest,
    Request,
    RollbackRequest,
    ServersRequest,
    UpdateStateRequest,
    WorkloadInstanceName,
)
from ankaios.common.workload import ControlInterfaceAccess, LogRule, Operation, StateRule
from tests.support.examples import examples

READ, WRITE, BOTH, NOTHING = Operation.READ, Operation.WRITE, Operation.READ_WRITE, Operation.NOTHING


def reads(*masks: str) -> Request:
    return Request(requestId="1", completeStateRequest=CompleteStateRequest(fieldMask=masks))


def writes(*masks: str) -> Request:
    return Request(updateStateRequest=UpdateStateRequest(newState=CompleteState(), updateMask=masks))


def logs(*names: str) -> Request:
    return Request(logsRequest=LogsRequest(workloadNames=[WorkloadInstanceName(workloadName=name) for name in names]))


def access(allow: list[str], deny: list[str] = [], operation: Operation = READ) -> Authorizer:  # noqa: B006
    allowed, denied = (tuple(StateRule(operation, (mask,)) for mask in masks) for masks in (allow, deny))
    return Authorizer(ControlInterfaceAccess(allowed, denied))


@pytest.mark.parametrize(
    ("rule", "path", "allowed", "denied"),
    [
        ("some.pre.fix", "some.pre.fix", True, True),
        ("some.pre.fix", "some.pre.fix.x", True, True),
        ("some.pre.fix", "some.pre", False, True),
        ("some.pre.fix", "", False, True),
        ("some.pre.fix", "some.pre.fixtest", False, False),
        ("some.pre.fix", "some.pre.test", False, False),
        ("some.*.fix", "some.a.fix", True, True),
        ("some.*.fix", "some.a.fix.b", True, True),
        ("some.*.fix", "some.a", False, True),
        ("*", "anything", True, True),
        ("*", "", True, True),
        ("", "anything", False, False),
        ("", "", False, False),
    ],
)
def test_what_a_single_rule_matches(rule: str, path: str, allowed: bool, denied: bool) -> None:
    assert access([rule]).allows(reads(path)) is allowed
    assert access(["*"], [rule]).allows(reads(path)) is not denied


@pytest.mark.parametrize(
    ("allow", "deny", "request_masks", "granted"),
    [
        (["ds.w.*.tags"], [], ["ds.w.nav.tags"], True),
        (["ds.w.*.tags"], [], ["ds.w.nav"], False),
        (["ds.w"], ["ds.w.nav"], ["ds.w.navi"], True),
        (["ds.w"], ["ds.w.nav"], ["ds.w.nav.tags"], False),
        (["ds.w"], ["ds.w.nav"], ["ds.w"], False),
        (["ds.w"], ["ds.w.nav"], ["ds.w.*"], False),  # a wildcard does not bypass a deny rule
        (["ds.w"], ["ds.w.nav.tags"], ["ds.w.*.agent"], True),
        (["*"], ["ws.agA"], [""], False),
        (["*"], ["ws.agA"], [], False),
        (["*"], ["ws.agA"], ["ws.agB"], True),
        (["*"], ["ws.agA"], ["ds", "ws.agA.x"], False),
        (["ds.*"], [], ["ds"], False),
        (["ds.*"], [], ["ds.*"], True),
        (["*.w"], [], [""], False),  # a rule below a wildcard does not cover what is above it
        (["*.w"], [], ["agents"], False),
        (["*.w.me.tags"], [], ["ds.w.me"], False),
        (["*.w.me.tags"], [], ["ds.w.me.tags"], True),
        (["*.w"], [], ["agents.agA"], False),
        (["ds"], ["ds.*.nav"], ["ds.configs"], False),
        (["ds"], ["ds.*.nav"], ["ds.configs.x"], True),
    ],
)
def test_worked_examples(allow: list[str], deny: list[str], request_masks: list[str], granted: bool) -> None:
    assert access(allow, deny).allows(reads(*request_masks)) is granted


def test_reading_and_writing_are_different_rights() -> None:
    reader, writer, both, neither = (access(["ds"], operation=right) for right in (READ, WRITE, BOTH, NOTHING))
    granted = [(right.allows(reads("ds")), right.allows(writes("ds"))) for right in (reader, writer, both, neither)]
    assert granted == [(True, False), (False, True), (True, True), (False, False)]


def test_a_subscription_needs_the_right_to_read() -> None:
    request = Request(completeStateRequest=CompleteStateRequest(fieldMask=["ws"], subscribeForEvents=True))
    assert not access(["ds"]).allows(request)
    assert access(["ws"]).allows(request)


@pytest.mark.parametrize(
    ("allow", "deny", "names", "granted"),
    [
        (("nav*", "radio"), (), ["radio"], True),  # the order of patterns does not matter
        (("radio", "nav*"), (), ["radio", "navi"], True),
        (("nav*",), ("*secret",), ["nav_secret"], False),
        (("nav*",), (), ["nav", "radio"], False),
        (("*",), (), ["anything"], True),
        ((), (), [], True),
        ((), (), ["x"], False),
    ],
)
def test_log_rules(allow: tuple[str, ...], deny: tuple[str, ...], names: list[str], granted: bool) -> None:
    rules = ControlInterfaceAccess((LogRule(allow), StateRule(READ, ("x",))), (LogRule(deny),))
    assert Authorizer(rules).allows(logs(*names)) is granted


def test_a_pattern_does_not_use_a_letter_twice() -> None:
    assert matches_name("a*ab", "aab")
    assert not matches_name("a*ab", "ab")


def test_cancelling_is_always_allowed_and_a_request_without_content_never() -> None:
    without_rules = Authorizer(ControlInterfaceAccess())
    assert without_rules.allows(Request(logsCancelRequest=LogsCancelRequest()))
    assert without_rules.allows(Request(eventsCancelRequest=EventsCancelRequest()))
    assert not access(["*"]).allows(Request(requestId="1"))


SEGMENTS = st.sampled_from(["a", "b", "c", "*"])
MASKS = st.lists(SEGMENTS, min_size=1, max_size=3).map(".".join)


def naive_match(rule: str, path: str, deny: bool) -> bool:
    """A naive model: compare one pair of segments after the other."""
    ours, theirs = rule.split("."), path.split(".") if path else []
    for index in range(min(len(ours), len(theirs))):
        same = ours[index] == theirs[index] or ours[index] == "*" or (deny and theirs[index] == "*")
        if not same:
            return False
    return deny or len(ours) <= len(theirs) or ours == ["*"]


@examples(120)
@given(st.lists(MASKS, max_size=4), st.lists(MASKS, max_size=4), st.lists(MASKS | st.just(""), max_size=3))
def test_decisions_are_those_of_a_naive_model(allow: list[str], deny: list[str], masks: list[str]) -> None:
    def granted(mask: str) -> bool:
        allowed = any(naive_match(rule, mask, deny=False) for rule in allow)
        return allowed and not any(naive_match(rule, mask, deny=True) for rule in deny)

    expected = all(granted(mask) for mask in masks or [""])
    assert access(allow, deny).allows(reads(*masks)) is expected


@examples(80)
@given(st.lists(MASKS, max_size=3), st.lists(SEGMENTS, min_size=1, max_size=3))
def test_a_wildcard_request_is_granted_only_if_each_element_it_may_mean_is(deny: list[str], path: list[str]) -> None:
    granted = access(["*"], deny)
    if granted.allows(reads(".".join(path))):
        for element in "abc":
            assert granted.allows(reads(".".join(element if part == "*" else part for part in path)))


def test_the_history_of_workloads_needs_the_right_to_read_them() -> None:
    web = access(["desiredState.workloads.web"])
    assert web.allows(Request(historyRequest=HistoryRequest(workloads=["web"])))
    assert not web.allows(Request(historyRequest=HistoryRequest(workloads=["web", "db"])))
    assert not web.allows(Request(historyRequest=HistoryRequest()))
    assert access(["desiredState"]).allows(Request(historyRequest=HistoryRequest()))


def test_a_rollback_needs_the_right_to_write_what_it_restores() -> None:
    web = access(["desiredState.workloads.web"], operation=WRITE)
    assert web.allows(Request(rollbackRequest=RollbackRequest(revision=1, workloads=["web"])))
    assert not web.allows(Request(rollbackRequest=RollbackRequest(revision=1, workloads=["web", "db"])))
    assert not web.allows(Request(rollbackRequest=RollbackRequest(revision=1)))
    assert access(["*"], operation=WRITE).allows(Request(rollbackRequest=RollbackRequest(revision=1)))
    assert not access(["*"]).allows(Request(rollbackRequest=RollbackRequest(revision=1)))


def test_requests_about_servers_are_denied() -> None:
    assert not access(["*"], operation=BOTH).allows(Request(serversRequest=ServersRequest()))
