from hypothesis import given
from hypothesis import strategies as st

from ankaios.storage.core.lease_rules import DEFAULT_SECONDS, attempt_limit, renewal_interval, valid_until

seconds_of_lease = st.integers(1, 60)


@given(st.floats(0, 1e9), seconds_of_lease)
def test_a_leader_stops_before_its_lease_ends(sent_at: float, seconds: int) -> None:
    assert sent_at < valid_until(sent_at, seconds) <= sent_at + 0.9 * seconds


@given(seconds_of_lease)
def test_there_is_time_for_several_renewals_at_several_members(seconds: int) -> None:
    assert renewal_interval(seconds) + 3 * attempt_limit(seconds) < valid_until(0, seconds)
    assert 2 * renewal_interval(seconds) < valid_until(0, seconds)


def test_the_default_is_the_shortest_lease_of_etcd() -> None:
    assert DEFAULT_SECONDS == 2
