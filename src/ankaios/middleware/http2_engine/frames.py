"""HTTP/2 frames: bytes, cut anywhere, become whole frames; numbers and payloads become bytes.

Comes in: received bytes. Goes out: (kind, flags, stream id, payload) of each complete frame. Owns the bytes of the
frame that is not complete yet: never more than one frame, whose length is judged before its first byte is stored.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ankaios.middleware.http2_engine.errors import ENHANCE_YOUR_CALM, FRAME_SIZE_ERROR, PROTOCOL_ERROR, ProtocolError

Frame = tuple[int, int, int, bytes]  # kind, flags, stream id, payload

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LARGEST_STREAM_ID = 2**31 - 1

DATA = 0x0
HEADERS = 0x1
PRIORITY = 0x2
RST_STREAM = 0x3
SETTINGS = 0x4
PUSH_PROMISE = 0x5
PING = 0x6
GOAWAY = 0x7
WINDOW_UPDATE = 0x8
CONTINUATION = 0x9

# Flags
ACK = 0x1
END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

_HEADER = 9
_SIZES = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
_SETTING = 6
_MAX_SETTINGS = 64 * _SETTING  # the RFCs know some ten of them


def frame_header(kind: int, flags: int, stream_id: int, size: int) -> bytes:
    return (size << 48 | kind << 40 | flags << 32 | stream_id).to_bytes(_HEADER, "big")


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    return frame_header(kind, flags, stream_id, len(payload)) + payload


def without_padding(flags: int, payload: bytes) -> bytes:
    """The content of a DATA or HEADERS frame."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ProtocolError(PROTOCOL_ERROR, "a frame has more padding than content")
    return payload[1 : len(payload) - payload[0]]


class FrameReader:
    """What the peer has sent, as frames."""

    def __init__(self, preface: bytes, max_frame: int, max_header_block: int) -> None:
        """`preface`: what has to come before the first frame."""
        self._preface = preface
        self._max_frame = max_frame
        self._max_header_block = max_header_block
        self._begun = False
        self._buffer = bytearray()
        self._needed = _HEADER

    def frames(self, data: bytes) -> Iterator[Frame]:
        if self._preface:
            data = self._after_preface(data)
        source: bytes | bytearray = data
        if self._buffer:
            self._buffer += data
            source = self._buffer
        if len(source) < self._needed:
            # So that a large frame that comes byte by byte is looked at only once.
            self._keep(source, 0)
            return
        with memoryview(source) as view:
            at = yield from self._cut(view)
        self._keep(source, at)

    def _cut(self, view: memoryview) -> Generator[Frame, None, int]:
        """All complete frames; returns where the rest begins."""
        at, end = 0, len(view)
        while end - at >= _HEADER:
            header = int.from_bytes(view[at : at + _HEADER], "big")
            size, kind, flags = header >> 48, header >> 40 & 0xFF, header >> 32 & 0xFF
            self._judge(kind, flags, size)
            content = at + _HEADER
            if end - content < size:
                self._needed = _HEADER + size
                return at
            at = content + size
            yield kind, flags, header & LARGEST_STREAM_ID, bytes(view[content:at])
        self._needed = _HEADER
        return at

    def _keep(self, source: bytes | bytearray, at: int) -> None:
        if source is self._buffer:
            del self._buffer[:at]
        else:
            self._buffer += memoryview(source)[at:]

    def _after_preface(self, data: bytes) -> bytes:
        part = data[: len(self._preface)]
        if not self._preface.startswith(part):
            raise ProtocolError(PROTOCOL_ERROR, "the peer does not speak HTTP/2")
        self._preface = self._preface[len(part) :]
        return data[len(part) :]

    def _judge(self, kind: int, flags: int, size: int) -> None:
        if not self._begun:
            if kind != SETTINGS or flags & ACK:
                raise ProtocolError(PROTOCOL_ERROR, "the first frame is not SETTINGS: the peer does not speak HTTP/2")
            self._begun = True
        if size > self._max_frame or _SIZES.get(kind, size) != size:
            raise ProtocolError(FRAME_SIZE_ERROR, f"a frame of type {kind} has {size} bytes")
        if kind == SETTINGS:
            _judge_settings(flags, size)
        elif kind == GOAWAY and size < 8:
            raise ProtocolError(FRAME_SIZE_ERROR, f"a GOAWAY frame has {size} bytes")
        elif kind in (HEADERS, CONTINUATION) and size > self._max_header_block:
            raise ProtocolError(ENHANCE_YOUR_CALM, f"a header block has more than {self._max_header_block} bytes")


def _judge_settings(flags: int, size: int) -> None:
    if size % _SETTING or (flags & ACK and size):
        raise ProtocolError(FRAME_SIZE_ERROR, f"a SETTINGS frame has {size} bytes")
    if size > _MAX_SETTINGS:
        raise ProtocolError(ENHANCE_YOUR_CALM, f"a SETTINGS frame has {size // _SETTING} settings")
