"""Frames are cut out of bytes as they come, and judged by their header."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.middleware.http2_engine.errors import (
    ENHANCE_YOUR_CALM,
    FRAME_SIZE_ERROR,
    PROTOCOL_ERROR,
    ProtocolError,
)
from ankaios.middleware.http2_engine.frames import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    FrameReader,
    frame,
    frame_header,
    without_padding,
)

EMPTY_SETTINGS = frame(SETTINGS, 0, 0)


def a_reader(preface: bytes = b"") -> FrameReader:
    return FrameReader(preface, max_frame=20_000, max_header_block=1_000)


def a_begun_reader() -> FrameReader:
    reader = a_reader()
    assert list(reader.frames(EMPTY_SETTINGS)) == [(SETTINGS, 0, 0, b"")]
    return reader


def test_a_frame_is_nine_bytes_and_its_payload() -> None:
    assert frame(DATA, 1, 3, b"abc") == b"\0\0\3\0\1\0\0\0\3abc"
    assert frame_header(0xFF, 0xFE, 2**31 - 1, 2**24 - 1) == b"\xff\xff\xff\xff\xfe\x7f\xff\xff\xff"


@given(
    st.lists(st.tuples(st.sampled_from([DATA, 77]), st.integers(0, 255), st.integers(0, 2**31 - 1), st.binary())),
    st.lists(st.integers(1, 30), min_size=1),
)
def test_frames_come_out_whole_wherever_they_are_cut(said: list[tuple[int, int, int, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(*it) for it in said)
    reader, heard, at, turn = a_begun_reader(), [], 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        heard += list(reader.frames(data[at : at + size]))
        at, turn = at + size, turn + 1
    assert heard == said


def test_the_reserved_bit_of_the_stream_id_is_ignored() -> None:
    assert list(a_begun_reader().frames(b"\0\0\0\0\0\x80\0\0\1")) == [(DATA, 0, 1, b"")]


@pytest.mark.parametrize("cut", range(len(PREFACE) + 1))
def test_the_preface_comes_first_wherever_it_is_cut(cut: int) -> None:
    reader = a_reader(PREFACE)
    assert list(reader.frames(PREFACE[:cut])) == []
    assert list(reader.frames(PREFACE[cut:] + EMPTY_SETTINGS)) == [(SETTINGS, 0, 0, b"")]


@pytest.mark.parametrize("data", [b"G", b"PRI * HTTP/1", PREFACE[:-1] + b"x", b"\x16\x03\x01"])
def test_another_preface_is_refused_at_its_first_wrong_byte(data: bytes) -> None:
    reader = a_reader(PREFACE)
    with pytest.raises(ProtocolError, match="does not speak HTTP/2"):
        list(reader.frames(data))


@pytest.mark.parametrize("first", [frame(PING, 0, 0, bytes(8)), frame(SETTINGS, 1, 0), b"HTTP/1.1 400 Bad Request\r\n"])
def test_the_first_frame_has_to_be_settings(first: bytes) -> None:
    with pytest.raises(ProtocolError, match="does not speak HTTP/2") as failure:
        list(a_reader().frames(first))
    assert failure.value.code == PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("kind", "flags", "size"),
    [
        (DATA, 0, 20_001),
        (77, 0, 20_001),
        (PRIORITY, 0, 4),
        (RST_STREAM, 0, 5),
        (PING, 0, 7),
        (WINDOW_UPDATE, 0, 0),
        (GOAWAY, 0, 7),
        (SETTINGS, 0, 5),
        (SETTINGS, 1, 6),
    ],
)
def test_a_wrong_size_is_refused_before_anything_is_stored(kind: int, flags: int, size: int) -> None:
    reader = a_begun_reader()
    with pytest.raises(ProtocolError) as failure:
        list(reader.frames(frame_header(kind, flags, 0, size)))
    assert failure.value.code == FRAME_SIZE_ERROR
    assert not reader._buffer


@pytest.mark.parametrize(("kind", "size"), [(HEADERS, 1_001), (CONTINUATION, 1_001), (SETTINGS, 65 * 6)])
def test_what_is_larger_than_anybody_needs_is_refused(kind: int, size: int) -> None:
    with pytest.raises(ProtocolError) as failure:
        list(a_begun_reader().frames(frame_header(kind, 0, 0, size)))
    assert failure.value.code == ENHANCE_YOUR_CALM


def test_a_reader_holds_no_more_than_the_frame_that_is_not_complete() -> None:
    reader = a_begun_reader()
    for _ in range(5):
        list(reader.frames(frame(DATA, 0, 1, bytes(20_000)) + frame_header(DATA, 0, 1, 9) + b"abc"))
        assert len(reader._buffer) == 12
        list(reader.frames(b"defghi"))
        assert len(reader._buffer) == 0


def test_padding_is_cut_off() -> None:
    assert without_padding(0, b"\2abc") == b"\2abc"
    assert without_padding(PADDED, b"\2abc..") == b"abc"
    assert without_padding(PADDED, b"\0abc") == b"abc"
    assert without_padding(PADDED, b"\3abc") == b""


@pytest.mark.parametrize("payload", [b"", b"\1", b"\4abc"])
def test_more_padding_than_content_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        without_padding(PADDED, payload)
