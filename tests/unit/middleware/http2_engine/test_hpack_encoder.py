"""What we encode, the library hpack understands."""

from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from ankaios.middleware.http2_engine.events import Headers
from ankaios.middleware.http2_engine.hpack_encoder import NO_TABLE, encode
from ankaios.middleware.http2_engine.hpack_tables import STATIC_TABLE


def decoded(block: bytes) -> list[tuple[str, str]]:
    fields = Decoder(max_header_list_size=2**24).decode(block, raw=True)
    return [(name.decode(), value.decode()) for name, value in fields]


def test_fields_of_the_static_table_take_one_byte() -> None:
    for number, (name, value) in enumerate(STATIC_TABLE, 1):
        if value:
            assert encode([(name.decode(), value.decode())]) == bytes([0x80 | number])


def test_names_of_the_static_table_are_numbers() -> None:
    assert encode([(":path", "/a")]) == b"\x04\x02/a"
    assert encode([("user-agent", "x")]) == b"\x0f\x2b\x01x"


def test_all_else_is_spelled_and_not_remembered() -> None:
    assert encode([("te", "trailers")]) == b"\x00\x02te\x08trailers"


def test_long_values_have_long_lengths() -> None:
    for size in (126, 127, 128, 254, 255, 16_383 + 127, 16_384 + 127, 100_000):
        assert decoded(encode([("x", "y" * size)])) == [("x", "y" * size)]


def test_space_around_a_value_is_left_out() -> None:
    """HTTP/2 does not allow it, and a text for people may well end with it."""
    assert decoded(encode([("grpc-message", "\t why \t")])) == [("grpc-message", "why")]


def test_what_cannot_be_encoded_is_replaced() -> None:
    assert decoded(encode([("x", "ä\udcff")])) == [("x", "ä?")]


def test_the_peer_keeps_no_table_for_us() -> None:
    """Whatever limit it sets: hpack refuses blocks of an encoder that has not followed a smaller limit."""
    decoder = Decoder()
    decoder.max_allowed_table_size = 100
    assert decoder.decode(NO_TABLE + encode([("te", "trailers")]), raw=True) == [(b"te", b"trailers")]
    decoder.max_allowed_table_size = 0
    assert decoder.decode(encode([("te", "trailers")]), raw=True) == [(b"te", b"trailers")]


names = st.sampled_from([name.decode() for name, _ in STATIC_TABLE]) | st.text(max_size=30)


@given(st.lists(st.tuples(names, st.text(max_size=200)), max_size=20))
def test_whatever_we_encode_hpack_decodes(headers: Headers) -> None:
    assert decoded(encode(headers)) == [(name, value.strip(" \t")) for name, value in headers]
