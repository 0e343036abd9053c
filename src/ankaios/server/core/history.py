"""The history of the desired state: which revision changed which entries, and how to return to one.

Input: accepted changes, and questions about them. Output: revisions, the entries of an earlier revision, and whether
entries have changed since. Owns the revisions. Their number, age and size are bounded; the oldest are dropped.
"""

from collections import deque
from collections.abc import Collection, Iterable

from msgspec import Struct

from ankaios.common.errors import Rejected
from ankaios.storage.state_store import EntryChange, EntryKey, JsonValue, Revision


class HistoryLimits(Struct, frozen=True):
    """`entries` limits the changed entries of all revisions, because one revision may change thousands of them."""

    revisions: int = 1000
    seconds: float = 90 * 24 * 3600.0
    entries: int = 100_000


class History:
    def __init__(self, limits: HistoryLimits | None = None) -> None:
        self.current = 0
        self._limits = limits or HistoryLimits()
        self._revisions: deque[Revision] = deque()
        self._entries = 0

    def restore(self, revisions: Iterable[Revision], last: int) -> None:
        """Continue with stored revisions; `last` is the highest number ever used."""
        self._revisions = deque(sorted(revisions, key=lambda revision: revision.number))
        self._entries = sum(len(revision.entries) for revision in self._revisions)
        self.current = max(last, self._revisions[-1].number if self._revisions else 0)

    def add(
        self, time: float, requester: str, masks: Iterable[str], entries: Iterable[EntryChange], note: str = ""
    ) -> Revision:
        self.current += 1
        revision = Revision(self.current, time, requester, tuple(masks), tuple(entries), note)
        self._revisions.append(revision)
        self._entries += len(revision.entries)
        return revision

    def drop_old(self, now: float) -> tuple[int, ...]:
        """Drop what exceeds the limits, but never the newest revision; returns the numbers."""
        dropped: list[int] = []
        while len(self._revisions) > 1 and self._exceeds(self._revisions[0], now):
            revision = self._revisions.popleft()
            self._entries -= len(revision.entries)
            dropped.append(revision.number)
        return tuple(dropped)

    def _exceeds(self, oldest: Revision, now: float) -> bool:
        limits = self._limits
        too_many = len(self._revisions) > limits.revisions or self._entries > limits.entries
        return too_many or now - oldest.time > limits.seconds

    # --- questions ---

    def select(
        self, workloads: Collection[str] = (), first: int = 0, last: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        """The newest `limit` revisions of the range that changed one of the workloads, in ascending order."""
        found: list[Revision] = []
        for revision in reversed(self._revisions):
            if revision.number < first or (limit is not None and len(found) >= limit):
                break
            if (last is None or revision.number <= last) and (not workloads or _changes_any(revision, workloads)):
                found.append(revision)
        return found[::-1]

    def changed_since(self, number: int, keys: Collection[EntryKey]) -> tuple[EntryKey, Revision] | None:
        """The first of these entries that has changed after the revision. Raises `Rejected` if that is not known."""
        for revision in self._after(number):
            for entry in revision.entries:
                if entry.key in keys:
                    return entry.key, revision
        return None

    def values_at(self, number: int) -> dict[EntryKey, JsonValue]:
        """The entries that have changed after the revision, with the values they had then."""
        values: dict[EntryKey, JsonValue] = {}
        for revision in self._after(number):
            for entry in revision.entries:
                values.setdefault(entry.key, entry.before)
        return values

    def _after(self, number: int) -> list[Revision]:
        """All revisions after this one, oldest first. Raises `Rejected` if one of them is missing."""
        if number > self.current:
            raise Rejected(f"there is no revision {number}, the newest is {self.current}")
        newer: list[Revision] = []
        for revision in reversed(self._revisions):
            if revision.number <= number or revision.number != self.current - len(newer):
                break
            newer.append(revision)
        oldest = self.current - len(newer)
        if oldest > number:
            raise Rejected(f"the history does not contain all changes since revision {number}, only since {oldest}")
        return newer[::-1]


def _changes_any(revision: Revision, workloads: Collection[str]) -> bool:
    return any(entry.kind == "workload" and entry.name in workloads for entry in revision.entries)
