"""HTTP/2 with limits, tested with a peer that uses h2: data, windows, ends, and violations by a peer."""

import logging

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from h2.errors import ErrorCodes
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.settings import SettingCodes

from ankaios.grpc.call_state import CallState
from ankaios.grpc.http2_connection import MAX_CALLS, SERVER_WINDOW
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, length_prefixed
from tests.unit.grpc.h2_peer import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    REQUEST,
    RESPONSE,
    SETTINGS,
    TRAILERS,
    WINDOW_UPDATE,
    Pair,
    a_called_server,
    a_client,
    a_server,
    raw_frame,
)

MIB = 1024 * 1024


def a_message(text: bytes) -> bytes:
    return length_prefixed(BytesValue(value=text).SerializeToString())


def taken(call: CallState, limit: int = 100 * MIB) -> bytes | None:
    message = call.take_message(BytesValue, limit)
    return message.value if message is not None else None


def opened(pair: Pair) -> CallState:
    call = pair.http2.open_call(REQUEST)
    pair.exchange()
    return call


# Calls


def test_a_client_calls_and_reads_messages_and_trailers() -> None:
    pair = a_client()
    call = opened(pair)
    call.write(a_message(b"question"))
    call.half_close()
    pair.exchange()
    assert pair.data() == a_message(b"question")
    assert isinstance(pair.events[-1], StreamEnded)
    pair.peer.send_headers(1, RESPONSE)
    pair.peer.send_data(1, a_message(b"answer"))
    pair.peer.send_headers(1, TRAILERS, end_stream=True)
    pair.exchange()
    assert taken(call) == b"answer"
    assert taken(call) is None
    assert call.headers == dict(RESPONSE)
    assert call.trailers == dict(TRAILERS)
    assert call.is_complete
    assert not pair.http2.calls


def test_a_server_answers_and_ends_a_call_that_its_client_has_not_ended() -> None:
    pair, call = a_called_server()
    assert call.headers == dict(REQUEST)
    call.send_headers(RESPONSE)
    call.write(a_message(b"answer"))
    call.finish(TRAILERS)
    pair.exchange()
    kinds = [type(event) for event in pair.events if getattr(event, "stream_id", 0) == 1]
    assert kinds == [ResponseReceived, DataReceived, TrailersReceived, StreamEnded, StreamReset]
    assert pair.events[-1].error_code == ErrorCodes.NO_ERROR  # type: ignore[attr-defined]
    assert not pair.http2.calls
    with pytest.raises(ConnectionBroken, match="the call was ended"):
        call.write(b"more")


def test_queued_messages_share_a_frame() -> None:
    pair, call = a_called_server()
    call.send_headers(RESPONSE)
    for number in range(100):
        call.write(a_message(b"%d" % number))
    pair.exchange()
    assert pair.data() == b"".join(a_message(b"%d" % number) for number in range(100))
    assert sum(isinstance(event, DataReceived) for event in pair.events) == 1


def test_megabytes_pass_in_both_directions_through_full_windows() -> None:
    pair, call = a_called_server()
    call.send_headers(RESPONSE)
    large = bytes(range(256)) * (20 * 1024)
    call.write(a_message(large))
    while call.queued_bytes:
        pair.exchange()
        pair.peer.acknowledge_received_data(65_535, 1)
    assert pair.data() == a_message(large)
    rest = memoryview(a_message(large))
    while rest:
        size = min(pair.peer.local_flow_control_window(1), pair.peer.max_outbound_frame_size)
        pair.peer.send_data(1, rest[:size])
        rest = rest[size:]
        pair.exchange()
        call.request_more()
    pair.exchange()
    assert taken(call) == large


def test_a_large_message_does_not_hold_back_other_calls() -> None:
    pair = a_client()
    first, second = opened(pair), opened(pair)
    pair.peer.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**30})
    pair.peer.increment_flow_control_window(2**30)
    pair.exchange()
    first.write(bytes(10 * MIB))
    second.write(a_message(b"small"))
    for _ in range(2):
        pair.events += pair.peer.receive_data(pair.http2.take_outgoing())
    assert any(isinstance(event, DataReceived) and event.stream_id == second.id for event in pair.events)
    assert first.queued_bytes > 9 * MIB


def test_without_data_only_responses_to_frames_are_sent() -> None:
    pair, call = a_called_server()
    call.write(b"data")
    pair.receive(raw_frame(PING, 0, 0, b"12345678"))
    sent = pair.http2.take_outgoing(with_data=False)
    assert b"12345678" in sent
    assert b"data" not in sent


def test_a_reset_ends_the_call_for_both_sides() -> None:
    pair, call = a_called_server()
    call.write(b"queued")
    pair.peer.reset_stream(1)
    pair.exchange()
    assert call.broken == "the peer reset the stream"
    assert call.queued_bytes == 0
    assert not pair.http2.calls
    ours = opened(client := a_client())
    ours.reset("cancelled")
    client.exchange()
    assert isinstance(client.events[-1], StreamReset)
    with pytest.raises(ConnectionBroken, match="cancelled"):
        ours.check()


def test_a_complete_call_is_not_reset() -> None:
    pair = a_client()
    call = opened(pair)
    call.half_close()
    pair.exchange()
    pair.peer.send_headers(1, [*RESPONSE, *TRAILERS], end_stream=True)
    pair.exchange()
    call.reset("cancelled")
    assert call.broken is None
    assert pair.http2.take_outgoing() == b""


def test_messages_that_arrived_before_the_end_can_be_read() -> None:
    pair, call = a_called_server()
    pair.peer.send_data(1, a_message(b"last"))
    pair.peer.reset_stream(1)
    pair.exchange()
    assert taken(call) == b"last"


def test_a_stream_that_ends_in_a_message_is_a_failure() -> None:
    pair, call = a_called_server()
    pair.peer.send_data(1, a_message(b"text")[:-1], end_stream=True)
    pair.exchange()
    with pytest.raises(CallFailed, match="in the middle of a message"):
        taken(call)


def test_headers_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    pair = a_server()
    pair.peer.send_headers(1, [*REQUEST, ("authorization", "secret")])
    (call,) = pair.exchange()
    call.send_headers([*RESPONSE, ("token", "secret")])
    pair.exchange()
    assert "secret" not in caplog.text


# Windows


def test_a_peer_can_send_a_window_and_not_more() -> None:
    pair, _ = a_called_server()
    part = bytes(16_384)
    pair.receive(*[raw_frame(DATA, 0, 1, part)] * (SERVER_WINDOW // len(part)))
    assert pair.http2.failure is None
    pair.receive(raw_frame(DATA, 0, 1, b"x"))
    assert "FlowControlError" in str(pair.http2.failure)


def test_reading_opens_the_window_again() -> None:
    pair, call = a_called_server()
    for _ in range(4 * SERVER_WINDOW // 10_000):
        pair.peer.send_data(1, a_message(bytes(10_000)))
        pair.exchange()
        assert taken(call) == bytes(10_000)
    assert pair.http2.failure is None


def test_padding_opens_the_window_again_immediately() -> None:
    pair, _ = a_called_server()
    padding = raw_frame(DATA, PADDED, 1, b"\xff" + bytes(255))
    for _ in range(4 * SERVER_WINDOW // (256 * 400)):
        pair.now += 2
        pair.receive(padding, times=400)
        pair.http2.take_outgoing()
    assert pair.http2.failure is None


def test_unread_data_of_a_call_that_is_over_does_not_close_the_window_of_the_connection() -> None:
    pair = a_server()
    for number in range(6):
        stream_id = 2 * number + 1
        pair.peer.send_headers(stream_id, REQUEST)
        (call,) = pair.exchange()
        for _ in range(6):
            pair.peer.send_data(stream_id, bytes(16_384))
            pair.exchange()
        call.reset("not needed")
        pair.exchange()
    assert pair.peer.outbound_flow_control_window > SERVER_WINDOW // 4


def test_data_that_arrives_after_a_reset_is_dropped_and_opens_the_window_again() -> None:
    """The peer sends a window of data on each of three calls before it processes the reset."""
    pair = a_server()
    for stream_id in (1, 3, 5):
        pair.peer.send_headers(stream_id, REQUEST)
        (call,) = pair.exchange()
        call.reset("not needed")
        for _ in range(SERVER_WINDOW // 16_384):
            pair.peer.send_data(stream_id, bytes(16_384))
            pair.http2.receive(pair.peer.data_to_send(), pair.now)
            sent = pair.http2.take_outgoing()
            updates = [sent[at : at + 13] for at in range(0, len(sent), 13) if sent[at + 3] == WINDOW_UPDATE]
            pair.peer.receive_data(b"".join(updates))
    assert pair.http2.failure is None


# The end of the connection


def goaway_of(pair: Pair) -> tuple[int, bytes]:
    """The debug data of the GOAWAY frame that the peer receives."""
    sent = pair.http2.take_outgoing()
    assert sent[3] == GOAWAY
    return int.from_bytes(sent[13:17], "big"), sent[17:]


def test_a_goaway_ends_all_calls_with_its_text() -> None:
    pair = a_client()
    call = opened(pair)
    pair.peer.close_connection(ErrorCodes.ENHANCE_YOUR_CALM, b"too many pings")
    pair.exchange()
    assert call.broken == pair.http2.failure == "the peer ended the connection (11, too many pings)"
    with pytest.raises(ConnectionBroken, match="does not accept more calls"):
        pair.http2.open_call(REQUEST)


def test_a_violation_is_reported_to_the_peer_and_ends_the_connection() -> None:
    pair, call = a_called_server()
    pair.receive(raw_frame(DATA, 0, 1, size=2**24 - 1))
    text = "a frame has 16777215 bytes, allowed are 262144"
    assert call.broken == pair.http2.failure == f"HTTP/2 protocol error: {text}"
    assert goaway_of(pair) == (ErrorCodes.FRAME_SIZE_ERROR, text.encode())
    pair.receive(raw_frame(PING, 0, 0, b"12345678"))
    assert pair.http2.take_outgoing() == b""


def test_no_more_calls_are_opened_than_the_peer_accepts() -> None:
    pair = a_client()
    pair.peer.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    pair.exchange()
    opened(pair)
    with pytest.raises(ConnectionBroken, match="does not accept more calls"):
        pair.http2.open_call(REQUEST)


def test_a_peer_that_starts_more_calls_than_allowed_is_disconnected() -> None:
    pair = a_server()
    block = pair.peer.encoder.encode(REQUEST)
    for number in range(MAX_CALLS):
        pair.receive(raw_frame(HEADERS, END_HEADERS, 2 * number + 1, block if number == 0 else _again(pair)))
    assert len(pair.http2.calls) == MAX_CALLS
    pair.receive(raw_frame(HEADERS, END_HEADERS, 2 * MAX_CALLS + 1, _again(pair)))
    assert "TooManyStreamsError" in str(pair.http2.failure)
    assert not pair.http2.calls


def _again(pair: Pair) -> bytes:
    return pair.peer.encoder.encode(REQUEST)


def request_with(*fields: tuple[str, str]) -> bytes:
    pair = a_server()
    return pair.peer.encoder.encode([*REQUEST, *fields])


@pytest.mark.parametrize(
    "frames",
    [
        raw_frame(HEADERS, END_HEADERS, 1, request_with(("content-length", "3"))) + raw_frame(DATA, 0, 1, b"four"),
        raw_frame(HEADERS, END_HEADERS, 1, request_with(("content-length", "3")))
        + raw_frame(DATA, END_STREAM, 1, b"2."),
        raw_frame(HEADERS, END_HEADERS, 1, request_with(("content-length", "x"))),
        raw_frame(HEADERS, END_HEADERS, 1, request_with(("Upper", "x"))),
        raw_frame(HEADERS, END_HEADERS, 1, request_with(("connection", "close"))),
        raw_frame(HEADERS, END_HEADERS, 1, request_with((":path", "/y"))),
        raw_frame(HEADERS, END_HEADERS, 1, a_server().peer.encoder.encode(REQUEST[1:])),
        raw_frame(HEADERS, END_HEADERS, 2, request_with()),
        raw_frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
        raw_frame(DATA, 0, 1, b"before the headers"),
        raw_frame(SETTINGS, 0, 0, b"12345"),
        raw_frame(SETTINGS, 0, 0, b"\0\5\0\0\0\1"),
        raw_frame(PING, 0, 1, b"12345678"),
        raw_frame(PING, 0, 0, b"1234"),
    ],
)
def test_violations_of_http2_end_the_connection(frames: bytes) -> None:
    pair = a_server()
    pair.receive(frames)
    assert str(pair.http2.failure).startswith("HTTP/2 protocol error: ")
    assert not pair.http2.calls
    goaway_of(pair)


def test_a_server_is_not_called_by_a_client_that_is_called() -> None:
    pair = a_client()
    pair.receive(raw_frame(HEADERS, END_HEADERS, 2, pair.peer.encoder.encode(RESPONSE)))
    assert str(pair.http2.failure).startswith("HTTP/2 protocol error: ")


def test_a_small_header_block_that_expands_to_huge_headers_is_rejected() -> None:
    """A field of 4 KB in the header table, repeated by one byte each."""
    pair = a_server()
    block = pair.peer.encoder.encode([*REQUEST, ("x", "y" * 4_000)]) + b"\xbe" * 5
    pair.receive(raw_frame(HEADERS, END_HEADERS, 1, block))
    assert "DenialOfServiceError" in str(pair.http2.failure)


def test_a_peer_cannot_store_settings_without_limit() -> None:
    pair = a_server()
    for number in range(3):
        entries = b"".join((number * 64 + key + 100).to_bytes(2, "big") + bytes(4) for key in range(50))
        pair.receive(raw_frame(SETTINGS, 0, 0, entries))
    assert pair.http2.failure == "HTTP/2 protocol error: the peer has more than 64 settings"
