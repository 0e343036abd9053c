"""Headers and data: from bytes to events, and what happens to those that break the rules."""

import pytest

from ankaios.middleware.http2_engine.engine import Http2Engine
from ankaios.middleware.http2_engine.errors import (
    COMPRESSION_ERROR,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    ProtocolError,
)
from ankaios.middleware.http2_engine.events import (
    DataReceived,
    Event,
    Headers,
    HeadersReceived,
    RequestReceived,
    StreamReset,
    TrailersReceived,
)
from ankaios.middleware.http2_engine.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    RST_STREAM,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    frame,
)
from ankaios.middleware.http2_engine.hpack_encoder import encode
from tests.unit.middleware.http2_engine.support import (
    NO_SETTINGS,
    REQUEST,
    RESPONSE,
    TRAILERS,
    a_calling_client,
    a_client,
    a_server,
    a_serving_server,
    headers_frame,
    names,
    said_by,
)

END = END_HEADERS | END_STREAM
MIB = 1024 * 1024


def refusal(engine: Http2Engine, data: bytes) -> int:
    with pytest.raises(ProtocolError) as failure:
        engine.receive(data)
    return failure.value.code


def broken(events: list[Event]) -> tuple[int, int]:
    """Stream and code of the one event, which is a reset of ours."""
    (event,) = events
    assert isinstance(event, StreamReset)
    assert not event.by_peer
    assert event.text
    return event.stream_id, event.code


def reset_frame(stream_id: int, code: int) -> tuple[int, int, int, bytes]:
    return RST_STREAM, 0, stream_id, code.to_bytes(4, "big")


# The way it should be


def test_two_engines_have_a_conversation() -> None:
    client, server = Http2Engine(client_side=True), Http2Engine(client_side=False)
    client.begin()
    server.begin()
    stream_id = client.open_stream(REQUEST)
    client.send_data(stream_id, b"question")
    client.end_stream(stream_id)
    assert names(server.receive(client.take_outgoing())) == [
        "SettingsReceived",
        "WindowUpdated",
        "RequestReceived",
        "DataReceived",
        "StreamEnded",
    ]
    server.send_headers(stream_id, RESPONSE, end=False)
    server.send_data(stream_id, b"answer")
    server.send_headers(stream_id, TRAILERS, end=True)
    events = client.receive(server.take_outgoing())
    assert names(events) == [
        "SettingsReceived",
        "WindowUpdated",
        "Chatter",
        "HeadersReceived",
        "DataReceived",
        "TrailersReceived",
        "StreamEnded",
    ]
    assert not client._streams.open
    assert not server._streams.open
    assert isinstance(events[3], HeadersReceived)
    assert isinstance(events[4], DataReceived)
    assert isinstance(events[5], TrailersReceived)
    assert (events[3].headers, events[4].data, events[5].headers) == (RESPONSE, b"answer", TRAILERS)


def test_a_request_brings_its_headers() -> None:
    (event,) = a_server().receive(headers_frame(1, REQUEST))
    assert isinstance(event, RequestReceived)
    assert (event.stream_id, event.headers) == (1, REQUEST)


def test_a_request_may_be_all() -> None:
    assert names(a_server().receive(headers_frame(7, REQUEST, END))) == ["RequestReceived", "StreamEnded"]


def test_a_response_may_be_all() -> None:
    engine = a_calling_client()
    assert names(engine.receive(headers_frame(1, RESPONSE, END))) == ["HeadersReceived", "StreamEnded"]
    assert engine.sendable(1) > 0, "we have not ended it"


def test_interim_responses_are_no_answer() -> None:
    engine = a_calling_client()
    assert names(engine.receive(headers_frame(1, [(":status", "103")]) * 2)) == ["Chatter"] * 2
    assert names(engine.receive(headers_frame(1, RESPONSE))) == ["HeadersReceived"]


def test_headers_come_in_pieces_with_padding_and_priority() -> None:
    block = encode(REQUEST)
    engine = a_server()
    start = b"\3" + bytes(5) + block[:4] + bytes(3)
    pieces = frame(HEADERS, PADDED | WITH_PRIORITY | END_STREAM, 1, start) + frame(CONTINUATION, 0, 1, block[4:9])
    assert engine.receive(pieces) == []
    events = engine.receive(frame(CONTINUATION, END_HEADERS, 1, block[9:]))
    assert names(events) == ["RequestReceived", "StreamEnded"]
    assert isinstance(events[0], RequestReceived)
    assert events[0].headers == REQUEST
    assert names(engine.receive(headers_frame(3, REQUEST))) == ["RequestReceived"]


def test_padding_counts_for_the_window_and_is_given_back_at_once() -> None:
    engine = a_serving_server()
    padded = frame(DATA, PADDED, 1, b"\xff" + b"x" + bytes(255))
    for number in range(8 * MIB // 257):
        (event,) = engine.receive(padded)
        assert isinstance(event, DataReceived)
        assert event.data == b"x"
        if number % 100 == 0:
            engine.acknowledge(1, 100)
    assert {kind for kind, *_ in said_by(engine)} == {WINDOW_UPDATE}


def test_empty_data_is_told_unless_it_only_ends_the_stream() -> None:
    engine = a_serving_server()
    assert names(engine.receive(frame(DATA, 0, 1))) == ["DataReceived"]
    assert names(engine.receive(frame(DATA, END_STREAM, 1))) == ["StreamEnded"]


def test_all_the_window_can_be_used_and_no_more() -> None:
    engine = a_serving_server()
    chunk = frame(DATA, 0, 1, bytes(MIB // 4))
    for _ in range(8):
        assert names(engine.receive(chunk)) == ["DataReceived"]
    assert refusal(engine, frame(DATA, 0, 1, b"x")) == FLOW_CONTROL_ERROR


def test_a_stream_has_a_window_of_its_own() -> None:
    engine = a_serving_server()
    engine.receive(headers_frame(3, REQUEST))
    for _ in range(8):
        engine.receive(frame(DATA, 0, 1, bytes(MIB // 4)))
        engine.acknowledge(3, MIB // 4)  # as if the connection had room again
    assert broken(engine.receive(frame(DATA, 0, 1, b"x"))) == (1, FLOW_CONTROL_ERROR)
    assert names(engine.receive(frame(DATA, 0, 3, b"x"))) == ["DataReceived"]


# Streams that are over


def test_what_comes_for_a_stream_that_we_reset_is_dropped_but_counted() -> None:
    engine = a_serving_server()
    engine.reset(1)
    engine.take_outgoing()
    late = headers_frame(1, TRAILERS) + frame(WINDOW_UPDATE, 0, 1, bytes(3) + b"\1") + frame(RST_STREAM, 0, 1, bytes(4))
    assert names(engine.receive(late)) == ["Chatter"] * 3
    assert said_by(engine) == []
    for _ in range(40):
        assert engine.receive(frame(DATA, 0, 1, bytes(MIB // 4))) == []
    assert names(engine.receive(frame(DATA, 0, 1))) == ["Chatter"]
    assert sum(int.from_bytes(payload, "big") for _, _, stream, payload in said_by(engine) if stream == 0) >= 9 * MIB


def test_the_header_table_stays_right_whatever_becomes_of_the_headers() -> None:
    engine = a_serving_server()
    engine.reset(1)
    engine.receive(frame(HEADERS, END, 1, b"\x40\x01x\x01y"))
    (event,) = engine.receive(frame(HEADERS, END_HEADERS, 3, encode(REQUEST) + b"\xbe"))
    assert isinstance(event, RequestReceived)
    assert event.headers == [*REQUEST, ("x", "y")]


def test_data_for_a_stream_that_has_ended_is_answered_once() -> None:
    engine = a_calling_client()
    engine.end_stream(1)
    engine.receive(headers_frame(1, RESPONSE, END))
    engine.take_outgoing()
    assert engine.receive(frame(DATA, 0, 1, b"x") * 3) == []
    assert said_by(engine) == [reset_frame(1, STREAM_CLOSED)]


@pytest.mark.parametrize("late", [frame(DATA, 0, 1, b"x"), headers_frame(1, TRAILERS, END)])
def test_the_peer_cannot_go_on_after_its_end(late: bytes) -> None:
    engine = a_serving_server()
    engine.receive(frame(DATA, END_STREAM, 1, b"x"))
    assert broken(engine.receive(late)) == (1, STREAM_CLOSED)
    assert said_by(engine) == [reset_frame(1, STREAM_CLOSED)]


def test_a_stream_that_was_passed_over_is_over() -> None:
    engine = a_server()
    engine.receive(headers_frame(5, REQUEST))
    assert refusal(engine, headers_frame(3, REQUEST)) == STREAM_CLOSED


@pytest.mark.parametrize("last", [frame(DATA, END_STREAM, 1), frame(RST_STREAM, 0, 1, bytes(4))])
def test_an_id_is_not_used_again(last: bytes) -> None:
    engine = a_server()
    engine.receive(headers_frame(1, REQUEST))
    engine.send_headers(1, RESPONSE, end=True)
    engine.receive(last)
    assert refusal(engine, headers_frame(1, REQUEST)) == STREAM_CLOSED


# The announced length


def with_length(size: int) -> Headers:
    return [*REQUEST, ("content-length", str(size))]


def test_as_much_data_as_announced_is_taken() -> None:
    engine = a_server()
    engine.receive(headers_frame(1, with_length(5)))
    padded = frame(DATA, END_STREAM | PADDED, 1, b"\x02" + b"345" + bytes(2))
    assert names(engine.receive(frame(DATA, 0, 1, b"12") + padded)) == ["DataReceived"] * 2 + ["StreamEnded"]
    assert names(engine.receive(headers_frame(3, with_length(0), END))) == ["RequestReceived", "StreamEnded"]


def test_more_data_than_announced_breaks_the_stream_at_once() -> None:
    engine = a_server()
    engine.receive(headers_frame(1, with_length(5)))
    assert names(engine.receive(frame(DATA, 0, 1, b"12345"))) == ["DataReceived"]
    assert broken(engine.receive(frame(DATA, 0, 1, b"6"))) == (1, PROTOCOL_ERROR)


@pytest.mark.parametrize("last", [frame(DATA, END_STREAM, 1, b"1234"), headers_frame(1, TRAILERS, END)])
def test_less_data_than_announced_breaks_the_stream_at_its_end(last: bytes) -> None:
    engine = a_server()
    engine.receive(headers_frame(1, with_length(5)))
    events = engine.receive(last)
    assert broken(events[1:]) == (1, PROTOCOL_ERROR)


def test_the_length_of_a_response_counts_too() -> None:
    engine = a_calling_client()
    engine.receive(headers_frame(1, [*RESPONSE, ("content-length", "3")]))
    assert broken(engine.receive(frame(DATA, 0, 1, b"1234"))) == (1, PROTOCOL_ERROR)


# Faults of one stream


@pytest.mark.parametrize(
    ("headers", "flags"),
    [
        ([*REQUEST, ("connection", "close")], END_HEADERS),
        (REQUEST[1:], END_HEADERS),
        ([("te", "trailers"), *REQUEST], END_HEADERS),
        ([*REQUEST, ("Upper", "x")], END),
    ],
)
def test_a_request_that_is_malformed_is_refused(headers: Headers, flags: int) -> None:
    engine = a_server()
    assert names(engine.receive(headers_frame(1, headers, flags))) == ["Chatter"]
    assert said_by(engine) == [reset_frame(1, PROTOCOL_ERROR)]
    assert names(engine.receive(headers_frame(3, REQUEST))) == ["RequestReceived"]


def test_more_streams_than_allowed_are_refused() -> None:
    engine = a_server(max_streams=2)
    engine.receive(headers_frame(1, REQUEST) + headers_frame(3, REQUEST))
    engine.take_outgoing()
    assert names(engine.receive(headers_frame(5, REQUEST) + frame(DATA, END_STREAM, 5, b"x"))) == ["Chatter"]
    assert said_by(engine) == [reset_frame(5, REFUSED_STREAM)]
    engine.reset(1)
    assert names(engine.receive(headers_frame(7, REQUEST))) == ["RequestReceived"]


def test_trailers_that_end_nothing_break_the_stream() -> None:
    assert broken(a_serving_server().receive(headers_frame(1, TRAILERS))) == (1, PROTOCOL_ERROR)


def test_trailers_with_pseudo_headers_break_the_stream() -> None:
    assert broken(a_serving_server().receive(headers_frame(1, REQUEST, END))) == (1, PROTOCOL_ERROR)


@pytest.mark.parametrize(
    "data",
    [
        headers_frame(1, TRAILERS),
        headers_frame(1, [(":status", "x")]),
        headers_frame(1, [(":status", "100")], END),
        frame(DATA, 0, 1, b"x"),
        frame(DATA, END_STREAM, 1, b"x"),
    ],
)
def test_answers_that_are_none_break_the_stream(data: bytes) -> None:
    engine = a_calling_client()
    assert broken(engine.receive(data)) == (1, PROTOCOL_ERROR)
    assert said_by(engine) == [reset_frame(1, PROTOCOL_ERROR)]


# Faults of the connection


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(DATA, 0, 0, b"x"), PROTOCOL_ERROR),
        (frame(DATA, 0, 3, b"x"), PROTOCOL_ERROR),
        (frame(DATA, 0, 2, b"x"), PROTOCOL_ERROR),
        (frame(DATA, PADDED, 1, b"\1"), PROTOCOL_ERROR),
        (headers_frame(0, REQUEST), PROTOCOL_ERROR),
        (headers_frame(2, REQUEST), PROTOCOL_ERROR),
        (frame(HEADERS, PADDED, 3, b"\1"), PROTOCOL_ERROR),
        (frame(HEADERS, WITH_PRIORITY, 3, bytes(4)), PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 3, b"\x80"), COMPRESSION_ERROR),
        (frame(CONTINUATION, END_HEADERS, 1), PROTOCOL_ERROR),
        (frame(HEADERS, 0, 3) + frame(CONTINUATION, END_HEADERS, 1), PROTOCOL_ERROR),
        (frame(HEADERS, 0, 3) + frame(PING, 0, 0, bytes(8)), PROTOCOL_ERROR),
        (frame(HEADERS, 0, 3) + frame(0x77, 0, 0), PROTOCOL_ERROR),
        (frame(HEADERS, 0, 3) + frame(HEADERS, 0, 3), PROTOCOL_ERROR),
    ],
)
def test_what_cannot_be_ends_the_connection(data: bytes, code: int) -> None:
    assert refusal(a_serving_server(), data) == code


def test_a_client_is_not_called() -> None:
    for stream_id in (1, 2):
        assert refusal(a_client(), headers_frame(stream_id, REQUEST)) == PROTOCOL_ERROR


def test_a_server_waits_for_the_preface_and_settings() -> None:
    engine = Http2Engine(client_side=False)
    assert refusal(engine, PREFACE + headers_frame(1, REQUEST)) == PROTOCOL_ERROR
    engine = Http2Engine(client_side=False)
    assert names(engine.receive(PREFACE + NO_SETTINGS)) == ["SettingsReceived"]


def test_a_header_block_without_end_is_cut_short() -> None:
    engine = a_server()
    engine.receive(frame(HEADERS, 0, 1, bytes(10_000)))
    assert refusal(engine, frame(CONTINUATION, 0, 1, bytes(10_000))) == ENHANCE_YOUR_CALM


def test_a_flood_of_empty_continuations_is_cut_short() -> None:
    engine = a_server()
    engine.receive(frame(HEADERS, 0, 1, b""))
    assert engine.receive(frame(CONTINUATION, 0, 1) * 32) == []
    assert refusal(engine, frame(CONTINUATION, 0, 1)) == ENHANCE_YOUR_CALM


def test_headers_larger_than_the_limit_are_refused() -> None:
    engine = a_server(max_header_bytes=300)
    assert names(engine.receive(headers_frame(1, REQUEST))) == ["RequestReceived"]
    assert refusal(engine, headers_frame(3, [*REQUEST, ("x", "y" * 100)])) == ENHANCE_YOUR_CALM
