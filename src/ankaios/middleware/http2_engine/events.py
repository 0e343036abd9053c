"""What `Http2Engine.receive` has to tell, in the order of arrival.

Plain classes without anything else, as one of them is made for nearly every frame.
"""

from __future__ import annotations

Headers = list[tuple[str, str]]


class Event:
    """Something happened on a stream; stream 0 is the connection as a whole."""

    __slots__ = ("stream_id",)

    def __init__(self, stream_id: int) -> None:
        self.stream_id = stream_id

    def __repr__(self) -> str:
        slots = [name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in slots)})"


class RequestReceived(Event):
    """The peer has opened a stream (server side only). Names are lower case, pseudo-headers come first."""

    __slots__ = ("headers",)

    def __init__(self, stream_id: int, headers: Headers) -> None:
        self.stream_id = stream_id
        self.headers = headers


class HeadersReceived(Event):
    """The final response headers (client side only)."""

    __slots__ = ("headers",)

    def __init__(self, stream_id: int, headers: Headers) -> None:
        self.stream_id = stream_id
        self.headers = headers


class TrailersReceived(Event):
    """The last headers; `StreamEnded` follows, or `StreamReset` if there was less data than announced."""

    __slots__ = ("headers",)

    def __init__(self, stream_id: int, headers: Headers) -> None:
        self.stream_id = stream_id
        self.headers = headers


class DataReceived(Event):
    """Data, possibly empty. It fills the window until `acknowledge(stream_id, len(data))`."""

    __slots__ = ("data",)

    def __init__(self, stream_id: int, data: bytes) -> None:
        self.stream_id = stream_id
        self.data = data


class StreamEnded(Event):
    """The peer will send nothing more on this stream; we still may."""

    __slots__ = ()


class StreamReset(Event):
    """The stream is over for both sides: the peer reset it, or the engine did since the peer broke the rules on it."""

    __slots__ = ("by_peer", "code", "text")

    def __init__(self, stream_id: int, code: int, text: str, *, by_peer: bool) -> None:
        self.stream_id = stream_id
        self.code = code
        self.text = text
        self.by_peer = by_peer


class WindowUpdated(Event):
    """The peer takes more data on this stream, or (stream 0) on the connection."""

    __slots__ = ()


class SettingsReceived(Event):
    """The peer's settings have been applied and acknowledged; windows may have become larger or smaller."""

    __slots__ = ()


class PingAnswered(Event):
    """The answer to a ping of ours."""

    __slots__ = ("payload",)

    def __init__(self, payload: bytes) -> None:
        self.stream_id = 0
        self.payload = payload


class GoawayReceived(Event):
    """The peer ends the connection: streams above `last_stream_id` were not looked at and will not be answered."""

    __slots__ = ("code", "last_stream_id", "text")

    def __init__(self, code: int, last_stream_id: int, text: str) -> None:
        self.stream_id = 0
        self.code = code
        self.last_stream_id = last_stream_id
        self.text = text


class Chatter(Event):
    """A frame that needs no action: an answered ping, a priority, a frame on a stream that is over, an unknown frame.

    An honest peer sends few of them; whoever has a clock can count them. Data on a stream that is over is not told at
    all, as an honest peer may have sent a window full of it.
    """

    __slots__ = ()
