"""The election of the server that leads, as the server uses it.

Input: who this server is. Output: a `Leadership` that is valid until it is lost. One server without others always
leads (`SoleElection`); servers that share an etcd cluster elect one of them (`etcd/etcd_election.py`).
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct


class Candidate(Struct, frozen=True):
    """A server: its name, and the URL at which agents and commands reach it."""

    name: str
    url: str


class Leadership:
    """Allows this server to command agents and to write the state for a limited time, which is extended repeatedly.

    Check `is_valid` right before each command. The clock decides, so the leadership also expires while this process is
    stopped or busy.
    """

    def __init__(self, term: int, clock: Callable[[], float], valid_until: float) -> None:
        """`clock` gives seconds and also counts while the machine is suspended."""
        self.term = term
        self.lost = asyncio.Event()
        self.reason: str | None = None
        self._clock = clock
        self._valid_until = valid_until

    @property
    def seconds_left(self) -> float:
        return 0.0 if self.lost.is_set() else max(self._valid_until - self._clock(), 0.0)

    @property
    def is_valid(self) -> bool:
        return self.seconds_left > 0

    def extend(self, valid_until: float) -> None:
        """An expired leadership never becomes valid again: the server may have stopped its work already."""
        if self.is_valid:
            self._valid_until = max(valid_until, self._valid_until)

    def end(self, reason: str) -> None:
        """Keeps the first reason."""
        if not self.lost.is_set():
            self.reason = reason
            self.lost.set()


class LeaderElection(Protocol):
    @property
    def leadership(self) -> Leadership | None:
        """The current or the last leadership of this server."""
        ...

    async def campaign(self) -> Leadership:
        """Wait until this server leads. Wait for `Leadership.lost` afterwards, then campaign again.

        Raises `StorageFailed` if this server is not permitted to lead. Waits while etcd is unavailable.
        """
        ...

    async def resign(self) -> None:
        """End the leadership, so that another server can lead immediately."""
        ...


class SoleElection:
    """The election of a server that shares its state with no other."""

    leadership: Leadership | None = None

    async def campaign(self) -> Leadership:
        self.leadership = Leadership(1, lambda: 0.0, float("inf"))
        return self.leadership

    async def resign(self) -> None:
        if self.leadership is not None:
            self.leadership.end("the server has resigned")
