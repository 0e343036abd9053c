"""gRPC on top of an HTTP/2 stream: message framing, headers, status.

Comes in: payloads, statuses, received headers. Goes out: frames and header lists, or `CallFailed` for what the peer did
wrong. Owns nothing.

Every `ank` loads this file, so it gets along without `enum`, `re` and the like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from ankaios.middleware.methods import METHODS

if TYPE_CHECKING:
    from typing import TypeVar

    from google.protobuf.message import Message

    from ankaios.middleware.http2_engine.events import Headers
    from ankaios.middleware.methods import Method
    from ankaios.middleware.stream import Stream

    M = TypeVar("M", bound=Message)

CUT_SHORT = "the stream ended in the middle of a message"
PREFIX_SIZE = 5  # one byte: compressed or not; four: the size of the message
_CONTENT_TYPE = "application/grpc"
RESPONSE_HEADERS: Headers = [(":status", "200"), ("content-type", _CONTENT_TYPE)]
_MAX_TEXT = 1000  # characters: what peers take of headers is limited, and the text may repeat what a peer said
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class Status:
    """The gRPC status codes, plain numbers."""

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


_STATUS_NAMES = {number: name for name, number in vars(Status).items() if name.isupper()}


class CallFailed(Exception):
    """The call ends with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        name = _STATUS_NAMES[status]
        super().__init__(f"{text} ({name})" if text else name)
        self.status = status
        self.text = text


def frame(payload: bytes) -> bytes:
    return b"\0" + len(payload).to_bytes(4, "big") + payload


async def read_message(stream: Stream, kind: type[M], limit: int) -> M | None:
    """The next message, None at the end of the stream. Its size is judged before any of it is stored."""
    prefix = await stream.read(PREFIX_SIZE)
    if not prefix:
        return None
    if len(prefix) == PREFIX_SIZE:
        size = size_in(prefix, limit)
        payload = await stream.read(size)
        if len(payload) == size:
            return decoded(kind, payload)
    raise CallFailed(Status.INVALID_ARGUMENT, CUT_SHORT)


def size_in(prefix: bytes | bytearray, limit: int) -> int:
    """How large the message is whose prefix this is, if that is acceptable."""
    if prefix[0]:
        raise CallFailed(Status.UNIMPLEMENTED, "compressed messages are not supported")
    size = int.from_bytes(prefix[1:PREFIX_SIZE], "big")
    if size > limit:
        raise CallFailed(Status.RESOURCE_EXHAUSTED, f"a message of {size} bytes exceeds the limit of {limit} bytes")
    return size


class MessageBuffer:
    """Received bytes, which come out as payloads of messages. A size is judged as soon as it is known."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._received = bytearray()

    def __len__(self) -> int:
        return len(self._received)

    def add(self, data: bytes) -> None:
        self._received += data

    def take(self) -> bytearray | None:
        """The payload of the next message; None if it is not complete."""
        if len(self._received) < PREFIX_SIZE:
            return None
        end = PREFIX_SIZE + size_in(self._received, self._limit)
        if len(self._received) < end:
            return None
        payload = self._received[PREFIX_SIZE:end]
        del self._received[:end]
        return payload


def decoded(kind: type[M], payload: bytes | bytearray) -> M:
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
    method = METHODS.get(headers.get(":path", ""))
    return method or [*RESPONSE_HEADERS, *_status_headers(Status.UNIMPLEMENTED, "Method not found")]


def final_headers(status: int, text: str, *, headers_sent: bool) -> Headers:
    """Trailers, or all in one if the call fails before its headers were sent."""
    ending = _status_headers(status, text)
    return ending if headers_sent else [*RESPONSE_HEADERS, *ending]


def _status_headers(status: int, text: str) -> Headers:
    ending = [("grpc-status", str(status))]
    if text:
        ending.append(("grpc-message", encode_text(text[:_MAX_TEXT])))
    return ending


def status_of(headers: dict[str, str]) -> CallFailed | None:
    """The status in headers or trailers; None if the call goes on or ended well."""
    code = headers.get("grpc-status")
    if code is None:
        http_status = headers.get(":status", "200")
        return None if http_status == "200" else CallFailed(Status.UNKNOWN, f"HTTP status {http_status}")
    status = int(code) if len(code) <= 2 and code.isascii() and code.isdigit() else -1
    if status not in _STATUS_NAMES:
        return CallFailed(Status.UNKNOWN, f"gRPC status {code}")
    return None if status == Status.OK else CallFailed(status, decode_text(headers.get("grpc-message", "")))


def encode_text(text: str) -> str:
    """Percent-encoding of grpc-message: printable ASCII stays as it is."""
    return "".join(
        chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x25 else f"%{byte:02X}"
        for byte in text.encode("utf-8", "replace")
    )


def decode_text(text: str) -> str:
    """What is no proper escape stays as it is."""
    octets, *parts = text.split("%")
    for part in parts:
        code = part[:2]
        is_escape = len(code) == 2 and _HEX_DIGITS.issuperset(code)
        octets += chr(int(code, 16)) + part[2:] if is_escape else f"%{part}"
    return octets.encode("latin-1", "replace").decode("utf-8", "replace")
