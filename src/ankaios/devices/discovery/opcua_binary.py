"""The few OPC UA binary messages that find servers: written and read without any I/O.

In: values or bytes. Out: bytes or values; `MalformedUa` for anything a server should not have sent. Numbers are little
endian; texts and arrays carry their length, -1 for null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

T = TypeVar("T")

HEADER_SIZE = 8
BUFFER_SIZE = 65536
MAX_MESSAGE = 1024 * 1024
MAX_CHUNKS = 64
MAX_ITEMS = 1000

POLICY_NONE = "http://opcfoundation.org/UA/SecurityPolicy#None"
SERVICE_FAULT = 397
OPEN_CHANNEL, OPEN_CHANNEL_ANSWER = 446, 449
CLOSE_CHANNEL = 452
FIND_SERVERS, FIND_SERVERS_ANSWER = 422, 425
SERVER, CLIENT_AND_SERVER = 0, 2

_CHANNEL_LIFETIME_MS = 60_000


class MalformedUa(ValueError):
    """These bytes are not the OPC UA message that was expected."""


class Application(Struct, frozen=True):
    """What a server tells about one application it knows."""

    name: str | None
    type: int
    discovery_urls: tuple[str, ...]


class Channel(Struct, frozen=True):
    """The identity of an open connection, part of every later message."""

    id: int
    token: int


def _text(value: str | None) -> bytes:
    if value is None:
        return struct.pack("<i", -1)
    data = value.encode()
    return struct.pack("<i", len(data)) + data


def _message(kind: bytes, content: bytes) -> bytes:
    return kind + b"F" + struct.pack("<I", HEADER_SIZE + len(content)) + content


def _request(type_id: int, handle: int, timeout_ms: int) -> bytes:
    """The type and header every request body begins with: no session, no time, no diagnostics, no audit id."""
    type_node, no_session, no_extension = struct.pack("<BBH", 1, 0, type_id), b"\0\0", b"\0\0\0"
    time_handle_diagnostics = struct.pack("<qII", 0, handle, 0)
    return type_node + no_session + time_handle_diagnostics + _text(None) + struct.pack("<I", timeout_ms) + no_extension


def hello(url: str) -> bytes:
    return _message(b"HEL", struct.pack("<5I", 0, BUFFER_SIZE, BUFFER_SIZE, MAX_MESSAGE, MAX_CHUNKS) + _text(url))


def open_channel(timeout_ms: int) -> bytes:
    """Ask for a channel without security: which servers exist is no secret."""
    security = struct.pack("<I", 0) + _text(POLICY_NONE) + _text(None) + _text(None) + struct.pack("<II", 1, 1)
    issue, mode_none = 0, 1
    body = struct.pack("<III", 0, issue, mode_none) + _text(None) + struct.pack("<I", _CHANNEL_LIFETIME_MS)
    return _message(b"OPN", security + _request(OPEN_CHANNEL, 1, timeout_ms) + body)


def find_servers(channel: Channel, url: str, timeout_ms: int) -> bytes:
    any_locale = any_server = struct.pack("<i", -1)
    body = _request(FIND_SERVERS, 2, timeout_ms) + _text(url) + any_locale + any_server
    return _message(b"MSG", struct.pack("<IIII", channel.id, channel.token, 2, 2) + body)


def close_channel(channel: Channel) -> bytes:
    return _message(b"CLO", struct.pack("<IIII", channel.id, channel.token, 3, 3) + _request(CLOSE_CHANNEL, 3, 0))


class ChunkHeader(Struct, frozen=True):
    kind: bytes
    final: bytes
    size: int


def read_header(data: bytes) -> ChunkHeader:
    """The first eight bytes of a chunk; `size` counts what follows them."""
    if len(data) != HEADER_SIZE:
        raise MalformedUa("a chunk header has eight bytes")
    kind, final, size = struct.unpack("<3s1sI", data)
    if kind not in (b"ACK", b"ERR", b"OPN", b"MSG") or final not in (b"F", b"C", b"A"):
        raise MalformedUa("not an answer in OPC UA binary")
    if not HEADER_SIZE <= size <= MAX_MESSAGE:
        raise MalformedUa(f"a chunk of {size} bytes is out of bounds")
    return ChunkHeader(kind, final, size - HEADER_SIZE)


def read_error(content: bytes) -> str:
    reader = Reader(content)
    code, reason = reader.uint32(), reader.text()
    return f"error 0x{code:08X} {reason or ''}".rstrip()


def message_part(content: bytes) -> bytes:
    """What a MSG chunk adds to its message: all behind channel, token, sequence number and request id."""
    if len(content) < 16:
        raise MalformedUa("a message chunk is too short")
    return content[16:]


def read_open_channel(content: bytes) -> Channel:
    reader = Reader(content)
    reader.uint32()
    for _ in ("policy", "certificate", "thumbprint"):
        reader.skip_bytes()
    reader.take(8)  # sequence number and request id
    reader.answer(OPEN_CHANNEL_ANSWER)
    reader.uint32()  # protocol version
    return Channel(reader.uint32(), reader.uint32())


def read_find_servers(body: bytes) -> tuple[Application, ...]:
    reader = Reader(body)
    reader.answer(FIND_SERVERS_ANSWER)
    return reader.array(reader.application)


class Reader:
    """Takes values off the front of bytes, never beyond their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise MalformedUa("the message ends too early")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "little", signed=True)

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def skip_bytes(self) -> None:
        self.take(max(self.int32(), 0))

    def text(self) -> str | None:
        length = self.int32()
        if length < 0:
            return None
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedUa("a text is not UTF-8") from error

    def array(self, item: Callable[[], T]) -> tuple[T, ...]:
        count = self.int32()
        if count > MAX_ITEMS:
            raise MalformedUa(f"an array of {count} items is out of bounds")
        return tuple(item() for _ in range(max(count, 0)))

    def answer(self, expected: int) -> None:
        """The type and header every answer body begins with."""
        type_id = self.node_id()
        self.take(12)  # time and request handle
        result = self.uint32()
        if type_id == SERVICE_FAULT or result & 0x8000_0000:
            raise MalformedUa(f"the server refused with status 0x{result:08X}")
        if type_id != expected:
            raise MalformedUa(f"expected an answer of type {expected}, got {type_id}")
        self.skip_diagnostics()
        self.array(self.text)
        self.skip_extension()

    def node_id(self) -> int | None:
        """The number of a numeric node id; other kinds are only skipped."""
        match self.byte():
            case 0:
                return self.byte()
            case 1:
                self.byte()
                return int.from_bytes(self.take(2), "little")
            case 2:
                self.take(2)
                return self.uint32()
            case 3 | 5:
                self.take(2)
                self.skip_bytes()
            case 4:
                self.take(18)
            case kind:
                raise MalformedUa(f"unknown kind of node id {kind}")
        return None

    def skip_diagnostics(self) -> None:
        """Bits 0-3: numbers, 4: text, 5: status, 6: another one inside, as deep as there are bytes."""
        inner = True
        while inner:
            mask = self.byte()
            self.take(4 * (mask & 0x0F).bit_count())
            if mask & 0x10:
                self.skip_bytes()
            if mask & 0x20:
                self.take(4)
            inner = bool(mask & 0x40)

    def skip_extension(self) -> None:
        self.node_id()
        if self.byte():
            self.skip_bytes()

    def localized_text(self) -> str | None:
        mask = self.byte()
        if mask & 1:
            self.skip_bytes()
        return self.text() if mask & 2 else None

    def application(self) -> Application:
        self.skip_bytes()  # application uri
        self.skip_bytes()  # product uri
        name, kind = self.localized_text(), self.int32()
        self.skip_bytes()  # gateway server uri
        self.skip_bytes()  # discovery profile uri
        urls = self.array(self.text)
        return Application(name, kind, tuple(url for url in urls if url))
