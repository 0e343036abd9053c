"""HPACK encoding (RFC 7541) without a memory: what the static table knows is named by its number, all else is spelled.

Comes in: headers. Goes out: the header block. Owns nothing: the few headers of a call are sent once per connection, so
a dynamic table or the Huffman code would save some hundred bytes and cost more than they save.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.middleware.http2_engine.hpack_tables import STATIC_TABLE

if TYPE_CHECKING:
    from ankaios.middleware.http2_engine.events import Headers

# To be said once, before the first header: the peer need not keep a table for us, and whatever limit it sets for that
# table later is kept.
NO_TABLE = b"\x20"
_INDEXED, _INDEX_BITS, _NAME_BITS, _SIZE_BITS = 0x80, 0x7F, 0x0F, 0x7F

_fields = {field: number for number, field in enumerate(STATIC_TABLE, 1)}
_names = {field[0]: number for number, field in reversed(tuple(enumerate(STATIC_TABLE, 1)))}


def encode(headers: Headers) -> bytes:
    """Space around a value is not allowed in HTTP/2 and is left out."""
    return b"".join(
        [_encode_field(name.encode(), value.strip(" \t").encode(errors="replace")) for name, value in headers]
    )


def _encode_field(name: bytes, value: bytes) -> bytes:
    number = _fields.get((name, value))
    if number is not None:
        return _integer(number, _INDEX_BITS, _INDEXED)
    number = _names.get(name)
    if number is not None:
        return _integer(number, _NAME_BITS) + _string(value)
    return b"\0" + _string(name) + _string(value)


def _string(text: bytes) -> bytes:
    return _integer(len(text), _SIZE_BITS) + text


def _integer(value: int, mask: int, kind: int = 0) -> bytes:
    """A number in the bits of `mask` of a byte that begins with `kind`, and as many more bytes as it needs."""
    if value < mask:
        return bytes((kind | value,))
    encoded = bytearray((kind | mask,))
    value -= mask
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
