"""Header blocks: the examples of RFC 7541, the library hpack as the other side, and blocks that are wrong."""

import pytest
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from ankaios.middleware.http2_engine.errors import COMPRESSION_ERROR, ENHANCE_YOUR_CALM, ProtocolError
from ankaios.middleware.http2_engine.hpack_decoder import HpackDecoder

Fields = list[tuple[bytes, bytes]]

GET = (b":method", b"GET")
AUTHORITY = (b":authority", b"www.example.com")
REQUESTS: list[Fields] = [
    [GET, (b":scheme", b"http"), (b":path", b"/"), AUTHORITY],
    [GET, (b":scheme", b"http"), (b":path", b"/"), AUTHORITY, (b"cache-control", b"no-cache")],
    [GET, (b":scheme", b"https"), (b":path", b"/index.html"), AUTHORITY, (b"custom-key", b"custom-value")],
]
PRIVATE = (b"cache-control", b"private")
LOCATION = (b"location", b"https://www.example.com")
DATES = [(b"date", b"Mon, 21 Oct 2013 20:13:21 GMT"), (b"date", b"Mon, 21 Oct 2013 20:13:22 GMT")]
COOKIE = b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
RESPONSES: list[Fields] = [
    [(b":status", b"302"), PRIVATE, DATES[0], LOCATION],
    [(b":status", b"307"), PRIVATE, DATES[0], LOCATION],
    [(b":status", b"200"), PRIVATE, DATES[1], LOCATION, (b"content-encoding", b"gzip"), (b"set-cookie", COOKIE)],
]
TABLE_OF_256 = bytes.fromhex("3fe101")  # the examples of responses have such a table
EXAMPLES = {
    "C.3": (
        REQUESTS,
        [
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ],
    ),
    "C.4": (
        REQUESTS,
        [
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ],
    ),
    "C.5": (
        RESPONSES,
        [
            "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54"
            "6e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            "4803333037c1c0bf",
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a6970"
            "7738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b"
            "2076657273696f6e3d31",
        ],
    ),
    "C.6": (
        RESPONSES,
        [
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff"
            "6e919d29ad171863c78f0b97c8e9ae82ae43d3",
            "4883640effc1c0bf",
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960"
            "d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
        ],
    ),
}


def a_decoder(limit: int = 16_384) -> HpackDecoder:
    return HpackDecoder(limit)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_rfc(example: str) -> None:
    expected, blocks = EXAMPLES[example]
    decoder = a_decoder()
    if expected is RESPONSES:
        assert decoder.decode(TABLE_OF_256) == []
    assert [decoder.decode(bytes.fromhex(block)) for block in blocks] == expected


@pytest.mark.parametrize(
    ("block", "field", "remembered"),
    [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", (b"custom-key", b"custom-header"), True),
        ("040c2f73616d706c652f70617468", (b":path", b"/sample/path"), False),
        ("100870617373776f726406736563726574", (b"password", b"secret"), False),
        ("82", GET, False),
    ],
)
def test_the_four_kinds_of_fields_of_appendix_c_2(block: str, field: tuple[bytes, bytes], remembered: bool) -> None:
    decoder = a_decoder()
    assert decoder.decode(bytes.fromhex(block)) == [field]
    if remembered:
        assert decoder.decode(b"\xbe") == [field]
    else:
        with pytest.raises(ProtocolError):
            decoder.decode(b"\xbe")


def fields() -> st.SearchStrategy[Fields]:
    """Few names and values, so that they are often repeated, and some of any bytes."""
    name = st.sampled_from([b":path", b"te", b"x", b"grpc-status", b"content-type"]) | st.binary(max_size=20)
    value = st.sampled_from([b"/", b"trailers", b"0", b"application/grpc"]) | st.binary(max_size=200)
    return st.lists(st.tuples(name, value), max_size=12)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(fields(), st.booleans(), st.none() | st.integers(0, 4096)), max_size=10))
def test_whatever_hpack_encodes_is_decoded(blocks: list[tuple[Fields, bool, int | None]]) -> None:
    """With and without Huffman, with a table that fills, overflows and changes its size."""
    encoder, decoder = Encoder(), a_decoder(2**20)
    for sent, huffman, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        assert decoder.decode(encoder.encode(sent, huffman=huffman)) == sent


@pytest.mark.parametrize(
    "block",
    [
        "80",  # entry 0
        "be",  # entry 62 of an empty table
        "ff00ff",  # two fields, the second is not complete
        "ffffffffff7f",  # a number beyond all bounds
        "ff8080808080808080808000",  # a number that does not end
        "7f",
        "40",
        "4001",
        "400161",
        "40016105",
        "00ffffff7f",
        "3fe21f",  # a table of 4097 bytes
        "8220",  # a size update behind a field
        "008261",  # a Huffman string that is cut
        "0001618100",  # a Huffman string with padding of zeros
        "000161ff" + "ff" * 5,
    ],
)
def test_blocks_that_are_wrong_are_refused(block: str) -> None:
    with pytest.raises(ProtocolError) as failure:
        a_decoder().decode(bytes.fromhex(block))
    assert failure.value.code == COMPRESSION_ERROR


def test_a_size_update_before_the_first_field_is_no_field() -> None:
    assert a_decoder().decode(b"\x20\x3f\xe1\x1f\x82") == [GET]


def test_the_list_may_be_as_large_as_the_limit() -> None:
    block = b"\x82" * 10
    limit = 10 * (7 + 3 + 32)
    assert len(a_decoder(limit).decode(block)) == 10
    with pytest.raises(ProtocolError) as failure:
        a_decoder(limit - 1).decode(block)
    assert failure.value.code == ENHANCE_YOUR_CALM


def test_a_small_block_that_means_a_huge_list_is_refused_early() -> None:
    """One field of 4,000 bytes, then a reference of one byte to it, again and again."""
    decoder = a_decoder()
    bomb = b"\x40\x01a\x7f\xa1\x1e" + bytes(4_000) + b"\xbe" * 12_000
    with pytest.raises(ProtocolError) as failure:
        decoder.decode(bomb)
    assert failure.value.code == ENHANCE_YOUR_CALM


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=80), max_size=5))
def test_random_blocks_are_decoded_or_refused(blocks: list[bytes]) -> None:
    decoder = a_decoder(1_000)
    for block in blocks:
        try:
            decoded = decoder.decode(block)
        except ProtocolError as error:
            assert error.code in (COMPRESSION_ERROR, ENHANCE_YOUR_CALM)
            return
        assert sum(len(name) + len(value) + 32 for name, value in decoded) <= 1_000
        assert decoder._table._size <= 4096
