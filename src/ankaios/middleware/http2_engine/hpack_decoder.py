"""HPACK decoding (RFC 7541): a header block becomes header fields.

Comes in: whole header blocks, in the order of arrival. Goes out: lists of fields, never larger than the limit however
small the block. Owns the table that the peer's encoder fills.

Every fault is one of the connection, as the tables of the two sides may differ from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.middleware.http2_engine.errors import COMPRESSION_ERROR, ENHANCE_YOUR_CALM, ProtocolError
from ankaios.middleware.http2_engine.hpack_tables import FIELD_OVERHEAD, FieldTable

if TYPE_CHECKING:
    from ankaios.middleware.http2_engine.hpack_tables import Field

_MAX_SHIFT = 28  # numbers have at most 4 further bytes; no block is nearly that long
_INDEXED, _WITH_INDEXING, _SIZE_UPDATE, _HUFFMAN = 0x80, 0x40, 0x20, 0x80


class HpackDecoder:
    """The receiving end of one connection."""

    def __init__(self, max_list_size: int) -> None:
        self._table = FieldTable()
        self._max_list_size = max_list_size

    def decode(self, block: bytes) -> list[Field]:
        try:
            return self._decode(block)
        except IndexError:
            raise ProtocolError(COMPRESSION_ERROR, "a header block ends in the middle of a field") from None

    def _decode(self, block: bytes) -> list[Field]:
        fields: list[Field] = []
        at = size = 0
        while at < len(block):
            field, at = self._field(block, at, first=not fields)
            if field is None:
                continue
            size += len(field[0]) + len(field[1]) + FIELD_OVERHEAD
            if size > self._max_list_size:
                raise ProtocolError(ENHANCE_YOUR_CALM, f"the headers have more than {self._max_list_size} bytes")
            fields.append(field)
        return fields

    def _field(self, block: bytes, at: int, *, first: bool) -> tuple[Field | None, int]:
        """The field at this place (none for a size update) and the place behind it."""
        kind = block[at]
        if kind & _INDEXED:
            index, at = _integer(block, at, 0x7F)
            return self._table[index], at
        if kind & _WITH_INDEXING:
            field, at = self._literal(block, at, 0x3F)
            self._table.add(field)
            return field, at
        if kind & _SIZE_UPDATE:
            if not first:
                raise ProtocolError(COMPRESSION_ERROR, "a header table changes its size in the middle of a block")
            size, at = _integer(block, at, 0x1F)
            self._table.resize(size)
            return None, at
        return self._literal(block, at, 0x0F)

    def _literal(self, block: bytes, at: int, mask: int) -> tuple[Field, int]:
        index, at = _integer(block, at, mask)
        if index:
            name = self._table[index][0]
        else:
            name, at = _string(block, at)
        value, at = _string(block, at)
        return (name, value), at


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """A number that begins in the bits of `mask`, and the place behind it."""
    value = block[at] & mask
    at += 1
    if value < mask:
        return value, at
    for shift in range(0, _MAX_SHIFT, 7):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    raise ProtocolError(COMPRESSION_ERROR, "a number in a header block is too large")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    coded = block[at] & _HUFFMAN
    size, at = _integer(block, at, 0x7F)
    end = at + size
    if end > len(block):
        raise IndexError
    text = block[at:end]
    return (_plain(text) if coded else text), end


def _plain(coded: bytes) -> bytes:
    # Loaded here, as a peer of our own kind never sends coded text.
    from ankaios.middleware.http2_engine.huffman import decode

    return decode(coded)
