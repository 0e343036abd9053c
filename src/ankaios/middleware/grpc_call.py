"""gRPC on top of an HTTP/2 stream: message framing, headers, status.

Comes in: payloads, statuses, received headers. Goes out: frames and header lists, or `CallFailed` for what the peer did
wrong. Owns nothing.
"""

import re
import struct
from enum import IntEnum
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from ankaios.middleware.methods import Method
from ankaios.middleware.stream import Headers, Stream

M = TypeVar("M", bound=Message)

_PREFIX = struct.Struct(">BI")
_CONTENT_TYPE = "application/grpc"
RESPONSE_HEADERS: Headers = [(":status", "200"), ("content-type", _CONTENT_TYPE)]
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


class Status(IntEnum):
    """The gRPC status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class CallFailed(Exception):
    """The call ends with this status and text."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(f"{text} ({status.name})" if text else status.name)
        self.status = status
        self.text = text


def frame(payload: bytes) -> bytes:
    return _PREFIX.pack(0, len(payload)) + payload


async def read_message(stream: Stream, kind: type[M], limit: int) -> M | None:
    """The next message, None at the end of the stream. Its size is judged before any of it is stored."""
    prefix = await stream.read(_PREFIX.size)
    if not prefix:
        return None
    compressed, size = _PREFIX.unpack(prefix)
    if compressed:
        raise CallFailed(Status.UNIMPLEMENTED, "compressed messages are not supported")
    if size > limit:
        raise CallFailed(Status.RESOURCE_EXHAUSTED, f"a message of {size} bytes exceeds the limit of {limit} bytes")
    payload = await stream.read(size)
    if len(payload) < size:
        raise CallFailed(Status.INVALID_ARGUMENT, "the stream ended in the middle of a message")
    try:
        return kind.FromString(payload)  # type: ignore[arg-type]  # a bytearray will do
    except DecodeError as error:
        raise CallFailed(Status.INVALID_ARGUMENT, f"cannot decode a {kind.__name__} message: {error}") from error


def request_headers(method: Method, scheme: str, authority: str, user_agent: str) -> Headers:
    return [
        (":method", "POST"),
        (":scheme", scheme),
        (":path", method.value),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", _CONTENT_TYPE),
        ("user-agent", user_agent),
    ]


def method_of(headers: dict[str, str]) -> Method | Headers:
    """What is called, or the headers of the refusal."""
    if headers.get(":method") != "POST":
        return [(":status", "405")]
    if not headers.get("content-type", "").startswith(_CONTENT_TYPE):
        return [(":status", "415")]
    try:
        return Method(headers.get(":path"))
    except ValueError:
        return [*RESPONSE_HEADERS, *_status_headers(Status.UNIMPLEMENTED, "Method not found")]


def final_headers(status: Status, text: str, *, headers_sent: bool) -> Headers:
    """Trailers, or all in one if the call fails before its headers were sent."""
    ending = _status_headers(status, text)
    return ending if headers_sent else [*RESPONSE_HEADERS, *ending]


def _status_headers(status: Status, text: str) -> Headers:
    ending = [("grpc-status", str(status.value))]
    if text:
        ending.append(("grpc-message", encode_text(text)))
    return ending


def status_of(headers: dict[str, str]) -> CallFailed | None:
    """The status in headers or trailers; None if the call goes on or ended well."""
    code = headers.get("grpc-status")
    if code is None:
        http_status = headers.get(":status", "200")
        return None if http_status == "200" else CallFailed(Status.UNKNOWN, f"HTTP status {http_status}")
    try:
        status = Status(int(code))
    except ValueError:
        return CallFailed(Status.UNKNOWN, f"gRPC status {code}")
    return None if status is Status.OK else CallFailed(status, decode_text(headers.get("grpc-message", "")))


def encode_text(text: str) -> str:
    """Percent-encoding of grpc-message: printable ASCII stays as it is."""
    return "".join(
        chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x25 else f"%{byte:02X}"
        for byte in text.encode("utf-8", "replace")
    )


def decode_text(text: str) -> str:
    octets = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return octets.encode("latin-1", "replace").decode("utf-8", "replace")
