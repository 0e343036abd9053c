"""Encodes and decodes the length-delimited messages of a control interface.

Input: pieces of any size. Output: whole frames, and `Garbage` for data that is not a frame. The size of a frame is
limited; a larger frame is skipped without being stored.
[impl->swdd~agent-uses-length-delimited-protobuf-for-pipes~1]
"""

from collections.abc import Iterator

from msgspec import Struct

MAX_FRAME = 4 * 1024 * 1024  # the limit of a message to the server
_MAX_PREFIX = 10
_PREFIX_READ = 19  # bytes that are skipped if a prefix has no end
_CONTINUES = 0x80


class Garbage(Struct, frozen=True):
    """Data that is not a valid frame, with the reason."""

    why: str


def encode(body: bytes) -> bytes:
    """Return prefix and body as one piece, so that they can be written at once."""
    length, prefix = len(body), bytearray()
    while length >= _CONTINUES:
        prefix.append(length & 0x7F | _CONTINUES)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + body


def possible_last_frames(data: bytes, longest: int) -> Iterator[bytes]:
    """Yield all candidates for the last frame of a stream whose beginning is missing, shortest first."""
    for size in range(1, min(longest, len(data)) + 1):
        tail = data[-size:]
        frames = FrameDecoder().feed(tail)
        if len(frames) == 1 and isinstance(frames[0], bytes) and encode(frames[0]) == tail:
            yield frames[0]


class FrameDecoder:
    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._skip = 0

    def reset(self) -> None:
        """Discard an unfinished frame, because its writer has closed the pipe."""
        self._buffer.clear()
        self._skip = 0

    def feed(self, data: bytes) -> list[bytes | Garbage]:
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        self._buffer += data
        frames: list[bytes | Garbage] = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> bytes | Garbage | None:
        size = self._prefix_size()
        if size is None:
            return None
        if size > _MAX_PREFIX:
            del self._buffer[:size]
            return Garbage("the length prefix is too long")
        length = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(self._buffer[:size]))
        if length > self._limit:
            self._drop(size + length)
            return Garbage(f"a message of {length} bytes is larger than the allowed {self._limit}")
        end = size + length
        if len(self._buffer) < end:
            return None
        frame = bytes(self._buffer[size:end])
        del self._buffer[:end]
        return frame

    def _prefix_size(self) -> int | None:
        """Return the length of the prefix in bytes; None if its end has not arrived yet."""
        for place, byte in enumerate(self._buffer[:_PREFIX_READ]):
            if not byte & _CONTINUES:
                return place + 1
        return _PREFIX_READ if len(self._buffer) >= _PREFIX_READ else None

    def _drop(self, count: int) -> None:
        self._skip = max(0, count - len(self._buffer))
        del self._buffer[:count]
