"""What becomes of a connection by the conduct of the peer: the same for both kinds of links.

Comes in: events of the HTTP/2 engine, the time. Goes out: the reason why it is over. Owns the count of idle talk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.middleware.http2_engine.events import (
    DataReceived,
    HeadersReceived,
    StreamEnded,
    TrailersReceived,
    WindowUpdated,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ankaios.middleware.http2_engine.errors import ProtocolError
    from ankaios.middleware.http2_engine.events import Event, GoawayReceived, StreamReset

PING = b"ankaios?"
FLOODED = "the peer floods the connection with frames that carry nothing"
_MAX_CHATTER_PER_SECOND = 1_000
_SUBSTANCE = (DataReceived, WindowUpdated, HeadersReceived, TrailersReceived, StreamEnded)


class ChatterLimit:
    """Pings, settings, resets, empty data: cheap to send, dear to handle, and an honest peer has few of them."""

    def __init__(self) -> None:
        self._since, self._count = 0.0, 0

    def is_exceeded_by(self, events: Iterable[Event], now: float) -> bool:
        if now - self._since > 1.0:
            self._since, self._count = now, 0
        self._count += sum(not isinstance(event, _SUBSTANCE) or _is_empty(event) for event in events)
        return self._count > _MAX_CHATTER_PER_SECOND


def _is_empty(event: Event) -> bool:
    return isinstance(event, DataReceived) and not event.data


def protocol_error_text(error: ProtocolError) -> str:
    return f"HTTP/2 protocol error: {error}"


def reset_text(event: StreamReset) -> str:
    return "the peer reset the stream" if event.by_peer else f"HTTP/2 protocol error: {event.text}"


def goaway_text(event: GoawayReceived) -> str:
    words = f", {event.text}" if event.text else ""
    return f"the peer ended the connection ({event.code}{words})"
