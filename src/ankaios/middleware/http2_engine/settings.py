"""The settings of both sides: ours as bytes, the peer's as numbers that were checked.

Comes in: our limits, payloads of SETTINGS frames. Goes out: a payload, or a `ProtocolError` for what no peer may ask.
Owns what the peer has asked for.
"""

from __future__ import annotations

from ankaios.middleware.http2_engine.errors import FLOW_CONTROL_ERROR, PROTOCOL_ERROR, ProtocolError
from ankaios.middleware.http2_engine.flow import DEFAULT_WINDOW, LARGEST_WINDOW

ENABLE_PUSH = 0x2
MAX_CONCURRENT_STREAMS = 0x3
INITIAL_WINDOW_SIZE = 0x4
MAX_FRAME_SIZE = 0x5
MAX_HEADER_LIST_SIZE = 0x6

SMALLEST_MAX_FRAME = 16384
LARGEST_SENT_FRAME = 256 * 1024  # larger ones save nothing, but fill the buffers behind us
_LARGEST_MAX_FRAME = 2**24 - 1
_ENTRY = 6


def encode_settings(settings: dict[int, int]) -> bytes:
    return b"".join([(key << 32 | value).to_bytes(_ENTRY, "big") for key, value in settings.items()])


class PeerSettings:
    """What the peer takes, as far as we would use it.

    Its table for headers does not matter, as we use none; nor its limit for a header list, as ours are short.
    """

    __slots__ = ("_is_client", "initial_window", "max_frame", "max_streams")

    def __init__(self, *, is_client: bool) -> None:
        self._is_client = is_client
        self.initial_window = DEFAULT_WINDOW
        self.max_frame = SMALLEST_MAX_FRAME
        self.max_streams = LARGEST_WINDOW  # no limit until it names one

    def read(self, payload: bytes) -> None:
        for at in range(0, len(payload), _ENTRY):
            entry = int.from_bytes(payload[at : at + _ENTRY], "big")
            self._set(entry >> 32, entry & 0xFFFFFFFF)

    def _set(self, key: int, value: int) -> None:
        if key == INITIAL_WINDOW_SIZE:
            if value > LARGEST_WINDOW:
                raise ProtocolError(FLOW_CONTROL_ERROR, f"a window of {value} bytes is not possible")
            self.initial_window = value
        elif key == MAX_FRAME_SIZE:
            if not SMALLEST_MAX_FRAME <= value <= _LARGEST_MAX_FRAME:
                raise ProtocolError(PROTOCOL_ERROR, f"frames of {value} bytes are not possible")
            self.max_frame = min(value, LARGEST_SENT_FRAME)
        elif key == MAX_CONCURRENT_STREAMS:
            self.max_streams = value
        elif key == ENABLE_PUSH and value > self._is_client:
            # Only a client can allow pushes.
            raise ProtocolError(PROTOCOL_ERROR, f"ENABLE_PUSH cannot be {value}")
