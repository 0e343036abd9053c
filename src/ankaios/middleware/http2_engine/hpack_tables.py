"""The two tables of HPACK (RFC 7541): the static one, and the dynamic one that the peer's encoder fills.

Comes in: header fields the peer wants to refer to later, sizes. Goes out: fields by index. Owns the dynamic table,
whose size as the RFC counts it never exceeds `MAX_TABLE_SIZE`.
"""

from __future__ import annotations

from ankaios.middleware.http2_engine.errors import COMPRESSION_ERROR, ProtocolError

Field = tuple[bytes, bytes]

MAX_TABLE_SIZE = 4096  # what every peer may use before it knows our settings, so it is left at that
FIELD_OVERHEAD = 32

STATIC_TABLE: tuple[Field, ...] = (
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
)
_STATIC_COUNT = len(STATIC_TABLE)


class FieldTable:
    """Static and dynamic table under one index, as the peer's encoder sees them."""

    def __init__(self) -> None:
        self._entries: list[Field] = []  # the newest last
        self._size = 0
        self._max_size = MAX_TABLE_SIZE

    def __getitem__(self, index: int) -> Field:
        if 0 < index <= _STATIC_COUNT:
            return STATIC_TABLE[index - 1]
        age = index - _STATIC_COUNT
        if 0 < age <= len(self._entries):
            return self._entries[-age]
        raise ProtocolError(COMPRESSION_ERROR, f"a header refers to entry {index}, which does not exist")

    def add(self, field: Field) -> None:
        """A field that is larger than the table only empties it."""
        self._entries.append(field)
        self._size += _size_of(field)
        self._evict()

    def resize(self, max_size: int) -> None:
        if max_size > MAX_TABLE_SIZE:
            raise ProtocolError(COMPRESSION_ERROR, f"a header table of {max_size} bytes exceeds {MAX_TABLE_SIZE}")
        self._max_size = max_size
        self._evict()

    def _evict(self) -> None:
        oldest = 0
        while self._size > self._max_size:
            self._size -= _size_of(self._entries[oldest])
            oldest += 1
        del self._entries[:oldest]


def _size_of(field: Field) -> int:
    return len(field[0]) + len(field[1]) + FIELD_OVERHEAD
