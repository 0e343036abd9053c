"""Bytes to length-delimited messages and back, as they travel through the pipes of a control interface.

Comes in: pieces of any size. Goes out: whole frames, and a mark where there was none. What an unfinished frame holds is
limited; a frame that announces more is skipped without being stored.
[impl->swdd~agent-uses-length-delimited-protobuf-for-pipes~1]
"""

from collections.abc import Iterator

from msgspec import Struct

MAX_FRAME = 4 * 1024 * 1024  # as much as one message to the server may hold
_MAX_PREFIX = 10
_PREFIX_READ = 19  # how far an endless prefix is followed
_CONTINUES = 0x80


class Garbage(Struct, frozen=True):
    """Something that is no frame; the text says what."""

    why: str


def encode(body: bytes) -> bytes:
    """Prefix and body in one piece, to be written in one go."""
    length, prefix = len(body), bytearray()
    while length >= _CONTINUES:
        prefix.append(length & 0x7F | _CONTINUES)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + body


def possible_last_frames(data: bytes, longest: int) -> Iterator[bytes]:
    """All that may be the last frame of a stream whose beginning is missing, shortest first."""
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
        """The writer is gone: what it left unfinished belongs to nobody."""
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
        """How many bytes the prefix takes, None if its end has not come yet."""
        for place, byte in enumerate(self._buffer[:_PREFIX_READ]):
            if not byte & _CONTINUES:
                return place + 1
        return _PREFIX_READ if len(self._buffer) >= _PREFIX_READ else None

    def _drop(self, count: int) -> None:
        self._skip = max(0, count - len(self._buffer))
        del self._buffer[:count]
