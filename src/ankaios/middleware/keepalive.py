"""Notices a peer that has fallen silent: asks it after a pause, gives it up when it does not answer.

Comes in: "something was heard". Goes out: when to ask and when to give up; `Heartbeat` calls `ask` and `give_up` at
these times. Owns one timer.

Every received byte counts as a sign of life, so a peer that is busy sending or taking a large message over a slow line
is not given up because the answer to a ping waits behind that message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Timer(Protocol):
        def cancel(self) -> None: ...

    class Clock(Protocol):
        """What is needed of an event loop."""

        def time(self) -> float: ...
        def call_at(self, when: float, callback: Callable[[], None], /) -> Timer: ...


class Keepalive(Struct, frozen=True):
    """After `interval` seconds of silence the peer is asked; without a sign in `timeout` seconds it is gone."""

    interval: float = 1.0
    timeout: float = 1.8


class Vigil:
    """The rule at work for one peer; the time is told by whoever keeps the vigil."""

    def __init__(self, rule: Keepalive, now: float) -> None:
        self._rule = rule
        self.asked = False
        self.due = now + rule.interval
        """When `step` has something to decide, if nothing is heard until then."""

    def heard(self, now: float) -> None:
        self.asked = False
        self.due = now + self._rule.interval

    def step(self, now: float) -> bool:
        """To be called when it is due: whether to ask the peer now. If not, its time is over."""
        if self.asked:
            return False
        # Also after a long stall of this very process: the peer gets its full time to answer.
        self.asked = True
        self.due = now + self._rule.timeout
        return True


class Heartbeat:
    """A vigil kept by timers."""

    def __init__(self, clock: Clock, rule: Keepalive, ask: Callable[[], None], give_up: Callable[[], None]) -> None:
        self._clock = clock
        self._rule = rule
        self._ask = ask
        self._give_up = give_up
        self._timer: Timer | None = None
        self._vigil = Vigil(rule, clock.time())

    def start(self) -> None:
        self._vigil = Vigil(self._rule, self._clock.time())
        self._wake_when_due()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def heard(self) -> None:
        """Cheap: only the answer to a question moves the timer."""
        was_asked = self._vigil.asked
        self._vigil.heard(self._clock.time())
        if was_asked and self._timer is not None:
            self._wake_when_due()

    def _wake_when_due(self) -> None:
        self.stop()
        self._timer = self._clock.call_at(self._vigil.due, self._wake)

    def _wake(self) -> None:
        now = self._clock.time()
        if now < self._vigil.due:
            self._wake_when_due()
        elif self._vigil.step(now):
            self._wake_when_due()
            self._ask()
        else:
            self.stop()
            self._give_up()
