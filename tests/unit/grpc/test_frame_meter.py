"""Limits on frames, checked on their headers alone."""

import pytest
from h2.errors import ErrorCodes
from hypothesis import given
from hypothesis import strategies as st

from ankaios.grpc.frame_meter import MAX_FRAME_SIZE, MAX_HEADER_BYTES, MAX_IDLE_FRAMES_PER_SECOND, FrameMeter
from tests.unit.grpc.h2_peer import (
    ACK,
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    raw_frame,
)

START = PREFACE + raw_frame(SETTINGS, 0, 0)
PINGS = raw_frame(PING, 0, 0, b"12345678")


def a_meter() -> FrameMeter:
    """The meter of a server whose client has sent its settings."""
    meter = FrameMeter(client_side=False)
    assert meter.measure(START, 0.0) == len(START)
    return meter


def violation(meter: FrameMeter, data: bytes, now: float = 0.0) -> tuple[ErrorCodes, str] | None:
    meter.measure(data, now)
    return (meter.violation.code, str(meter.violation)) if meter.violation else None


@given(st.lists(st.integers(0, 40), max_size=20), st.integers(1, 30))
def test_frames_are_counted_wherever_they_are_cut(sizes: list[int], step: int) -> None:
    meter = FrameMeter(client_side=False)
    data = START + b"".join(raw_frame(DATA, 0, 1, bytes(size)) for size in sizes)
    count = 0
    for at in range(0, len(data), step):
        part = data[at : at + step]
        assert meter.measure(part, 0.0) == len(part)
        count += meter.frames
    assert count == len(sizes) + 1
    assert meter.violation is None


def test_a_client_sees_no_preface() -> None:
    meter = FrameMeter(client_side=True)
    assert meter.measure(raw_frame(SETTINGS, 0, 0), 0.0) == 9
    assert meter.violation is None


@pytest.mark.parametrize(
    "first", [raw_frame(SETTINGS, ACK, 0), PINGS, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15" * 9]
)
def test_the_first_frame_has_to_be_settings(first: bytes) -> None:
    found = violation(FrameMeter(client_side=True), first)
    assert found == (ErrorCodes.PROTOCOL_ERROR, "the first frame is not SETTINGS, so this is not HTTP/2")


@pytest.mark.parametrize("kind", [DATA, PING, 99])
def test_a_frame_that_is_too_large_is_rejected_before_its_content_arrives(kind: int) -> None:
    assert violation(a_meter(), raw_frame(kind, 0, 1, size=MAX_FRAME_SIZE)) is None
    found = violation(a_meter(), raw_frame(kind, 0, 1, size=MAX_FRAME_SIZE + 1))
    assert found == (ErrorCodes.FRAME_SIZE_ERROR, "a frame has 262145 bytes, allowed are 262144")


@pytest.mark.parametrize("kind", [HEADERS, PUSH_PROMISE])
def test_a_header_block_that_is_too_long_is_rejected_before_it_arrives(kind: int) -> None:
    assert violation(a_meter(), raw_frame(kind, 0, 1, size=MAX_HEADER_BYTES)) is None
    found = violation(a_meter(), raw_frame(kind, 0, 1, size=MAX_HEADER_BYTES + 1))
    assert found == (ErrorCodes.ENHANCE_YOUR_CALM, "a header block has more than 16384 bytes")


def test_continuations_count_for_the_header_block() -> None:
    half = bytes(MAX_HEADER_BYTES // 2)
    block = raw_frame(HEADERS, 0, 1, half) + raw_frame(CONTINUATION, 0, 1, half)
    meter = a_meter()
    assert violation(meter, block + block) is None
    found = violation(meter, raw_frame(CONTINUATION, 0, 1, b"x"))
    assert found == (ErrorCodes.ENHANCE_YOUR_CALM, "a header block has more than 16384 bytes")


def test_settings_have_a_limit() -> None:
    assert violation(a_meter(), raw_frame(SETTINGS, 0, 0, bytes(64 * 6))) is None
    found = violation(a_meter(), raw_frame(SETTINGS, 0, 0, size=65 * 6))
    assert found == (ErrorCodes.ENHANCE_YOUR_CALM, "a SETTINGS frame has more than 64 entries")


IDLE = {
    "ping": PINGS,
    "settings": raw_frame(SETTINGS, 0, 0),
    "acknowledgement": raw_frame(SETTINGS, ACK, 0),
    "priority": raw_frame(PRIORITY, 0, 1, bytes(5)),
    "reset": raw_frame(RST_STREAM, 0, 1, bytes(4)),
    "window update": raw_frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    "empty data": raw_frame(DATA, 0, 1),
    "padding": raw_frame(DATA, PADDED, 1, b"\0"),
    "headers": raw_frame(HEADERS, 0, 1),
    "continuation": raw_frame(CONTINUATION, 0, 1),
    "unknown": raw_frame(99, 0, 1, b"x"),
}


@pytest.mark.parametrize("kind", sorted(IDLE.keys() - {"headers"}))
def test_a_second_has_a_limit_of_frames_without_data(kind: str) -> None:
    meter = a_meter()
    assert violation(meter, IDLE[kind] * (MAX_IDLE_FRAMES_PER_SECOND - 1), 0.9) is None
    assert violation(meter, IDLE[kind] * MAX_IDLE_FRAMES_PER_SECOND, 2.0) is None
    found = violation(meter, IDLE[kind], 2.9)
    assert found == (ErrorCodes.ENHANCE_YOUR_CALM, "more than 1000 frames without data in a second")


def test_a_new_call_counts_as_three_frames() -> None:
    assert violation(a_meter(), IDLE["headers"] * 333) is None
    assert violation(a_meter(), IDLE["headers"] * 334) is not None


def test_the_rest_is_not_processed_after_the_allowed_number_of_frames() -> None:
    meter = a_meter()
    data = PINGS * 10
    assert meter.measure(data, 0.0, max_frames=4) == 4 * len(PINGS)
    assert meter.is_partial
    assert meter.measure(data[4 * len(PINGS) :], 0.0, max_frames=6) == 6 * len(PINGS)
    assert not meter.is_partial


def test_a_partly_processed_frame_is_completed() -> None:
    meter = a_meter()
    meter.measure(raw_frame(DATA, 0, 1, size=100), 0.0)
    assert meter.measure(bytes(100) + PINGS, 0.0, max_frames=0) == 100


def test_a_new_call_counts_as_twenty_small_frames() -> None:
    meter = a_meter()
    meter.measure(IDLE["headers"] + PINGS, 0.0)
    assert meter.frames == 21


def test_data_is_not_limited_here() -> None:
    assert violation(a_meter(), raw_frame(DATA, 0, 1, b"x") * 5_000) is None


@pytest.mark.parametrize(
    ("kind", "frame"), [(WINDOW_UPDATE, "window update"), (HEADERS, "headers"), (RST_STREAM, "reset")]
)
def test_responses_to_our_own_frames_are_not_limited(kind: int, frame: str) -> None:
    meter = a_meter()
    meter.expected[kind] += 5_000
    assert violation(meter, IDLE[frame] * 5_000) is None
    assert violation(meter, IDLE[frame] * (MAX_IDLE_FRAMES_PER_SECOND + 1)) is not None


def test_the_bytes_before_a_violation_are_processed() -> None:
    meter = a_meter()
    good = raw_frame(DATA, 0, 1, b"good")
    assert meter.measure(good + raw_frame(DATA, 0, 1, size=2**24 - 1), 0.0) == len(good)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_nothing_after_a_goaway_is_processed(step: int) -> None:
    meter = a_meter()
    goaway = raw_frame(GOAWAY, 0, 0, bytes(10))
    data = goaway + PINGS
    taken = sum(meter.measure(data[at : at + step], 0.0) for at in range(0, len(data), step))
    assert taken == len(goaway)
    assert meter.measure(PINGS, 0.0) == 0
