"""Notices a peer that has fallen silent: asks it after a pause, gives it up when it does not answer.

Comes in: "something was heard". Goes out: calls of `ask` and `give_up`. Owns one timer.

Every received byte counts as a sign of life, so a peer that is busy sending or taking a large message over a slow line
is not given up because the answer to a ping waits behind that message.
"""

from collections.abc import Callable
from typing import Protocol

from ankaios.common.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Keepalive:
    """After `interval` seconds of silence the peer is asked; without a sign in `timeout` seconds it is gone."""

    interval: float = 1.0
    timeout: float = 1.8


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """What is needed of an event loop."""

    def time(self) -> float: ...
    def call_at(self, when: float, callback: Callable[[], None], /) -> Timer: ...


class Heartbeat:
    """The watch on one peer."""

    def __init__(self, clock: Clock, rule: Keepalive, ask: Callable[[], None], give_up: Callable[[], None]) -> None:
        self._clock = clock
        self._rule = rule
        self._ask = ask
        self._give_up = give_up
        self._timer: Timer | None = None
        self._last_sign = 0.0
        self._asked = False

    def start(self) -> None:
        self._last_sign = self._clock.time()
        self._wake_at(self._last_sign + self._rule.interval)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def heard(self) -> None:
        """Cheap: only the answer to a question moves the timer."""
        self._last_sign = self._clock.time()
        if self._asked and self._timer is not None:
            self._asked = False
            self._wake_at(self._last_sign + self._rule.interval)

    def _wake_at(self, when: float) -> None:
        self.stop()
        self._timer = self._clock.call_at(when, self._wake)

    def _wake(self) -> None:
        now = self._clock.time()
        if self._asked:
            self.stop()
            self._give_up()
        elif now < self._last_sign + self._rule.interval:
            self._wake_at(self._last_sign + self._rule.interval)
        else:
            # Also after a long stall of this very process: the peer gets its full time to answer.
            self._asked = True
            self._wake_at(now + self._rule.timeout)
            self._ask()
