import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.agent.core.framing import FrameDecoder, Garbage, encode, possible_last_frames


def test_a_known_frame() -> None:
    """[utest->swdd~agent-uses-length-delimited-protobuf-for-pipes~1]"""
    assert encode(bytes.fromhex("2200")) == bytes.fromhex("022200")
    assert encode(b"x" * 300)[:2] == bytes([0xAC, 0x02])


@given(st.lists(st.binary(max_size=400)), st.data())
def test_frames_do_not_depend_on_how_the_input_is_cut(bodies: list[bytes], data: st.DataObject) -> None:
    """[utest->swdd~agent-uses-length-delimited-protobuf-for-pipes~1]"""
    stream = b"".join(map(encode, bodies))
    decoder, found = FrameDecoder(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += decoder.feed(stream[:size])
        stream = stream[size:]
    assert found == bodies


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_frame_that_is_too_large_is_skipped_and_never_stored(step: int) -> None:
    decoder = FrameDecoder(limit=100)
    stream = encode(b"x" * 5000) + encode(b"good")
    found = [frame for start in range(0, len(stream), step) for frame in decoder.feed(stream[start : start + step])]
    assert found == [Garbage("a message of 5000 bytes is larger than the allowed 100"), b"good"]
    assert len(decoder._buffer) == 0


@pytest.mark.parametrize(("length", "eaten"), [(11, 11), (15, 15), (30, 19)])
def test_an_endless_prefix_is_invalid(length: int, eaten: int) -> None:
    stream = b"\xff" * (length - 1) + b"\x01"
    found = FrameDecoder(limit=1000).feed(stream[:eaten])
    assert found == [Garbage("the length prefix is too long")]


def test_a_prefix_of_ten_bytes_is_valid() -> None:
    assert FrameDecoder().feed(b"\x82" + b"\x80" * 8 + b"\x00" + b"ok") == [b"ok"]


def test_an_empty_message_is_a_message() -> None:
    assert FrameDecoder().feed(b"\x00") == [b""]


def test_an_unfinished_frame_of_a_writer_is_discarded() -> None:
    decoder = FrameDecoder(limit=10)
    assert decoder.feed(encode(b"unfinished")[:4]) == []
    decoder.reset()
    assert decoder.feed(encode(b"new")) == [b"new"]
    decoder.feed(encode(b"x" * 1000)[:20])
    decoder.reset()
    assert decoder.feed(encode(b"new")) == [b"new"]


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_invalid_data_never_causes_an_exception_of_the_decoder(pieces: list[bytes]) -> None:
    decoder = FrameDecoder(limit=50)
    for piece in pieces:
        decoder.feed(piece)
    assert len(decoder._buffer) <= 60


@given(st.binary(max_size=100), st.binary(max_size=60))
def test_the_last_frame_is_found_also_if_the_beginning_of_the_stream_is_missing(rest: bytes, body: bytes) -> None:
    assert body in list(possible_last_frames(rest + encode(body), 64))


def test_the_search_is_limited() -> None:
    assert list(possible_last_frames(encode(b"x" * 100), 64)) == []
