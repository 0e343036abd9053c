"""How much computing time a server may spend on frames in a slice of time. Decisions without I/O.

Input: the number of frames of a connection, the computing time they took, and the present time. Output: how many more
frames of this connection may be processed in this slice. Owns the counters of the current slice.

Every frame costs time, however small it is. A connection that has used its share waits for the next slice; it is not
ended. All connections together may use a part of each slice, and those that exceed an equal share of it wait, so
that the rest of the slice is left for the requests themselves.
"""

from __future__ import annotations

from collections.abc import Hashable

SLICE = 0.1  # seconds
TOTAL_SECONDS = 0.02  # of each slice
_SMALLEST_SHARE = 0.0005
_FIRST_ESTIMATE = 50e-6  # seconds for one frame
_SMALLEST_ESTIMATE = 1e-6  # a clock with large steps shows that frames take no time at all


class FrameBudget:
    def __init__(self, total: float = TOTAL_SECONDS) -> None:
        self._total = total
        self.slice_end = 0.0
        self._used: dict[Hashable, float] = {}
        self._used_in_total = 0.0
        self._share = total
        self._seconds_for_frame = _FIRST_ESTIMATE

    def allowance(self, connection: Hashable, now: float) -> int:
        """Return the number of frames of this connection that may be processed before the end of the slice."""
        if now >= self.slice_end:
            # The share depends on the last slice, so that those who come first do not use the part of the others.
            self._share = self._equal_share() if now < self.slice_end + SLICE else self._total
            self.slice_end = now + SLICE
            self._used.clear()
            self._used_in_total = 0.0
        left = min(self._share, self._equal_share()) - self._used.get(connection, 0.0)
        return max(int(left / self._seconds_for_frame), 1) if left > 0 else 0

    def spend(self, connection: Hashable, frames: int, seconds: float) -> None:
        self._used[connection] = self._used.get(connection, 0.0) + seconds
        self._used_in_total += seconds
        if frames:
            estimate = self._seconds_for_frame + 0.1 * (seconds / frames - self._seconds_for_frame)
            self._seconds_for_frame = max(estimate, _SMALLEST_ESTIMATE)

    def _equal_share(self) -> float:
        if self._used_in_total < self._total:
            return self._total
        return max(self._total / len(self._used), _SMALLEST_SHARE)
