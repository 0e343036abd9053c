from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.linearizability import NEVER, Recorded, is_linearizable, violations


def write(start: float, end: float, value: object) -> Recorded:
    return Recorded(start, end, value)


def read(start: float, end: float, value: object) -> Recorded:
    return Recorded(start, end, value, writes=False)


def test_a_read_returns_the_last_written_value() -> None:
    assert is_linearizable([write(0, 1, "a"), read(2, 3, "a")])
    assert not is_linearizable([write(0, 1, "a"), read(2, 3, None)])
    assert is_linearizable([read(0, 1, None)])


def test_concurrent_operations_may_have_any_order() -> None:
    history = [write(0, 10, "a"), write(0, 10, "b")]
    assert is_linearizable([*history, read(11, 12, "a")])
    assert is_linearizable([*history, read(11, 12, "b")])
    assert not is_linearizable([*history, read(11, 12, "a"), read(13, 14, "b")])


def test_a_lost_acknowledged_write_is_found() -> None:
    assert not is_linearizable([write(0, 1, "a"), write(2, 3, "b"), read(4, 5, "a")])


def test_an_unknown_write_may_have_happened_at_any_time_or_never() -> None:
    unknown = write(0, NEVER, "a")
    assert is_linearizable([unknown, read(1, 2, None)])
    assert is_linearizable([unknown, read(1, 2, "a")])
    assert is_linearizable([unknown, read(1, 2, None), read(3, 4, "a")])
    assert not is_linearizable([unknown, read(1, 2, "a"), read(3, 4, None)])


def test_a_value_that_was_never_written_is_found() -> None:
    assert violations({"good": [write(0, 1, 1)], "bad": [read(0, 1, 7)]}) == ["bad"]


def naive(history: list[Recorded]) -> bool:
    for order in permutations(history):
        value: object = None
        respects_time = all(
            not order[later].end < order[earlier].start
            for earlier in range(len(order))
            for later in range(earlier + 1, len(order))
        )
        for operation in order if respects_time else ():
            if operation.writes:
                value = operation.value
            elif operation.value != value:
                respects_time = False
        if respects_time:
            return True
    return False


@given(
    st.lists(
        st.builds(
            lambda start, length, value, writes: Recorded(start, start + length, value, writes),
            *(st.integers(0, 6), st.integers(0, 4), st.integers(0, 2), st.booleans()),
        ),
        max_size=5,
    )
)
def test_it_agrees_with_trying_all_orders(history: list[Recorded]) -> None:
    assert is_linearizable(history) == naive(history)
