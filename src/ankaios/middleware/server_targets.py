"""Which of several servers to connect to next. Pure: URLs, errors and the time in, URLs and pauses out.

Servers that share their state elect a leader; the others reject every call with a status that names it. A client
connects to the named leader, and otherwise tries all given servers in turn.
"""

from __future__ import annotations

from typing import NamedTuple

from ankaios.middleware.connecting import NotLeading

PAUSE = 0.2  # seconds between two rounds, and while no server leads
_MOST_REDIRECTS = 5  # without a pause


class NextTarget(NamedTuple):
    """Connect to this URL after a pause of so many seconds."""

    url: str
    pause: float


def server_urls(text: str) -> tuple[str, ...]:
    """Split a list of URLs, separated by commas."""
    return tuple(url.strip() for url in text.split(","))


class ServerTargets:
    """`patience` is how many seconds to try several servers. One server is tried once, unless it is on standby."""

    def __init__(self, urls: tuple[str, ...], patience: float = float("inf")) -> None:
        self._urls = urls
        self._patience = patience
        self._index = 0
        self._redirects = 0
        self.can_follow = len(urls) > 1

    @property
    def first(self) -> str:
        return self._urls[self._index]

    def connected(self) -> None:
        """A connection was accepted; later failures start from here."""
        self._redirects = 0

    def after(self, error: Exception, elapsed: float) -> NextTarget | None:
        """The next attempt after a failure; None if there is none. `elapsed` counts from the first attempt."""
        if elapsed >= self._patience:
            return None
        if isinstance(error, NotLeading):
            self.can_follow = True
            return self._redirect(error.leader)
        if not self.can_follow:
            return None
        return self._advance()

    def _redirect(self, leader: str) -> NextTarget:
        """A URL without TLS is not accepted from a server with TLS."""
        self._redirects += 1
        if leader and (leader.startswith("https:") or self.first.startswith("http:")):
            return NextTarget(leader, 0.0 if self._redirects <= _MOST_REDIRECTS else PAUSE)
        return self._advance() if len(self._urls) > 1 else NextTarget(self.first, PAUSE)

    def _advance(self) -> NextTarget:
        self._index = (self._index + 1) % len(self._urls)
        return NextTarget(self.first, 0.0 if self._index else PAUSE)
