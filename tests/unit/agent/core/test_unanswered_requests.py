"""The limit of unanswered requests of a workload."""

from ankaios.agent.core.unanswered_requests import LONGEST_WAIT, MOST_UNANSWERED, UnansweredRequests


def full(request_id: str = "x") -> UnansweredRequests:
    requests = UnansweredRequests()
    for _ in range(MOST_UNANSWERED):
        assert not requests.is_full(0.0)
        requests.add(request_id, 0.0)
    return requests


def test_the_number_of_unanswered_requests_is_limited_even_if_all_have_one_id() -> None:
    requests = full()
    assert requests.is_full(0.0)
    assert requests.answered("x")
    assert not requests.is_full(0.0)


def test_events_and_unknown_answers_do_not_count() -> None:
    requests = full()
    assert not requests.answered("other")
    assert requests.is_full(0.0)


def test_requests_that_are_never_answered_do_not_block_for_ever() -> None:
    requests = full()
    assert requests.is_full(LONGEST_WAIT - 0.1)
    assert not requests.is_full(LONGEST_WAIT)
