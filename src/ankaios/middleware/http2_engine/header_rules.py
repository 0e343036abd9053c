"""Which headers are well-formed (RFC 9113, section 8), as far as a gRPC peer can rely on it.

Comes in: decoded fields. Goes out: what is wrong with them, or None; what they say of the data. Owns nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ankaios.middleware.http2_engine.hpack_tables import Field

_NAME_BYTES = bytes(byte for byte in range(0x21, 0x7F) if not 0x41 <= byte <= 0x5A and byte != 0x3A)
_OF_HTTP_1 = (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
_LENGTH = b"content-length"
_MAX_LENGTH_DIGITS = 18
_REQUEST = (b":method", b":scheme", b":path")
_REQUEST_TOO = (*_REQUEST, b":authority")
_RESPONSE = (b":status",)


def fault_of_request(fields: list[Field]) -> str | None:
    pseudo, regular = _split(fields)
    names = [name for name, _ in pseudo]
    for name in _REQUEST:
        if name not in names:
            return f"{name.decode()} is missing"
    if (b":path", b"") in pseudo:
        return ":path is empty"
    return _fault_of_pseudo(pseudo, names, _REQUEST_TOO) or _fault_of_regular(regular)


def fault_of_response(fields: list[Field]) -> str | None:
    pseudo, regular = _split(fields)
    names = [name for name, _ in pseudo]
    if b":status" not in names:
        return ":status is missing"
    status = pseudo[0][1]
    if len(status) != 3 or not status.isdigit():
        return ":status is not a number of three digits"
    return _fault_of_pseudo(pseudo, names, _RESPONSE) or _fault_of_regular(regular)


def fault_of_trailers(fields: list[Field]) -> str | None:
    return _fault_of_regular(fields)


def is_interim(fields: list[Field]) -> bool:
    """A response before the response (1xx)."""
    return fields[0][1].startswith(b"1")


def content_length(fields: list[Field]) -> int | None:
    """How many bytes of data shall follow, if that is said."""
    return next((int(value) for name, value in fields if name == _LENGTH), None)


def _split(fields: list[Field]) -> tuple[list[Field], list[Field]]:
    """Pseudo-headers come first; one that does not is taken for a regular header, which must not begin with a colon."""
    count = 0
    while count < len(fields) and fields[count][0].startswith(b":"):
        count += 1
    return fields[:count], fields[count:]


def _fault_of_pseudo(pseudo: list[Field], names: list[bytes], allowed: tuple[bytes, ...]) -> str | None:
    for name, value in pseudo:
        if name not in allowed:
            return f"{name[:40]!r} is not a pseudo-header of this place"
        if names.count(name) > 1:
            return f"{name.decode()} is there twice"
        if _is_bad_value(value):
            return f"the value of {name.decode()} has characters that are not allowed"
    return None


def _fault_of_regular(fields: list[Field]) -> str | None:
    for name, value in fields:
        if not name or name.translate(None, _NAME_BYTES):
            return f"{name[:40]!r} is not a header name of this place"
        if _is_bad_value(value):
            return f"the value of {name.decode()} has characters that are not allowed"
        if name in _OF_HTTP_1 or (name == b"te" and value != b"trailers"):
            return f"{name.decode()} is not a header of HTTP/2"
    return _fault_of_length([value for name, value in fields if name == _LENGTH])


def _fault_of_length(lengths: list[bytes]) -> str | None:
    if len(set(lengths)) > 1 or not all(length.isdigit() and len(length) <= _MAX_LENGTH_DIGITS for length in lengths):
        return "content-length is not one number"
    return None


def _is_bad_value(value: bytes) -> bool:
    return b"\0" in value or b"\n" in value or b"\r" in value or value.strip(b" \t") != value
