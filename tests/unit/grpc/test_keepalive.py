"""The time at which a silent peer gets a ping, and the time at which it counts as dead."""

from ankaios.grpc.keepalive import Keepalive, KeepaliveTimer


def a_timer(now: float = 100.0) -> KeepaliveTimer:
    return KeepaliveTimer(Keepalive(1.0, 2.0), now)


def test_a_silent_peer_gets_one_ping_and_is_dead_after_the_timeout() -> None:
    timer = a_timer()
    assert timer.due == 101.0
    assert timer.expire(101.0)
    assert timer.due == 103.0
    assert not timer.expire(103.0)


def test_received_bytes_start_the_interval_again() -> None:
    timer = a_timer()
    timer.received(100.9)
    assert timer.due == 101.9


def test_a_response_to_a_ping_starts_the_interval_again() -> None:
    timer = a_timer()
    assert timer.expire(101.0)
    timer.received(102.5)
    assert timer.due == 103.5
    assert timer.expire(103.5)


def test_after_a_pause_of_this_process_the_peer_still_gets_its_time() -> None:
    timer = a_timer()
    assert timer.expire(150.0)
    assert timer.due == 152.0


def test_without_a_rule_nothing_is_due() -> None:
    timer = KeepaliveTimer(None, 100.0)
    timer.received(200.0)
    assert timer.due == float("inf")
