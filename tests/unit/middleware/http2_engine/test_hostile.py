"""Whatever bytes come: nothing but a `ProtocolError`, and no more memory than was promised."""

import sys
from typing import Any

import pytest
from h2.connection import H2Connection
from hypothesis import given, settings
from hypothesis import strategies as st

from ankaios.middleware.http2_engine.engine import Http2Engine
from ankaios.middleware.http2_engine.errors import CannotSend, ProtocolError
from ankaios.middleware.http2_engine.events import DataReceived, RequestReceived
from ankaios.middleware.http2_engine.frames import GOAWAY, PREFACE, frame, frame_header
from tests.unit.middleware.http2_engine.support import (
    NO_SETTINGS,
    REQUEST,
    RESPONSE,
    TRAILERS,
    a_server,
    frames_in,
    headers_frame,
)

MAX_HELD = 400_000  # the largest frame has 256 KiB


def held(thing: Any) -> int:
    """Bytes an engine holds on to, all in all."""
    size = sys.getsizeof(thing)
    if isinstance(thing, dict):
        size += sum(held(key) + held(value) for key, value in thing.items())
    elif isinstance(thing, list | tuple):
        size += sum(held(it) for it in thing)
    elif not isinstance(thing, int | str | bytes | bytearray | memoryview):
        attributes = list(getattr(thing, "__dict__", ()))
        attributes += [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        size += sum(held(getattr(thing, name)) for name in attributes)
    return size


def fed(engine: Http2Engine, data: bytes, cuts: list[int]) -> None:
    """As the link does it: events are handled, answers are taken; a failure is told and ends it."""
    at = turn = 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        try:
            for event in engine.receive(data[at : at + size]):
                if isinstance(event, DataReceived):
                    engine.acknowledge(event.stream_id, len(event.data))
                elif isinstance(event, RequestReceived):
                    answer(engine, event.stream_id)
        except ProtocolError as error:
            last = frames_in(engine.take_outgoing())[-1]
            assert last[0] == GOAWAY
            assert int.from_bytes(last[3][4:8], "big") == error.code
            assert engine.receive(data) == []
            return
        engine.take_outgoing()
        engine._events = []
        at, turn = at + size, turn + 1
    assert held(engine) < MAX_HELD


def answer(engine: Http2Engine, stream_id: int) -> None:
    try:
        engine.send_headers(stream_id, RESPONSE, end=False)
        engine.send_data(stream_id, b"x" * min(10, engine.sendable(stream_id)))
    except CannotSend:
        assert stream_id not in engine._streams.open


def a_conversation() -> bytes:
    """What a client of the library h2 says in two calls, with Huffman and a header table."""
    client = H2Connection()
    client.initiate_connection()
    for stream_id in (1, 3):
        client.send_headers(stream_id, [*REQUEST, ("user-agent", "grpc-c/1.2 (linux)"), ("x-long", "y" * 300)])
        client.send_data(stream_id, b"hello" * 20, pad_length=5)
        client.ping(b"12345678")
        client.send_data(stream_id, b"more", end_stream=stream_id == 1)
    client.increment_flow_control_window(1_000)
    client.increment_flow_control_window(1_000, 3)
    client.send_headers(3, TRAILERS, end_stream=True)
    data: bytes = client.data_to_send()
    return data


CONVERSATION = a_conversation()
cuts = st.lists(st.integers(1, 400), min_size=1, max_size=5)
frames = st.builds(
    frame,
    st.integers(0, 11),
    st.integers(0, 255) | st.sampled_from([0, 1, 4, 5]),
    st.sampled_from([0, 1, 3, 5, 7]) | st.integers(0, 2**31 - 1),
    st.binary(max_size=40)
    | st.sampled_from([bytes(4), bytes(5), bytes(8), b"\0\0\0\1", headers_frame(1, REQUEST)[9:]]),
)
mutations = st.lists(
    st.tuples(st.integers(0, len(CONVERSATION) - 1), st.sampled_from(["set", "cut", "put"]), st.binary(max_size=12)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(st.booleans(), st.binary(max_size=300), cuts)
def test_random_bytes(begin_well: bool, data: bytes, cut: list[int]) -> None:
    fed(Http2Engine(client_side=False), (PREFACE + NO_SETTINGS) * begin_well + data, cut)
    fed(Http2Engine(client_side=True), NO_SETTINGS * begin_well + data, cut)


@settings(max_examples=200, deadline=None)
@given(st.lists(frames, max_size=30), cuts)
def test_random_frames(said: list[bytes], cut: list[int]) -> None:
    fed(Http2Engine(client_side=False), PREFACE + NO_SETTINGS + headers_frame(1, REQUEST) + b"".join(said), cut)
    client = Http2Engine(client_side=True)
    client.open_stream(REQUEST)
    fed(client, NO_SETTINGS + b"".join(said), cut)


@settings(max_examples=200, deadline=None)
@given(mutations, cuts)
def test_a_damaged_conversation(damages: list[tuple[int, str, bytes]], cut: list[int]) -> None:
    data = CONVERSATION
    for at, kind, part in damages:
        rest = at if kind == "put" else at + len(part)
        data = data[:at] + (b"" if kind == "cut" else part) + data[rest:]
    fed(Http2Engine(client_side=False), data, cut)


def test_the_conversation_as_it_was_meant() -> None:
    engine = Http2Engine(client_side=False)
    events = engine.receive(CONVERSATION)
    assert sum(len(event.data) for event in events if isinstance(event, DataReceived)) == 2 * 104
    assert [type(event).__name__ for event in events].count("StreamEnded") == 2


@pytest.mark.parametrize(
    "flood",
    [
        frame(6, 0, 0, bytes(8)),  # pings
        frame(4, 0, 0, b"\0\4\0\0\0\0"),  # settings
        frame(2, 0, 9, bytes(5)),  # priorities
        frame(0x77, 0, 0, bytes(100)),  # unknown frames
        frame(0, 0, 1),  # empty data
        frame(0, 8, 1, b"\5" + bytes(5)),  # data that is only padding
        frame(0, 0, 3, bytes(1_000)),  # data for a stream that is over
        frame(8, 0, 3, b"\0\0\0\1"),  # window updates for it
        frame(3, 0, 3, bytes(4)),  # resets of it
    ],
)
def test_a_flood_leaves_nothing_behind(flood: bytes) -> None:
    engine = a_server()
    engine.receive(headers_frame(1, REQUEST) + headers_frame(3, REQUEST) + frame(3, 0, 3, bytes(4)))
    before = held(engine)
    fed(engine, flood * 3_000, [65_536])
    assert held(engine) < before + 70_000, "at most what was read last and a frame that is not complete"


def test_streams_that_are_opened_and_reset_leave_nothing_behind() -> None:
    engine = a_server()
    before = held(engine)
    flood = [headers_frame(stream_id, REQUEST) + frame(3, 0, stream_id, bytes(4)) for stream_id in range(1, 20_001, 2)]
    fed(engine, b"".join(flood), [65_536])
    assert held(engine) < before + 2_000


def test_refused_streams_leave_nothing_behind() -> None:
    engine = a_server(max_streams=1)
    before = held(engine)
    flood = [headers_frame(stream_id, REQUEST) + frame(0, 0, stream_id, b"x") for stream_id in range(1, 20_001, 2)]
    fed(engine, b"".join(flood), [65_536])
    assert held(engine) < before + 20_000


def test_a_large_frame_byte_by_byte_is_looked_at_once() -> None:
    """Else the time would grow with the square of its size; the test would take minutes."""
    engine = a_server()
    engine.receive(headers_frame(1, REQUEST) + frame_header(0, 0, 1, 200_000))
    for _ in range(199_999):
        assert engine.receive(b"x") == []
    (event,) = engine.receive(b"x")
    assert isinstance(event, DataReceived)
    assert len(event.data) == 200_000
