"""A store in memory, for tests of what uses a store.

Input: changes. Output: the same data for as long as this object exists. Owns references, not copies.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ankaios.storage.state_store import EntryKey, JsonValue, Revision, StateChange, Stored, StoreStatus

K = TypeVar("K")


class MemoryStore:
    """A `StateStore` without I/O."""

    record_interval = 0.0

    def __init__(self) -> None:
        self._entries: dict[EntryKey, JsonValue] = {}
        self._revisions: dict[int, Revision] = {}
        self._records: dict[str, JsonValue] = {}
        self._last_revision = 0

    async def load(self) -> Stored:
        revisions = tuple(self._revisions[number] for number in sorted(self._revisions))
        return Stored(dict(self._entries), revisions, dict(self._records), self._last_revision)

    async def commit(self, changes: Sequence[StateChange]) -> None:
        for change in changes:
            for entry in change.entries:
                _assign(self._entries, entry.key, entry.after)
            if change.revision is not None:
                self._revisions[change.revision.number] = change.revision
                self._last_revision = max(self._last_revision, change.revision.number)
            for number in change.dropped_revisions:
                self._revisions.pop(number, None)

    async def save_records(self, records: Mapping[str, JsonValue]) -> None:
        for name, value in records.items():
            _assign(self._records, name, value)

    def status(self) -> StoreStatus:
        return StoreStatus("memory", "memory:", self._last_revision, 0, None)

    async def check(self) -> None:
        """Memory can always be written."""

    async def close(self) -> None:
        """There is nothing to release."""


def _assign(items: dict[K, JsonValue], key: K, value: JsonValue) -> None:
    if value is None:
        items.pop(key, None)
    else:
        items[key] = value
