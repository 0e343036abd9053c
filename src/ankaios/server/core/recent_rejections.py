"""The last rejected change of each workload, so that causes can name it. Their number is limited."""

from collections.abc import Iterable

_MOST_REJECTIONS = 200


class RecentRejections:
    def __init__(self) -> None:
        self._last: dict[str, tuple[int, str]] = {}

    def add(self, workloads: Iterable[str], time_ms: int, text: str) -> None:
        for name in workloads:
            self._last.pop(name, None)
            self._last[name] = (time_ms, text)
            if len(self._last) > _MOST_REJECTIONS:
                del self._last[next(iter(self._last))]

    def accepted(self, workloads: Iterable[str]) -> None:
        """A later change of these workloads was accepted."""
        for name in workloads:
            self._last.pop(name, None)

    def last_of(self, workload: str) -> tuple[int, str] | None:
        """Time in milliseconds since 1970, and the text of the rejection."""
        return self._last.get(workload)
