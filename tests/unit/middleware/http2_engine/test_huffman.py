"""The Huffman code against the library hpack, and everything that is not one."""

import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import example, given
from hypothesis import strategies as st

from ankaios.middleware.http2_engine.errors import COMPRESSION_ERROR, ProtocolError
from ankaios.middleware.http2_engine.huffman import decode

ORACLE = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


def refused(coded: bytes) -> bool:
    with pytest.raises(ProtocolError) as failure:
        decode(coded)
    return failure.value.code == COMPRESSION_ERROR


@pytest.mark.parametrize("symbol", range(256))
def test_each_symbol_is_decoded_alone_and_between_others(symbol: int) -> None:
    for text in (bytes([symbol]), b"a" + bytes([symbol]) + b"z", bytes([symbol]) * 9):
        assert decode(ORACLE.encode(text)) == text


@given(st.binary(max_size=300))
@example(b"")
def test_any_text_is_decoded(text: bytes) -> None:
    assert decode(ORACLE.encode(text)) == text


@pytest.mark.parametrize("text", [b"a", b"ab", b"www.example.com", b"\x00\xff"])
def test_a_whole_byte_of_padding_is_refused(text: bytes) -> None:
    assert refused(ORACLE.encode(text) + b"\xff")


def test_padding_of_zeros_is_refused() -> None:
    assert decode(b"\x1f") == b"a"  # 00011, then ones
    assert refused(b"\x18")
    assert refused(b"\x1e")


def test_the_end_of_string_symbol_is_refused() -> None:
    assert refused(b"\xff\xff\xff\xff")
    assert refused(b"\xff\xff\xff\xfc")
    assert refused(ORACLE.encode(b"abc") + b"\xff\xff\xff\xff\xff")


@given(st.binary(max_size=60))
def test_anything_else_is_refused_or_can_be_encoded_again(coded: bytes) -> None:
    """There is exactly one way to encode a text."""
    try:
        text = decode(coded)
    except ProtocolError:
        return
    assert ORACLE.encode(text) == coded
