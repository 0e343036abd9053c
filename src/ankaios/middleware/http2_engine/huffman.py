"""The Huffman code of RFC 7541, appendix B: decoding only, since we send everything plain.

Comes in: the bytes of a coded string. Goes out: the string. Owns the tables, made when the first coded string arrives.

The code is canonical: within one length, codes are consecutive numbers in the order of the symbols. So the symbols of
each length say it all.
"""

from __future__ import annotations

from ankaios.middleware.http2_engine.errors import COMPRESSION_ERROR, ProtocolError

# Which symbols have a code of this length. EOS, the only other one of 30 bits, is never sent.
_SYMBOLS = (
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b'!"()?'),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\x00$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
    (19, b"\\\xc3\xd0"),
    (20, b"\x80\x82\x83\xa2\xb8\xc2\xe0\xe2"),
    (21, b"\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6"),
    (22, b"\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe\xc4\xc6\xe4\xe8\xe9"),
    (
        23,
        b"\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf\xb4\xb6\xb7\xbc\xbf"
        b"\xc5\xe7\xef",
    ),
    (24, b"\x09\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed"),
    (25, b"\xc7\xcf\xea\xeb"),
    (26, b"\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff"),
    (27, b"\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe"),
    (
        28,
        b"\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"
        b"\x7f\xdc\xf9",
    ),
    (30, b"\x0a\x0d\x16"),
)
_QUICK_BITS = 8

_Long = tuple[int, int, bytes]  # length, first code, symbols of this length
_short: list[tuple[int, int]] = []  # the next 8 bits -> symbol, length; length 0: the code is longer
_long: list[_Long] = []


def decode(coded: bytes) -> bytes:
    if not _short:
        _make_tables()
    text = bytearray()
    bits = count = 0  # what is not decoded yet, and how many bits that is
    for byte in coded:
        bits = bits << 8 | byte
        count += 8
        while count >= _QUICK_BITS:
            symbol, length = _short[bits >> (count - _QUICK_BITS)]
            if not length:
                symbol, length = _decode_long(bits, count)
                if not length:
                    break
            text.append(symbol)
            count -= length
            bits &= (1 << count) - 1
    _decode_tail(bits, count, text)
    return bytes(text)


def _decode_long(bits: int, count: int) -> tuple[int, int]:
    for length, first, symbols in _long:
        if length > count:
            return 0, 0  # more is needed
        place = (bits >> (count - length)) - first
        if place < len(symbols):
            return symbols[place], length
    raise ProtocolError(COMPRESSION_ERROR, "a Huffman code is none of the table")


def _decode_tail(bits: int, count: int, text: bytearray) -> None:
    """The last bits: symbols, then less than a byte of ones."""
    while count < _QUICK_BITS:
        missing = _QUICK_BITS - count
        symbol, length = _short[(bits + 1 << missing) - 1]
        if not length or length > count:
            break
        text.append(symbol)
        count -= length
        bits &= (1 << count) - 1
    if count >= _QUICK_BITS or bits != (1 << count) - 1:
        raise ProtocolError(COMPRESSION_ERROR, "a Huffman coded string does not end as it should")


def _make_tables() -> None:
    code = shorter = 0
    quick: list[tuple[int, int]] = []
    for length, symbols in _SYMBOLS:
        code <<= length - shorter
        shorter = length
        if length <= _QUICK_BITS:
            for symbol in symbols:
                quick += [(symbol, length)] * (1 << _QUICK_BITS - length)
        else:
            _long.append((length, code, symbols))
        code += len(symbols)
    quick += [(0, 0)] * ((1 << _QUICK_BITS) - len(quick))
    _short.extend(quick)
