"""Connections that are accepted while others are not set up yet."""

from ankaios.grpc.open_handshakes import ConnectionLimits, OpenHandshakes, connection_limits

LIMITS = ConnectionLimits(handshakes=8, handshakes_of_address=4, reserved_handshakes=2, clients=10)


def handshakes(*addresses: str, limits: ConnectionLimits = LIMITS) -> OpenHandshakes[int]:
    opened: OpenHandshakes[int] = OpenHandshakes(limits)
    for key, address in enumerate(addresses):
        assert opened.start(key, address, 0.0) == (True, None)
    return opened


def test_the_limits_leave_descriptors_for_agents_and_for_the_server() -> None:
    for descriptors in (80, 256, 1024, 65536):
        limits = connection_limits(descriptors)
        agents_only = descriptors - 64 - limits.handshakes - limits.clients
        assert agents_only >= (descriptors - 64) // 4
        assert 0 < limits.handshakes_of_address < limits.handshakes
        assert 0 < limits.reserved_handshakes < limits.handshakes


def test_one_address_can_use_only_a_part_of_the_slots() -> None:
    opened = handshakes("a", "a", "a", "a")
    assert opened.start(10, "a", 0.5) == (False, None)
    assert opened.start(11, "b", 0.5) == (True, None)


def test_the_oldest_of_the_address_ends_if_it_had_enough_time() -> None:
    opened = handshakes("a", "a", "a", "a")
    assert opened.start(10, "a", 1.0) == (True, 0)
    assert opened.start(11, "a", 1.0) == (True, 1)
    assert len(opened) == 4


def test_slots_are_reserved_for_addresses_of_known_agents() -> None:
    opened = handshakes("a", "b", "c", "d", "e", "f")
    opened.remember("agent")
    assert opened.start(10, "g", 0.5) == (False, None)
    assert opened.start(11, "agent", 0.5) == (True, None)
    assert opened.start(12, "agent", 0.5) == (True, None)
    assert opened.start(13, "agent", 0.5) == (False, None)


def test_for_a_full_table_the_oldest_of_an_unknown_address_ends() -> None:
    opened = handshakes("agent", "b", "c", "d", "e", "f")
    opened.remember("agent")
    assert opened.start(10, "g", 2.0) == (True, 1)


def test_a_connection_that_is_set_up_or_has_ended_releases_its_slot() -> None:
    opened = handshakes("a", "a", "a", "a")
    opened.end(2)
    opened.end(2)
    assert opened.start(10, "a", 0.5) == (True, None)


def test_connections_that_are_too_old_are_found() -> None:
    opened = handshakes("a", "b")
    opened.start(10, "c", 3.0)
    assert opened.older_than(0.0) == []
    assert opened.older_than(1.0) == [0, 1]
    assert opened.older_than(4.0) == [0, 1, 10]


def test_the_number_of_known_addresses_is_limited() -> None:
    opened = handshakes()
    for number in range(5000):
        opened.remember(f"address {number}")
    assert len(opened._known) == 4096
