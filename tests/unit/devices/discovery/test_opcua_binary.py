"""OPC UA binary: bytes as the specification writes them, and refusals for all others."""

import struct
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ankaios.devices.discovery.opcua_binary import (
    FIND_SERVERS_ANSWER,
    HEADER_SIZE,
    MAX_ITEMS,
    MAX_MESSAGE,
    OPEN_CHANNEL_ANSWER,
    SERVICE_FAULT,
    Application,
    Channel,
    ChunkHeader,
    MalformedUa,
    Reader,
    close_channel,
    find_servers,
    hello,
    message_part,
    open_channel,
    read_error,
    read_find_servers,
    read_header,
    read_open_channel,
)


def text(value: str | None) -> bytes:
    data = b"" if value is None else value.encode()
    return struct.pack("<i", -1 if value is None else len(data)) + data


def answer(type_id: int, result: int = 0, diagnostics: bytes = b"\0", extension: bytes = b"\0\0\0") -> bytes:
    node = b"\x01\0" + struct.pack("<H", type_id)
    return node + struct.pack("<qII", 0, 1, result) + diagnostics + struct.pack("<i", -1) + extension


def application(name: bytes, kind: int, *urls: str | None) -> bytes:
    return text("urn:a") + text("urn:p") + name + struct.pack("<i", kind) + text(None) * 2 + array(*map(text, urls))


def array(*items: bytes) -> bytes:
    return struct.pack("<i", len(items)) + b"".join(items)


def test_hello_is_written_as_the_specification_says() -> None:
    message = hello("opc.tcp://h:1/")
    assert message[:4] == b"HELF"
    assert struct.unpack("<I", message[4:8]) == (len(message),)
    assert struct.unpack("<5I", message[8:28]) == (0, 65536, 65536, 1024 * 1024, 64)
    assert message[28:] == text("opc.tcp://h:1/")


def test_a_channel_is_asked_for_without_security() -> None:
    message = open_channel(5000)
    assert message[:4] == b"OPNF"
    assert struct.unpack("<II", message[4:12]) == (len(message), 0)
    policy = text("http://opcfoundation.org/UA/SecurityPolicy#None")
    assert message[12:].startswith(
        policy + text(None) * 2 + struct.pack("<II", 1, 1) + b"\x01\0" + struct.pack("<H", 446)
    )
    assert message.endswith(struct.pack("<III", 0, 0, 1) + text(None) + struct.pack("<I", 60_000))


def test_find_servers_names_channel_token_and_url() -> None:
    message = find_servers(Channel(7, 9), "opc.tcp://h:1/", 5000)
    assert message[:4] == b"MSGF"
    assert struct.unpack("<IIIIBBH", message[8:28]) == (7, 9, 2, 2, 1, 0, 422)
    assert message.endswith(text("opc.tcp://h:1/") + struct.pack("<ii", -1, -1))


def test_close_names_the_channel() -> None:
    message = close_channel(Channel(7, 9))
    assert message[:4] == b"CLOF"
    assert struct.unpack("<IIIIBBH", message[8:28]) == (7, 9, 3, 3, 1, 0, 452)


def test_a_header_tells_kind_and_size_of_what_follows() -> None:
    assert read_header(b"MSGC" + struct.pack("<I", 20)) == ChunkHeader(b"MSG", b"C", 12)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1",
        b"MSGX" + struct.pack("<I", 20),
        b"MSGF" + struct.pack("<I", HEADER_SIZE - 1),
        b"MSGF" + struct.pack("<I", MAX_MESSAGE + 1),
        b"MSGF",
    ],
)
def test_a_header_of_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedUa):
        read_header(data)


def test_an_open_channel_is_read_behind_its_security_header() -> None:
    security = struct.pack("<I", 1) + text("policy") + text(None) * 2 + struct.pack("<II", 1, 1)
    body = answer(OPEN_CHANNEL_ANSWER) + struct.pack("<III", 0, 42, 43)
    assert read_open_channel(security + body) == Channel(42, 43)


def test_applications_are_read_with_name_kind_and_urls() -> None:
    both = b"\x03" + text("en") + text("Thermometer")
    body = answer(FIND_SERVERS_ANSWER) + array(
        application(both, 0, "opc.tcp://h:1/", None, "http://h/"),
        application(b"\0", 3),
        application(b"\x01" + text("en"), 1),
    )
    assert read_find_servers(body) == (
        Application("Thermometer", 0, ("opc.tcp://h:1/", "http://h/")),
        Application(None, 3, ()),
        Application(None, 1, ()),
    )


def test_diagnostics_and_extensions_are_skipped() -> None:
    diagnostics = b"\x7f" + bytes(16) + text("more") + bytes(4) + b"\0"
    extension = b"\x02" + bytes(6) + b"\x01" + text("body")
    assert read_find_servers(answer(FIND_SERVERS_ANSWER, 0, diagnostics, extension) + array()) == ()


@pytest.mark.parametrize(
    ("node", "number"),
    [
        (b"\0\x05", 5),
        (b"\x01\0\x05\0", 5),
        (b"\x02\0\0\x05\0\0\0", 5),
        (b"\x03\0\0" + text("x"), None),
        (b"\x04\0\0" + bytes(16), None),
        (b"\x05\0\0" + text("x"), None),
    ],
)
def test_every_kind_of_node_id_is_understood(node: bytes, number: int | None) -> None:
    reader = Reader(node)
    assert reader.node_id() == number
    with pytest.raises(MalformedUa, match="ends too early"):
        reader.byte()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (answer(SERVICE_FAULT, 0x80010000), "0x80010000"),
        (answer(FIND_SERVERS_ANSWER, 0x80AB0000), "0x80AB0000"),
        (answer(OPEN_CHANNEL_ANSWER), "expected an answer of type 425"),
        (answer(FIND_SERVERS_ANSWER) + struct.pack("<i", MAX_ITEMS + 1), "out of bounds"),
        (answer(FIND_SERVERS_ANSWER) + struct.pack("<i", 5), "too early"),
        (answer(FIND_SERVERS_ANSWER) + array(application(b"\x02" + struct.pack("<i", 1) + b"\xff", 0)), "UTF-8"),
        (b"\x09", "node id"),
        (b"", "too early"),
        (answer(FIND_SERVERS_ANSWER, 0, b"\x40" * 100), "too early"),
    ],
)
def test_an_answer_that_is_not_the_expected_one_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(MalformedUa, match=words):
        read_find_servers(body)


def test_an_error_message_is_told_in_words() -> None:
    assert read_error(struct.pack("<I", 0x80830000) + text("bad url")) == "error 0x80830000 bad url"
    assert read_error(struct.pack("<I", 0x80830000) + text(None)) == "error 0x80830000"


def test_a_chunk_without_its_four_numbers_is_refused() -> None:
    assert message_part(bytes(16) + b"body") == b"body"
    with pytest.raises(MalformedUa):
        message_part(bytes(15))


GOOD = answer(FIND_SERVERS_ANSWER) + array(application(b"\x02" + text("name"), 0, "opc.tcp://h:1/"))


@given(st.binary(max_size=100) | st.binary(max_size=60).map(lambda tail: answer(FIND_SERVERS_ANSWER) + tail))
@example(GOOD[:-1])
@settings(max_examples=1000)
def test_any_bytes_are_an_answer_or_refused(data: bytes) -> None:
    for read in (read_find_servers, read_open_channel, read_header, read_error, message_part):
        with suppress(MalformedUa):
            read(data)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
@settings(max_examples=1000)
def test_one_wrong_byte_is_harmless(place: int, value: int) -> None:
    with suppress(MalformedUa):
        read_find_servers(GOOD[:place] + bytes([value]) + GOOD[place + 1 :])
