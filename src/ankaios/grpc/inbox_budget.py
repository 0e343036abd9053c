"""How many bytes of received messages a server stores before they are complete and processed. Decisions without I/O.

Input: bytes that a connection adds and removes. Output: the connection that has to end, if any. Owns the counters.

Flow control limits what a connection can store to the size of one window for each call, but a message may be larger
than the window. The sum over all calls and connections needs a separate limit.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ankaios.grpc.wire_format import MIB

C = TypeVar("C")

_ALLOWANCE = 4 * MIB  # beyond one message of the largest size: the window, and small messages of other calls
_LARGEST_MESSAGES_IN_TOTAL = 4
_FREE_SECONDS = 10.0
_SLOWEST_BYTES_PER_SECOND = 256 * 1024


class InboxBudget(Generic[C]):
    """`C` is a connection."""

    def __init__(self, max_message_size: int) -> None:
        self.of_connection = max_message_size + _ALLOWANCE
        self.total = _LARGEST_MESSAGES_IN_TOTAL * self.of_connection
        self._stored: dict[C, int] = {}
        self._stored_in_total = 0

    def add(self, connection: C, size: int) -> C | None:
        """Return the connection that exceeds its limit, or the one that stores the most if the total is exceeded."""
        stored = self._stored[connection] = self._stored.get(connection, 0) + size
        self._stored_in_total += size
        if stored > self.of_connection:
            return connection
        if self._stored_in_total > self.total:
            return max(self._stored, key=self._stored.__getitem__)
        return None

    def remove(self, connection: C, size: int) -> None:
        stored = self._stored.get(connection, 0)
        size = min(size, stored)
        self._stored_in_total -= size
        if size < stored:
            self._stored[connection] = stored - size
        else:
            self._stored.pop(connection, None)

    def forget(self, connection: C) -> None:
        self._stored_in_total -= self._stored.pop(connection, 0)


def message_time_limit(size: int) -> float:
    """Return the seconds in which a message of this size has to arrive completely."""
    return _FREE_SECONDS + size / _SLOWEST_BYTES_PER_SECOND
