"""What can go wrong in HTTP/2: those error codes of RFC 9113 that are used, and the two errors of the engine.

The codes are plain numbers, since they travel as such and an enum class would be dear to import.
"""

NO_ERROR = 0x0
PROTOCOL_ERROR = 0x1
FLOW_CONTROL_ERROR = 0x3
STREAM_CLOSED = 0x5
FRAME_SIZE_ERROR = 0x6
REFUSED_STREAM = 0x7
CANCEL = 0x8
COMPRESSION_ERROR = 0x9
ENHANCE_YOUR_CALM = 0xB


class ProtocolError(Exception):
    """The peer broke the rules in a way that ends the connection; the text says how."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class CannotSend(Exception):
    """The stream or the connection is over, or its window is full: what was to be sent was not."""
