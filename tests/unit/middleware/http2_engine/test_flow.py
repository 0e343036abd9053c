"""Windows: what may be sent, and when the peer is told to go on."""

from hypothesis import given
from hypothesis import strategies as st

from ankaios.middleware.http2_engine.flow import LARGEST_WINDOW, ReceiveWindow, SendWindow


def test_a_send_window_may_be_as_large_as_the_rfc_allows() -> None:
    window = SendWindow(10)
    assert window.grow(LARGEST_WINDOW - 10)
    assert window.left == LARGEST_WINDOW
    assert not window.grow(1)


def test_a_send_window_may_become_negative_and_recover() -> None:
    window = SendWindow(10)
    assert window.grow(-30)
    assert window.left == -20
    assert window.grow(25)
    assert window.left == 5


def test_a_receive_window_can_be_filled_but_not_more() -> None:
    window = ReceiveWindow(10)
    assert window.fill(10)
    assert not window.fill(1)


def test_the_peer_is_told_to_go_on_after_half_a_window() -> None:
    window = ReceiveWindow(10)
    assert window.fill(10)
    window = ReceiveWindow(10)
    assert [window.fill(1) and window.use(1) for _ in range(10)] == [0, 0, 0, 0, 5, 0, 0, 0, 0, 5]


def test_the_peer_is_told_at_once_when_others_have_left_it_no_room() -> None:
    window = ReceiveWindow(10)
    assert window.fill(10)
    assert window.use(1) == 1
    assert window.fill(1)
    assert not window.fill(1)


@given(st.integers(1, 1000), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=200))
def test_a_receive_window_never_gives_more_than_its_size_and_never_starves_a_sender(
    size: int, steps: list[tuple[int, int]]
) -> None:
    window, left, unused = ReceiveWindow(size), size, 0
    for arriving, used in steps:
        arriving = min(arriving, left)
        assert window.fill(arriving)
        left, unused = left - arriving, unused + arriving
        used = min(used, unused)
        unused -= used
        left += window.use(used)
        assert left + unused <= size
        assert left > 0 or unused == size
