"""Frames about streams and the connection: what they change, how they are answered, which ones end everything."""

from collections.abc import Callable

import pytest

from ankaios.middleware.http2_engine.engine import Http2Engine
from ankaios.middleware.http2_engine.errors import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    NO_ERROR,
    PROTOCOL_ERROR,
    CannotSend,
    ProtocolError,
)
from ankaios.middleware.http2_engine.events import GoawayReceived, PingAnswered, StreamReset
from ankaios.middleware.http2_engine.frames import (
    ACK,
    GOAWAY,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)
from ankaios.middleware.http2_engine.settings import INITIAL_WINDOW_SIZE, encode_settings
from tests.unit.middleware.http2_engine.support import (
    REQUEST,
    a_calling_client,
    a_client,
    a_server,
    a_serving_server,
    headers_frame,
    names,
    said_by,
)

LARGEST = (2**31 - 1).to_bytes(4, "big")


def refusal(engine: Http2Engine, data: bytes) -> int:
    """The error code, which the peer is told, too."""
    engine.take_outgoing()
    with pytest.raises(ProtocolError) as failure:
        engine.receive(data)
    kind, _, stream_id, payload = said_by(engine)[-1]
    assert (kind, stream_id) == (GOAWAY, 0)
    assert int.from_bytes(payload[4:8], "big") == failure.value.code
    assert payload[8:].decode() == str(failure.value)
    return failure.value.code


def test_settings_are_applied_and_acknowledged() -> None:
    engine = a_calling_client()
    assert names(engine.receive(frame(SETTINGS, 0, 0, encode_settings({INITIAL_WINDOW_SIZE: 5})))) == [
        "SettingsReceived"
    ]
    assert engine.sendable(1) == 5
    assert said_by(engine) == [(SETTINGS, ACK, 0, b"")]


def test_an_acknowledgement_of_our_settings_needs_no_answer() -> None:
    engine = a_client()
    assert names(engine.receive(frame(SETTINGS, ACK, 0))) == ["Chatter"]
    assert said_by(engine) == []


def test_settings_that_make_a_window_too_large_are_refused() -> None:
    engine = a_calling_client()
    engine.receive(frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"))
    settings = frame(SETTINGS, 0, 0, encode_settings({INITIAL_WINDOW_SIZE: 2**31 - 1}))
    assert refusal(engine, settings) == FLOW_CONTROL_ERROR


def test_a_ping_is_answered() -> None:
    engine = a_client()
    assert names(engine.receive(frame(PING, 0, 0, b"12345678"))) == ["Chatter"]
    assert said_by(engine) == [(PING, ACK, 0, b"12345678")]


def test_the_answer_to_a_ping_is_told() -> None:
    (event,) = a_client().receive(frame(PING, ACK, 0, b"12345678"))
    assert isinstance(event, PingAnswered)
    assert event.payload == b"12345678"
    assert repr(event) == "PingAnswered(payload=b'12345678', stream_id=0)"


def test_a_reset_ends_the_stream() -> None:
    engine = a_calling_client()
    (event,) = engine.receive(frame(RST_STREAM, 0, 1, CANCEL.to_bytes(4, "big")))
    assert isinstance(event, StreamReset)
    assert (event.stream_id, event.code, event.by_peer) == (1, CANCEL, True)
    assert engine.sendable(1) == 0
    assert names(engine.receive(frame(RST_STREAM, 0, 1, bytes(4)))) == ["Chatter"], "it is over already"
    assert said_by(engine) == []


def test_a_farewell_says_why_and_no_stream_is_opened_any_more() -> None:
    engine = a_calling_client()
    text = b"too many pings" + b"!" * 1_000
    (event,) = engine.receive(frame(GOAWAY, 0, 0, b"\x80\0\0\1\0\0\0\x0b" + text))
    assert isinstance(event, GoawayReceived)
    assert (event.last_stream_id, event.code, event.text) == (1, ENHANCE_YOUR_CALM, text[:256].decode())
    with pytest.raises(CannotSend, match="the peer ends the connection"):
        engine.open_stream(REQUEST)
    assert engine.sendable(1) > 0, "the streams that are there go on"
    assert names(engine.receive(frame(PING, 0, 0, bytes(8)))) == ["Chatter"]


def test_after_our_farewell_streams_are_refused_and_others_go_on() -> None:
    engine = a_serving_server()
    engine.goaway(NO_ERROR)
    engine.take_outgoing()
    assert names(engine.receive(headers_frame(3, REQUEST))) == ["Chatter"]
    assert said_by(engine) == [(RST_STREAM, 0, 3, b"\0\0\0\7")]
    assert names(engine.receive(frame(0, 0, 1, b"x"))) == ["DataReceived"]


def test_priorities_and_unknown_frames_are_taken_note_of() -> None:
    engine = a_server()
    assert names(engine.receive(frame(PRIORITY, 0, 9, bytes(5)) + frame(0x77, 255, 8, b"x"))) == ["Chatter"] * 2
    assert said_by(engine) == []


def test_window_updates_are_told() -> None:
    engine = a_calling_client()
    update = frame(WINDOW_UPDATE, 0, 0, b"\x80\0\0\2") + frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1")
    events = engine.receive(update)
    assert names(events) == ["WindowUpdated"] * 2
    assert [event.stream_id for event in events] == [0, 1]


@pytest.mark.parametrize(("by", "code"), [(bytes(4), PROTOCOL_ERROR), (LARGEST, FLOW_CONTROL_ERROR)])
def test_an_impossible_update_of_a_stream_ends_the_stream_only(by: bytes, code: int) -> None:
    engine = a_calling_client()
    (event,) = engine.receive(frame(WINDOW_UPDATE, 0, 1, by))
    assert isinstance(event, StreamReset)
    assert (event.stream_id, event.code, event.by_peer) == (1, code, False)
    assert said_by(engine) == [(RST_STREAM, 0, 1, code.to_bytes(4, "big"))]
    assert names(engine.receive(frame(WINDOW_UPDATE, 0, 1, by))) == ["Chatter"]
    assert said_by(engine) == []


@pytest.mark.parametrize(("by", "code"), [(bytes(4), PROTOCOL_ERROR), (LARGEST, FLOW_CONTROL_ERROR)])
def test_an_impossible_update_of_the_connection_ends_it(by: bytes, code: int) -> None:
    assert refusal(a_calling_client(), frame(WINDOW_UPDATE, 0, 0, by)) == code


@pytest.mark.parametrize(
    "data",
    [
        frame(SETTINGS, 0, 1),
        frame(PING, 0, 1, bytes(8)),
        frame(GOAWAY, 0, 1, bytes(8)),
        frame(PRIORITY, 0, 0, bytes(5)),
        frame(RST_STREAM, 0, 0, bytes(4)),
        frame(RST_STREAM, 0, 3, bytes(4)),
        frame(RST_STREAM, 0, 2, bytes(4)),
        frame(WINDOW_UPDATE, 0, 3, b"\0\0\0\1"),
        frame(PUSH_PROMISE, 4, 1, bytes(4)),
    ],
)
@pytest.mark.parametrize("make", [a_calling_client, a_serving_server])
def test_frames_where_they_cannot_be_end_the_connection(make: Callable[[], Http2Engine], data: bytes) -> None:
    assert refusal(make(), data) == PROTOCOL_ERROR


def test_after_a_failure_nothing_is_taken_and_nothing_sent() -> None:
    engine = a_calling_client()
    refusal(engine, frame(PUSH_PROMISE, 4, 1, bytes(4)))
    assert engine.receive(frame(PING, 0, 0, bytes(8))) == []
    assert engine.sendable(1) == 0
    engine.reset(1)
    engine.acknowledge(1, 1)
    assert engine.take_outgoing() == b""
    with pytest.raises(CannotSend):
        engine.send_data(1, b"")
    with pytest.raises(CannotSend, match="the connection has failed"):
        engine.open_stream(REQUEST)
