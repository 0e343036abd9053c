"""Which streams are open, over or not there yet."""

import pytest

from ankaios.middleware.http2_engine.errors import ProtocolError
from ankaios.middleware.http2_engine.streams import StreamState, StreamTable


def a_table(*, client_side: bool) -> StreamTable:
    """Streams 1 to 5 were opened, 3 is still open."""
    table = StreamTable(client_side=client_side)
    if client_side:
        table.next_own = 7
    else:
        table.last_of_peer = 5
    table.open[3] = StreamState(3, 10, 10)
    return table


@pytest.mark.parametrize("client_side", [True, False])
def test_a_stream_is_open_or_over_or_not_there_yet(client_side: bool) -> None:
    table = a_table(client_side=client_side)
    assert table.find(3) is table.open[3]
    assert table.find(1) is None
    assert table.find(5) is None
    for stream_id in (0, 2, 4, 7, 9, 2**31 - 1):
        with pytest.raises(ProtocolError, match="was not opened"):
            table.find(stream_id)


def test_a_request_is_odd_and_higher_than_the_one_before() -> None:
    table = a_table(client_side=False)
    assert [number for number in range(10) if table.is_request(number)] == [7, 9]


def test_nobody_opens_a_stream_towards_a_client() -> None:
    assert not any(a_table(client_side=True).is_request(number) for number in range(10))


def test_a_stream_is_over_when_both_sides_have_ended_it() -> None:
    table = a_table(client_side=False)
    stream = table.open[3]
    table.end_if_done(stream)
    stream.peer_ended = True
    table.end_if_done(stream)
    assert table.find(3) is stream
    stream.we_ended = True
    table.end_if_done(stream)
    assert table.find(3) is None
    assert not table.was_reset(3)


def test_only_the_latest_resets_are_remembered() -> None:
    table = a_table(client_side=False)
    table.remember_reset(3)
    assert table.find(3) is None
    assert table.was_reset(3)
    for stream_id in range(5, 5 + 128):
        table.remember_reset(stream_id)
    assert not table.was_reset(3)
    assert table.was_reset(5)
    assert len(table._reset) == 128
