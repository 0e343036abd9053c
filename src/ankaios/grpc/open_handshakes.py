"""Which new connections a server accepts while others are not set up yet. Decisions without I/O.

Input: addresses of connections that start, are set up, and end; the time. Output: whether a connection is accepted, and
which older one ends for it. Owns the connections that are not set up, and the addresses of known agents.

A correct peer needs milliseconds for its handshake. Therefore a connection that is not set up after a second is ended
when its place is needed; a new one is rejected only if all others are younger. One address can use a part of the places
only, and a part of the places is reserved for addresses from which an agent has connected before.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")

_OWN_DESCRIPTORS = 64  # log, store, event loop, hooks
_MAX_HANDSHAKES = 2048
_MAX_KNOWN_ADDRESSES = 4096
PROTECTED_SECONDS = 1.0


class ConnectionLimits(NamedTuple):
    """How many connections of each kind may be open, so that the descriptors of the process suffice for all."""

    handshakes: int
    handshakes_of_address: int
    reserved_handshakes: int
    clients: int


def connection_limits(descriptors: int) -> ConnectionLimits:
    """A quarter of the descriptors is for handshakes, and a quarter can be used by agents only.

    >>> connection_limits(1024)
    ConnectionLimits(handshakes=240, handshakes_of_address=60, reserved_handshakes=60, clients=480)
    """
    available = max(descriptors - _OWN_DESCRIPTORS, 16)
    quarter = available // 4
    handshakes = min(quarter, _MAX_HANDSHAKES)
    part = max(handshakes // 4, 1)
    return ConnectionLimits(handshakes, part, part, available - quarter - handshakes)


class _Handshake(NamedTuple):
    address: str
    started: float


class OpenHandshakes(Generic[K]):
    """`K` identifies a connection. An address is a host without a port."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._all: dict[K, _Handshake] = {}  # in the order of their start
        self._of_address: dict[str, dict[K, None]] = {}
        self._known: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._all)

    def remember(self, address: str) -> None:
        """An agent has connected from this address."""
        self._known.pop(address, None)
        self._known[address] = None
        if len(self._known) > _MAX_KNOWN_ADDRESSES:
            del self._known[next(iter(self._known))]

    def start(self, key: K, address: str, now: float) -> tuple[bool, K | None]:
        """Return whether the connection is accepted, and an older one that has to end for it."""
        is_full, oldest = self._place(address)
        if is_full:
            if oldest is None or now - self._all[oldest].started < PROTECTED_SECONDS:
                return False, None
            self.end(oldest)
        self._all[key] = _Handshake(address, now)
        self._of_address.setdefault(address, {})[key] = None
        return True, oldest if is_full else None

    def end(self, key: K) -> None:
        """The connection is set up, or it has ended."""
        handshake = self._all.pop(key, None)
        if handshake is None:
            return
        same = self._of_address[handshake.address]
        del same[key]
        if not same:
            del self._of_address[handshake.address]

    def older_than(self, started: float) -> list[K]:
        """Return the connections that started before this time."""
        found = []
        for key, handshake in self._all.items():
            if handshake.started >= started:
                break
            found.append(key)
        return found

    def _place(self, address: str) -> tuple[bool, K | None]:
        """Return whether all places for this address are in use, and the connection that would end first."""
        same = self._of_address.get(address, {})
        if len(same) >= self._limits.handshakes_of_address:
            return True, next(iter(same))
        reserved = 0 if address in self._known else self._limits.reserved_handshakes
        if len(self._all) < self._limits.handshakes - reserved:
            return False, None
        return True, next((key for key, it in self._all.items() if it.address not in self._known), None)
