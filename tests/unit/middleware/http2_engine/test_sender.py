"""What an engine says, and what it does not let out."""

import pytest

from ankaios.middleware.http2_engine.engine import Http2Engine
from ankaios.middleware.http2_engine.errors import CANCEL, ENHANCE_YOUR_CALM, NO_ERROR, CannotSend
from ankaios.middleware.http2_engine.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)
from ankaios.middleware.http2_engine.hpack_decoder import HpackDecoder
from ankaios.middleware.http2_engine.hpack_encoder import encode
from ankaios.middleware.http2_engine.settings import (
    ENABLE_PUSH,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    encode_settings,
)
from tests.unit.middleware.http2_engine.support import (
    REQUEST,
    RESPONSE,
    TRAILERS,
    a_calling_client,
    a_client,
    a_server,
    a_serving_server,
    frames_in,
    headers_frame,
    said_by,
)


def settings_frame(settings: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, encode_settings(settings))


def test_a_client_begins_with_the_preface_its_settings_and_its_window() -> None:
    engine = Http2Engine(client_side=True, window=100_000, max_frame=20_000, max_header_bytes=5_000)
    engine.begin()
    said = engine.take_outgoing()
    settings = {INITIAL_WINDOW_SIZE: 100_000, MAX_FRAME_SIZE: 20_000, MAX_HEADER_LIST_SIZE: 5_000, ENABLE_PUSH: 0}
    assert said[: len(PREFACE)] == PREFACE
    assert frames_in(said[len(PREFACE) :]) == [
        (SETTINGS, 0, 0, encode_settings(settings)),
        (WINDOW_UPDATE, 0, 0, (100_000 - 65_535).to_bytes(4, "big")),
    ]


def test_a_server_begins_with_its_settings_and_its_window() -> None:
    engine = Http2Engine(client_side=False, window=1, max_streams=7, max_frame=1)
    engine.begin()
    settings = {
        INITIAL_WINDOW_SIZE: 65_535,
        MAX_FRAME_SIZE: 16_384,
        MAX_HEADER_LIST_SIZE: 16_384,
        MAX_CONCURRENT_STREAMS: 7,
    }
    assert said_by(engine) == [(SETTINGS, 0, 0, encode_settings(settings))], "less than the defaults is not possible"


def test_streams_of_a_client_are_odd_and_rise() -> None:
    engine = a_client()
    assert [engine.open_stream(REQUEST) for _ in range(3)] == [1, 3, 5]
    kinds = [(kind, flags, stream) for kind, flags, stream, _ in said_by(engine)]
    assert kinds == [(HEADERS, END_HEADERS, 1), (HEADERS, END_HEADERS, 3), (HEADERS, END_HEADERS, 5)]


def test_only_the_first_headers_say_that_no_table_is_needed() -> None:
    engine = a_client()
    engine.open_stream(REQUEST)
    engine.open_stream(REQUEST, end=True)
    assert said_by(engine) == [
        (HEADERS, END_HEADERS, 1, b"\x20" + encode(REQUEST)),
        (HEADERS, END_HEADERS | END_STREAM, 3, encode(REQUEST)),
    ]


def test_headers_larger_than_a_frame_are_continued() -> None:
    engine = a_serving_server()
    headers = [*RESPONSE, ("grpc-message", "x" * 40_000)]
    engine.send_headers(1, headers, end=True)
    said = said_by(engine)
    assert [(kind, flags, stream, len(payload)) for kind, flags, stream, payload in said[:2]] == [
        (HEADERS, END_STREAM, 1, 16_384),
        (CONTINUATION, 0, 1, 16_384),
    ]
    assert said[2][:3] == (CONTINUATION, END_HEADERS, 1)
    block = b"".join(payload for *_, payload in said)
    assert HpackDecoder(2**20).decode(block)[-1] == (b"grpc-message", b"x" * 40_000)


def test_headers_may_be_none() -> None:
    engine = a_serving_server()
    engine.send_headers(1, RESPONSE, end=False)
    engine.take_outgoing()
    engine.send_headers(1, [], end=True)
    assert said_by(engine) == [(HEADERS, END_HEADERS | END_STREAM, 1, b"")]


def test_data_is_sent_as_far_as_the_peer_takes_it() -> None:
    engine = a_calling_client()
    sent = 0
    while (size := engine.sendable(1)) > 0:
        assert size <= 16_384
        engine.send_data(1, memoryview(bytes(size)))
        sent += size
    assert sent == 65_535
    assert sum(len(payload) for *_, payload in said_by(engine)) == sent
    with pytest.raises(CannotSend, match="does not take 1 bytes now"):
        engine.send_data(1, b"x")
    engine.send_data(1, b"", end=True)
    assert said_by(engine) == [(DATA, END_STREAM, 1, b"")]


def test_windows_of_stream_and_connection_both_count() -> None:
    engine = a_calling_client()
    engine.receive(settings_frame({INITIAL_WINDOW_SIZE: 100, MAX_FRAME_SIZE: 100_000}))
    assert engine.sendable(1) == 100
    engine.receive(frame(WINDOW_UPDATE, 0, 1, (300_000).to_bytes(4, "big")))
    assert engine.sendable(1) == 65_535
    engine.receive(frame(WINDOW_UPDATE, 0, 0, (1_000_000).to_bytes(4, "big")))
    assert engine.sendable(1) == 100_000
    engine.send_data(1, bytes(100_000))
    engine.receive(settings_frame({INITIAL_WINDOW_SIZE: 0, MAX_FRAME_SIZE: 16_777_215}))
    assert engine.sendable(1) == 300_100 - 100_000 - 100
    engine.receive(settings_frame({INITIAL_WINDOW_SIZE: 50}))
    assert engine.sendable(engine.open_stream(REQUEST)) == 50


def test_streams_share_the_window_of_the_connection() -> None:
    engine = a_calling_client()
    other = engine.open_stream(REQUEST)
    for size in (16_384, 16_384, 16_384, 10_000):
        engine.send_data(1, bytes(size))
    assert engine.sendable(other) == 65_535 - 3 * 16_384 - 10_000
    engine.send_data(other, bytes(engine.sendable(other)))
    assert engine.sendable(1) == 0
    engine.receive(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\5"))
    assert engine.sendable(1) == engine.sendable(other) == 5


def test_a_window_that_shrinks_after_the_fact_is_negative() -> None:
    engine = a_calling_client()
    engine.send_data(1, bytes(1_000))
    engine.receive(settings_frame({INITIAL_WINDOW_SIZE: 100}))
    assert engine.sendable(1) == -900
    engine.receive(frame(WINDOW_UPDATE, 0, 1, (901).to_bytes(4, "big")))
    assert engine.sendable(1) == 1


def test_nothing_is_sent_on_a_stream_that_we_ended() -> None:
    engine = a_calling_client()
    engine.end_stream(1)
    assert said_by(engine) == [(DATA, END_STREAM, 1, b"")]
    assert engine.sendable(1) == 0
    with pytest.raises(CannotSend, match="stream 1 is over"):
        engine.send_data(1, b"x")
    with pytest.raises(CannotSend, match="stream 1 is over"):
        engine.send_headers(1, TRAILERS, end=True)
    assert said_by(engine) == []


def test_nothing_is_sent_on_a_stream_that_was_reset() -> None:
    engine = a_serving_server()
    engine.reset(1)
    assert said_by(engine) == [(RST_STREAM, 0, 1, CANCEL.to_bytes(4, "big"))]
    engine.reset(1)
    engine.reset(9)
    assert said_by(engine) == []
    assert engine.sendable(1) == 0
    for stream_id in (1, 9):
        with pytest.raises(CannotSend):
            engine.end_stream(stream_id)


def test_a_complete_answer_can_be_followed_by_a_reset_without_error() -> None:
    engine = a_serving_server()
    engine.send_headers(1, RESPONSE, end=True)
    engine.reset(1, NO_ERROR)
    assert said_by(engine)[-1] == (RST_STREAM, 0, 1, bytes(4))


def test_no_more_streams_are_opened_than_the_peer_takes() -> None:
    engine = a_client()
    engine.receive(settings_frame({MAX_CONCURRENT_STREAMS: 1}))
    engine.open_stream(REQUEST, end=True)
    with pytest.raises(CannotSend, match="no more streams"):
        engine.open_stream(REQUEST)
    engine.receive(headers_frame(1, RESPONSE, END_HEADERS | END_STREAM))
    assert engine.open_stream(REQUEST) == 3


def test_stream_ids_end_some_day() -> None:
    engine = a_client()
    engine._streams.next_own = 2**31 - 1
    assert engine.open_stream(REQUEST) == 2**31 - 1
    with pytest.raises(CannotSend, match="no more streams"):
        engine.open_stream(REQUEST)


def test_pings_carry_eight_bytes() -> None:
    engine = a_client()
    engine.ping(b"ankaios?")
    assert said_by(engine) == [(PING, 0, 0, b"ankaios?")]


def test_a_farewell_says_which_streams_were_looked_at_and_why() -> None:
    engine = a_serving_server()
    engine.goaway(ENHANCE_YOUR_CALM, "zu große" + "x" * 1_000)
    ((kind, _, _, payload),) = said_by(engine)
    assert kind == GOAWAY
    assert payload[:8] == b"\0\0\0\1\0\0\0\x0b"
    assert payload[8:16] == b"zu gro?e"
    assert len(payload) == 8 + 256


def test_window_updates_are_bundled() -> None:
    engine = a_server()
    engine.receive(headers_frame(1, REQUEST))
    half = 1024 * 1024
    for _ in range(4):
        engine.receive(frame(DATA, 0, 1, bytes(half // 4)))
    engine.acknowledge(1, half - 1)
    assert said_by(engine) == []
    engine.acknowledge(1, 1)
    update = half.to_bytes(4, "big")
    assert said_by(engine) == [(WINDOW_UPDATE, 0, 0, update), (WINDOW_UPDATE, 0, 1, update)]


def test_a_stream_that_the_peer_has_ended_needs_no_window() -> None:
    engine = a_server()
    engine.receive(headers_frame(1, REQUEST))
    half = 1024 * 1024
    for last in (0, 0, 0, END_STREAM):
        engine.receive(frame(DATA, last, 1, bytes(half // 4)))
    engine.acknowledge(1, half)
    assert said_by(engine) == [(WINDOW_UPDATE, 0, 0, half.to_bytes(4, "big"))]


def test_what_is_queued_is_taken_once() -> None:
    engine = a_client()
    assert engine.take_outgoing() == b""
    engine.ping(bytes(8))
    assert engine.take_outgoing() == frame(PING, 0, 0, bytes(8))
    assert engine.take_outgoing() == b""
