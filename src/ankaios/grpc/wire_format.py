"""The wire format of gRPC on HTTP/2: length-prefixed messages, headers, status.

Input: payloads, statuses, received headers and bytes. Output: bytes and header lists, or `CallFailed` that states what
the peer did wrong. `MessageBuffer` owns the received bytes of one call; everything else owns nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from ankaios.common.version import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeVar

    from google.protobuf.message import Message

    M = TypeVar("M", bound=Message)

Headers = list[tuple[str, str]]

MIB = 1024 * 1024
_PREFIX_SIZE = 5  # one byte: compressed or not; four bytes: the size of the message
_CONTENT_TYPE = "application/grpc"
RESPONSE_HEADERS: Headers = [(":status", "200"), ("content-type", _CONTENT_TYPE)]
_MAX_STATUS_TEXT = 1000  # characters; peers limit the size of headers, and the text may repeat input of a peer
_MAX_TIMEOUT_MS = 99_999_999  # gRPC allows eight digits
_UNESCAPED = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}"  # besides letters, digits and "_.-~"


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
    """The call ended, or has to end, with this status and text."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(f"{text} ({status.name})" if text else status.name)
        self.status = status
        self.text = text

    @property
    def reason(self) -> str:
        """The text, or the name of the status if there is none."""
        return self.text or self.status.name


class ConnectionBroken(CallFailed):
    """There is no connection, or it ended before the call did."""

    def __init__(self, text: str) -> None:
        super().__init__(Status.UNAVAILABLE, text)

    def __str__(self) -> str:
        return self.text


# Messages


def length_prefixed(payload: bytes) -> bytes:
    return b"\0" + len(payload).to_bytes(4, "big") + payload


class MessageBuffer:
    """Turns received bytes into messages. The size of a message is checked as soon as its prefix is complete."""

    def __init__(self) -> None:
        self._received = bytearray()

    def __len__(self) -> int:
        return len(self._received)

    def add(self, data: bytes) -> None:
        self._received += data

    @property
    def announced_size(self) -> int:
        """The size of the next message, 0 if its prefix is not complete."""
        return int.from_bytes(self._received[1:_PREFIX_SIZE], "big") if len(self._received) >= _PREFIX_SIZE else 0

    def take(self, kind: type[M], limit: int) -> M | None:
        """Return the next message, or None if it is not complete."""
        if len(self._received) < _PREFIX_SIZE:
            return None
        end = _PREFIX_SIZE + _message_size(self._received, limit)
        if len(self._received) < end:
            return None
        payload = self._received[_PREFIX_SIZE:end]
        del self._received[:end]
        return _decoded(kind, payload)


def _message_size(prefix: bytearray, limit: int) -> int:
    if prefix[0]:
        raise CallFailed(Status.UNIMPLEMENTED, "compressed messages are not supported")
    size = int.from_bytes(prefix[1:_PREFIX_SIZE], "big")
    if size > limit:
        raise CallFailed(Status.RESOURCE_EXHAUSTED, f"a message of {size} bytes exceeds the limit of {limit} bytes")
    return size


def _decoded(kind: type[M], payload: bytearray) -> M:
    try:
        return kind.FromString(payload)  # type: ignore[arg-type]  # a bytearray is accepted
    except DecodeError as error:
        raise CallFailed(Status.INVALID_ARGUMENT, f"cannot decode a {kind.__name__} message: {error}") from error


# Headers


def request_headers(
    path: str,
    *,
    secure: bool,
    authority: str,
    metadata: Mapping[str, str] | None = None,
    time_limit: float | None = None,
) -> Headers:
    """`time_limit` in seconds is sent to the server, which may use it to end the call in time."""
    headers = [
        (":method", "POST"),
        (":scheme", "https" if secure else "http"),
        (":path", path),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", _CONTENT_TYPE),
        ("user-agent", f"ankaios/{PROTOCOL_VERSION}"),
    ]
    if time_limit is not None:
        headers.append(("grpc-timeout", f"{min(max(int(time_limit * 1000), 1), _MAX_TIMEOUT_MS)}m"))
    return [*headers, *(metadata or {}).items()]


def refusal_of(headers: Mapping[str, str]) -> Headers | None:
    """Return the response headers if this is not a gRPC request, else None."""
    if headers.get(":method") != "POST":
        return [(":status", "405")]
    if not headers.get("content-type", "").startswith(_CONTENT_TYPE):
        return [(":status", "415")]
    return None


def final_headers(status: Status, text: str, *, headers_sent: bool) -> Headers:
    """Return the trailers, or the only headers if the call fails before its headers were sent."""
    final = [("grpc-status", str(status.value))]
    if text:
        final.append(("grpc-message", encode_status_text(text[:_MAX_STATUS_TEXT])))
    return final if headers_sent else [*RESPONSE_HEADERS, *final]


def failure_in(headers: Mapping[str, str]) -> CallFailed | None:
    """Return the failure that headers or trailers report; None if the call continues or ended with OK."""
    code = headers.get("grpc-status")
    if code is None:
        http_status = headers.get(":status", "200")
        return None if http_status == "200" else CallFailed(Status.UNKNOWN, f"HTTP status {http_status}")
    if len(code) > 2 or not code.isascii() or not code.isdigit() or int(code) > max(Status):
        return CallFailed(Status.UNKNOWN, f"gRPC status {code}")
    status = Status(int(code))
    return None if status is Status.OK else CallFailed(status, decode_status_text(headers.get("grpc-message", "")))


def encode_status_text(text: str) -> str:
    """Percent-encode as gRPC requires it: printable ASCII characters stay as they are."""
    from urllib.parse import quote  # 2 ms, and a call without an error needs no text

    return quote(text, safe=_UNESCAPED, errors="replace")


def decode_status_text(text: str) -> str:
    from urllib.parse import unquote

    return unquote(text)
