import pytest

from ankaios.grpc.wire_format import CallFailed, Status
from ankaios.middleware.connecting import CannotConnect, NotLeading, leader_in, refusal_error, standby_text
from ankaios.middleware.server_targets import PAUSE, NextTarget, ServerTargets, server_urls

A, B, C = "http://a:1", "http://b:1", "http://c:1"
DOWN = CannotConnect(A, "down")


def standby(leader: str) -> NotLeading:
    return NotLeading(A, standby_text(leader))


def test_a_list_of_urls_is_split_at_commas() -> None:
    assert server_urls(A) == (A,)
    assert server_urls(f"{A}, {B}") == (A, B)


def test_one_server_is_tried_once() -> None:
    targets = ServerTargets((A,), patience=5.0)
    assert targets.first == A
    assert targets.after(DOWN, 0.0) is None
    assert not targets.can_follow


def test_several_servers_are_tried_in_turn_with_a_pause_after_each_round() -> None:
    targets = ServerTargets((A, B), patience=5.0)
    assert targets.can_follow
    assert targets.after(DOWN, 0.0) == NextTarget(B, 0.0)
    assert targets.after(DOWN, 1.0) == NextTarget(A, PAUSE)
    assert targets.after(DOWN, 5.0) is None


def test_a_standby_redirects_to_the_leader() -> None:
    targets = ServerTargets((A,), patience=5.0)
    assert targets.after(standby(C), 0.0) == NextTarget(C, 0.0)
    assert targets.can_follow
    assert targets.after(DOWN, 0.1) == NextTarget(A, PAUSE)


def test_without_a_leader_the_attempt_is_repeated() -> None:
    assert ServerTargets((A,), patience=5.0).after(standby(""), 0.0) == NextTarget(A, PAUSE)
    assert ServerTargets((A, B), patience=5.0).after(standby(""), 0.0) == NextTarget(B, 0.0)


def test_servers_that_name_each_other_cause_no_busy_loop() -> None:
    targets = ServerTargets((A,))
    pauses = [found.pause for _ in range(7) if (found := targets.after(standby(B), 0.0)) is not None]
    assert pauses == [0.0] * 5 + [PAUSE] * 2
    targets.connected()
    assert targets.after(standby(B), 0.0) == NextTarget(B, 0.0)


def test_a_server_with_tls_cannot_redirect_to_one_without() -> None:
    targets = ServerTargets(("https://a:1",))
    assert targets.after(standby(B), 0.0) == NextTarget("https://a:1", PAUSE)
    assert targets.after(standby("https://b:1"), 0.0) == NextTarget("https://b:1", 0.0)


@pytest.mark.parametrize(
    ("text", "leader"),
    [
        (standby_text(A), A),
        (standby_text(""), ""),
        (standby_text("file:///etc/passwd"), ""),
        (standby_text("http://a:1 http://b"), ""),
        ("the server is stopping", ""),
    ],
)
def test_the_leader_is_read_from_the_status(text: str, leader: str) -> None:
    assert leader_in(text) == leader


def test_only_the_status_of_a_standby_means_that_another_server_leads() -> None:
    error = refusal_error(CallFailed(Status.UNAVAILABLE, standby_text(B)), A)
    assert isinstance(error, NotLeading)
    assert error.leader == B
    assert not isinstance(refusal_error(CallFailed(Status.UNAVAILABLE, "the server is stopping"), A), NotLeading)
