"""Keep-alive: when to send a ping to a silent peer, and when to regard it as dead.

Input: the time of received bytes. Output: the next time to act and what to do then. Owns the state of one connection.
Nothing here waits or reads a clock; the connection that owns the socket does.

Every received byte counts, so that a peer which is busy with a large message over a slow line is not regarded as dead
because its response to a ping waits behind that message.
"""

from __future__ import annotations

from typing import NamedTuple


class Keepalive(NamedTuple):
    """A peer gets a ping after `interval` seconds of silence and is dead after `timeout` further seconds."""

    interval: float = 1.0
    timeout: float = 1.8


class KeepaliveTimer:
    """Applies the rule to one connection; without a rule nothing is ever due."""

    def __init__(self, rule: Keepalive | None, now: float) -> None:
        self._rule = rule
        self.ping_sent = False
        self.due = now + rule.interval if rule is not None else float("inf")
        """When `expire` has to be called if nothing is received until then."""

    def received(self, now: float) -> None:
        if self._rule is not None:
            self.ping_sent = False
            self.due = now + self._rule.interval

    def expire(self, now: float) -> bool:
        """Call when due. True: send a ping now. False: the peer is dead."""
        if self.ping_sent or self._rule is None:
            return False
        # The peer gets its full time even if this process was blocked for long.
        self.ping_sent = True
        self.due = now + self._rule.timeout
        return True
