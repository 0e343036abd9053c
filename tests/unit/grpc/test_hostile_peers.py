"""Any bytes of a peer cause no exception and use limited memory."""

import gc
import tracemalloc
from collections.abc import Iterator

import pytest
from h2.settings import SettingCodes
from hypothesis import given
from hypothesis import strategies as st

from ankaios.grpc.call_state import CallState
from ankaios.grpc.http2_connection import Http2Connection
from ankaios.grpc.wire_format import ConnectionBroken
from tests.support.examples import examples
from tests.unit.grpc.h2_peer import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    REQUEST,
    RESPONSE,
    RST_STREAM,
    SETTINGS,
    TRAILERS,
    WINDOW_UPDATE,
    Pair,
    a_called_server,
    a_client,
    a_server,
    raw_frame,
)

START = PREFACE + raw_frame(SETTINGS, 0, 0)
CUTS = st.lists(st.integers(1, 200), min_size=1, max_size=10)
MANY = examples(100)


def fed(http2: Http2Connection, data: bytes, cuts: list[int]) -> None:
    """Behaves like a connection: calls are answered, and output is read."""
    at = turn = 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        for call in http2.receive(data[at : at + size], turn):
            answer(call, turn)
        for call in tuple(http2.calls.values()):
            call.request_more()
        while http2.take_outgoing(with_data=bool(turn % 3)):
            pass
        at, turn = at + size, turn + 1
    if http2.failure is not None:
        assert http2.receive(data, turn) == []
        assert not http2.calls


def answer(call: CallState, turn: int) -> None:
    try:
        call.send_headers(RESPONSE)
        call.write(b"answer")
        if turn % 2:
            call.finish(TRAILERS)
    except ConnectionBroken:
        assert call.broken


def a_sequence_of_calls() -> bytes:
    """The bytes that a client using h2 sends in two calls, with Huffman codes and a header table."""
    client = a_server().peer
    for stream_id in (1, 3):
        client.send_headers(stream_id, [*REQUEST, ("user-agent", "grpc-c/1.2 (linux)"), ("x-long", "y" * 300)])
        client.send_data(stream_id, b"hello" * 20, pad_length=5)
        client.ping(b"12345678")
        client.send_data(stream_id, b"more", end_stream=stream_id == 1)
    client.increment_flow_control_window(1_000)
    client.increment_flow_control_window(1_000, 3)
    client.send_headers(3, TRAILERS, end_stream=True)
    return START + client.data_to_send()


CALLS = a_sequence_of_calls()


def frames() -> st.SearchStrategy[bytes]:
    """Frames of the right length with any other part invalid, some with valid headers."""
    blocks = st.sampled_from([a_server().peer.encoder.encode(REQUEST), a_server().peer.encoder.encode(RESPONSE)])
    return st.builds(
        raw_frame,
        st.integers(0, 12),
        st.one_of(st.sampled_from([0, 1, 4, 5, 8, 0x20]), st.integers(0, 255)),
        st.one_of(st.sampled_from([0, 1, 2, 3, 5]), st.integers(0, 2**32 - 1)),
        st.one_of(blocks, st.binary(max_size=40), st.binary(min_size=4, max_size=8)),
    )


@MANY
@given(st.booleans(), st.binary(max_size=500), CUTS)
def test_random_bytes(starts_well: bool, data: bytes, cuts: list[int]) -> None:
    fed(Http2Connection(CallState, client_side=False), (START if starts_well else b"") + data, cuts)


@MANY
@given(st.lists(frames(), max_size=20), CUTS)
def test_random_frames_to_a_server(data: list[bytes], cuts: list[int]) -> None:
    http2 = Http2Connection(CallState, client_side=False)
    request = raw_frame(HEADERS, END_HEADERS, 1, a_server().peer.encoder.encode(REQUEST))
    fed(http2, START + request + b"".join(data), cuts)


@MANY
@given(st.lists(frames(), max_size=20), CUTS)
def test_random_frames_to_a_client(data: list[bytes], cuts: list[int]) -> None:
    pair = a_client()
    for _ in range(2):
        pair.http2.open_call(REQUEST).write(bytes(100_000))
    fed(pair.http2, b"".join(data), cuts)


@MANY
@given(
    st.lists(st.tuples(st.integers(0, len(CALLS) - 1), st.sampled_from("xid"), st.binary(max_size=5)), max_size=4),
    CUTS,
)
def test_damaged_calls(damages: list[tuple[int, str, bytes]], cuts: list[int]) -> None:
    data = bytearray(CALLS)
    for at, operation, new in damages:
        data[at : at + (0 if operation == "i" else 3)] = b"" if operation == "d" else new
    fed(Http2Connection(CallState, client_side=False), bytes(data), cuts)


def test_the_calls_without_damage_are_accepted() -> None:
    http2 = Http2Connection(CallState, client_side=False)
    calls = http2.receive(CALLS, 0)
    assert len(calls) == 2
    assert all(call.peer_ended for call in calls)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


SLOW_FLOODS = {
    "ping": raw_frame(PING, 0, 0, b"12345678"),
    "ping response": raw_frame(PING, ACK, 0, b"12345678"),
    "settings": raw_frame(SETTINGS, 0, 0, b"\0\1\0\0\x10\0" * 10),
    "settings response": raw_frame(SETTINGS, ACK, 0),
    "priority": raw_frame(PRIORITY, 0, 1, b"\0\0\0\5\1"),
    "unknown": raw_frame(99, 0, 0, b"x" * 20),
    "window update": raw_frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"),
    "empty data": raw_frame(DATA, 0, 1),
    "padded data": raw_frame(DATA, PADDED, 1, b"\4    "),
    "reset of a stream that is over": raw_frame(RST_STREAM, 0, 3, bytes(4)),
}


@pytest.mark.parametrize("kind", SLOW_FLOODS)
def test_frames_below_the_limit_of_a_second_use_no_memory_afterwards(kind: str, traced: None) -> None:
    pair, _ = a_called_server()
    pair.peer.send_headers(3, REQUEST)
    pair.peer.reset_stream(3)
    pair.exchange()
    before = held()
    for _ in range(2):
        pair.now += 2
        pair.receive(SLOW_FLOODS[kind] * 900)
        pair.http2.take_outgoing()
    assert pair.http2.failure is None
    assert held() - before < 8_000  # about four bytes for each frame


def test_repeated_changes_of_the_header_table_size_use_no_memory_afterwards(traced: None) -> None:
    pair, _ = a_called_server()
    before = held()
    for _ in range(2):
        pair.now += 2
        pair.receive(raw_frame(SETTINGS, 0, 0, b"\0\1\0\0\0\1") + raw_frame(SETTINGS, 0, 0, b"\0\1\0\0\0\2"), times=450)
        pair.http2.take_outgoing()
    assert pair.http2.failure is None
    assert held() - before < 8_000


def test_a_peer_cannot_make_our_header_table_grow() -> None:
    pair = a_server()
    pair.peer.update_settings({SettingCodes.HEADER_TABLE_SIZE: 2**31})
    for number in range(200):
        pair.now += 2
        stream_id = 2 * number + 1
        pair.peer.send_headers(stream_id, REQUEST)
        (call,) = pair.exchange()
        call.send_headers(RESPONSE)
        call.finish([("grpc-status", "3"), ("grpc-message", f"{number:0900}")])
        pair.exchange()
    assert pair.http2.failure is None
    assert pair.http2._h2.encoder.header_table._current_size <= 4096


def open_and_reset(pair: Pair, count: int) -> None:
    for _ in range(count):
        stream_id = pair.peer.get_next_available_stream_id()
        pair.peer.send_headers(stream_id, REQUEST)
        pair.peer.reset_stream(stream_id)
    pair.receive(pair.peer.data_to_send())
    pair.http2.take_outgoing()


def test_calls_that_are_opened_and_reset_use_no_memory_afterwards() -> None:
    pair = a_server()
    for _ in range(10):
        pair.now += 2
        open_and_reset(pair, 200)
    assert pair.http2.failure is None
    assert not pair.http2.calls
    assert len(pair.http2._h2.streams) + len(pair.http2._h2._closed_streams) < 200


def test_calls_that_are_opened_and_reset_immediately_end_the_connection() -> None:
    pair = a_server()
    open_and_reset(pair, 600)
    assert pair.http2.meter.is_flooded


def test_many_empty_continuations_end_the_connection() -> None:
    pair = a_server()
    pair.receive(raw_frame(HEADERS, 0, 1), raw_frame(CONTINUATION, 0, 1) * 100)
    assert pair.http2.failure is not None


def test_a_large_frame_received_byte_by_byte_is_parsed_once() -> None:
    """Otherwise the time would grow with the square of its size, and the test would take minutes."""
    pair, call = a_called_server()
    pair.receive(raw_frame(DATA, 0, 1, size=200_000))
    for _ in range(200_000):
        pair.receive(b"x")
    assert pair.http2.failure is None
    assert len(call._inbox) == 200_000


def test_only_the_incomplete_frame_is_stored(traced: None) -> None:
    pair, _ = a_called_server()
    before = held()
    pair.receive(raw_frame(DATA, 0, 1, b"x" * 200_000, size=262_144))
    assert held() - before < 300_000
