"""How much work the frames of all connections of a server may cause in a slice of time. Decisions without I/O.

Input: the cost of the frames that a connection has sent, and the time. Output: how much more it may cost in this slice.
Owns the counters of the current slice.

Every frame costs time, however small it is: a tiny DATA frame and a WINDOW_UPDATE frame about the same, a new call
twenty times as much. A connection that has used its share waits for the next slice; it is not ended. If all connections
together exceed the budget, those wait that have used more than an equal share.
"""

from __future__ import annotations

from collections.abc import Hashable

SLICE = 0.1  # seconds
MAX_COST_OF_CONNECTION = 400
MAX_TOTAL_COST = 500
_SMALLEST_SHARE = 16


class FrameBudget:
    def __init__(self, of_connection: int = MAX_COST_OF_CONNECTION, total: int = MAX_TOTAL_COST) -> None:
        self._of_connection, self._total = of_connection, total
        self.slice_end = 0.0
        self._used: dict[Hashable, int] = {}
        self._used_in_total = 0
        self._share = of_connection

    def allowance(self, connection: Hashable, now: float) -> int:
        """Return the cost of the frames of this connection that may be processed before the end of the slice."""
        if now >= self.slice_end:
            # The share depends on the last slice, so that those who come first do not use the part of the others.
            self._share = self._equal_share() if now < self.slice_end + SLICE else self._of_connection
            self.slice_end = now + SLICE
            self._used.clear()
            self._used_in_total = 0
        return max(min(self._share, self._equal_share()) - self._used.get(connection, 0), 0)

    def spend(self, connection: Hashable, cost: int) -> None:
        self._used[connection] = self._used.get(connection, 0) + cost
        self._used_in_total += cost

    def _equal_share(self) -> int:
        if self._used_in_total < self._total:
            return self._of_connection
        return min(self._of_connection, max(self._total // len(self._used), _SMALLEST_SHARE))
