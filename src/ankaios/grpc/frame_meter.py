"""Limits on the frames of an HTTP/2 peer, checked on the frame headers before `h2` stores or parses a frame.

Input: received bytes, cut at any place, and the time. Output: how many of the bytes to process, and the violation that
follows them, if any. Owns the position in the byte stream and the frame counters of one connection.

`h2` checks the length of a frame only after all of the frame has arrived, reports no event for several kinds of frames,
and drops the events of a whole chunk if one frame in it is invalid. The meter closes these gaps.
"""

from __future__ import annotations

from math import inf

from h2.errors import ErrorCodes

PREFACE_SIZE = 24
MAX_FRAME_SIZE = 256 * 1024
MAX_HEADER_BYTES = 16 * 1024
MAX_SETTINGS = 64
MAX_IDLE_FRAMES_PER_SECOND = 1_000

_HEADERS_WEIGHT = 3  # a new call costs much more than other frames
_HEADERS_COST = 20  # in units of the cost of a small frame

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 7, 8, 9
_ACK, _PADDED = 0x1, 0x8
_FRAME_HEADER_SIZE, _SETTING_SIZE = 9, 6


class PeerViolation(Exception):
    """The peer broke a rule of HTTP/2 or exceeded a limit; the connection cannot continue."""

    def __init__(self, code: ErrorCodes, text: str) -> None:
        super().__init__(text)
        self.code = code


class FrameMeter:
    """Follows the incoming frames of one connection.

    A frame that carries no data counts as idle. A correct peer sends few of them, except in response to our own frames:
    `expected` contains how many of each kind are not limited.
    """

    def __init__(self, *, client_side: bool) -> None:
        self.frames = 0  # in the bytes of the last `measure`; a new call counts as many
        self.is_partial = False
        self.violation: PeerViolation | None = None
        self.is_flooded = False
        self._to_skip = 0 if client_side else PREFACE_SIZE
        self._header = b""
        self._started = False
        self._header_block = 0
        self._is_last_frame = False
        self._second, self._idle_frames = 0.0, 0
        self.expected = {HEADERS: 0, RST_STREAM: 0, WINDOW_UPDATE: 0}

    def measure(self, data: bytes, now: float, max_frames: float = inf) -> int:
        """Return the number of bytes to process: up to the end of a GOAWAY frame, or up to a violation, or all.

        After `max_frames` the rest of the data is left: `is_partial` is set, and the rest has to be measured
        later.
        """
        self.frames = 0
        self.is_partial = False
        at, end = 0, len(data)
        while True:
            at += self._to_skip
            if at > end:
                self._to_skip = at - end
                return end
            self._to_skip = 0
            if self._is_last_frame:
                return at
            if self.frames >= max_frames and at < end:
                self.is_partial = True
                return at
            header = self._header + data[at : at + _FRAME_HEADER_SIZE - len(self._header)]
            if len(header) < _FRAME_HEADER_SIZE:
                self._header = header
                return end
            try:
                self._to_skip = self._check_frame(header, now)
            except PeerViolation as violation:
                self.violation = violation
                return at
            at += _FRAME_HEADER_SIZE - len(self._header)
            self._header = b""

    def _check_frame(self, header: bytes, now: float) -> int:
        """Return the size of the frame's content."""
        size, kind, flags = int.from_bytes(header[:3], "big"), header[3], header[4]
        self.frames += _HEADERS_COST if kind == HEADERS else 1
        if not self._started and (kind != SETTINGS or flags & _ACK):
            raise PeerViolation(ErrorCodes.PROTOCOL_ERROR, "the first frame is not SETTINGS, so this is not HTTP/2")
        self._started = True
        if size > MAX_FRAME_SIZE:
            raise PeerViolation(ErrorCodes.FRAME_SIZE_ERROR, f"a frame has {size} bytes, allowed are {MAX_FRAME_SIZE}")
        if kind == DATA and size and not flags & _PADDED:
            return size
        self._check_content(kind, size)
        self._count(kind, now)
        self._is_last_frame = kind == GOAWAY
        return size

    def _check_content(self, kind: int, size: int) -> None:
        if kind == SETTINGS and size > MAX_SETTINGS * _SETTING_SIZE:
            raise PeerViolation(ErrorCodes.ENHANCE_YOUR_CALM, f"a SETTINGS frame has more than {MAX_SETTINGS} entries")
        if kind in (HEADERS, PUSH_PROMISE):
            self._header_block = 0
        if kind in (HEADERS, PUSH_PROMISE, CONTINUATION):
            self._header_block += size
            if self._header_block > MAX_HEADER_BYTES:
                text = f"a header block has more than {MAX_HEADER_BYTES} bytes"
                raise PeerViolation(ErrorCodes.ENHANCE_YOUR_CALM, text)

    def _count(self, kind: int, now: float) -> None:
        if self.expected.get(kind, 0) > 0:
            self.expected[kind] -= 1
            return
        if now - self._second > 1.0:
            self._second, self._idle_frames = now, 0
        self._idle_frames += _HEADERS_WEIGHT if kind == HEADERS else 1
        if self._idle_frames > MAX_IDLE_FRAMES_PER_SECOND:
            self.is_flooded = True
            text = f"more than {MAX_IDLE_FRAMES_PER_SECOND} frames without data in a second"
            raise PeerViolation(ErrorCodes.ENHANCE_YOUR_CALM, text)
