"""The protocol of all stores, and the plain data that passes through it.

Input: atomic changes of the server's state, and bounded records of each workload. Output: the same after a restart,
with a report if something was lost. This module owns the meaning of success and failure:

- `commit` returns: everything is durable, and no other server can have changed it in between.
- `StorageFailed`: nothing of it is stored, and nothing will be. The caller continues with the state before.
- `CommitUnknown`: it cannot be determined now whether the commit is stored. The store rejects further commits until
  `load` has read the actual state; `Stored.unknown_commit_stored` then states what happened.
- `NotLeader`: another server may lead. The caller stops commanding agents and campaigns again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct, field

from ankaios.common.errors import Unavailable

# Plain JSON data: dict, list, str, int, float, bool. None stands for an absent entry.
JsonValue = Any


class StorageFailed(Unavailable):
    """Nothing was stored; the caller may try again later."""


UNKNOWN_TEXT: Final = "it is not known whether the change is stored"


class CommitUnknown(StorageFailed):
    """The commit may be stored or not; `load` finds out."""


class NotLeader(StorageFailed):
    """This server does not lead (any more). `stored`: whether the rejected commit is stored, None if not known."""

    def __init__(self, text: str, stored: bool | None = False) -> None:
        super().__init__(text)
        self.stored = stored


class EntryKey(Struct, frozen=True, order=True):
    """`kind` is a word such as "workload", without a slash; `name` is any text."""

    kind: str
    name: str


class EntryChange(Struct, frozen=True):
    """One entry before and after a change; None means absent."""

    kind: str
    name: str
    before: JsonValue
    after: JsonValue

    @property
    def key(self) -> EntryKey:
        return EntryKey(self.kind, self.name)


class Revision(Struct, frozen=True):
    """One accepted change of the desired state, for history and rollback. `time`: seconds since 1970."""

    number: int
    time: float
    requester: str
    masks: tuple[str, ...]
    entries: tuple[EntryChange, ...]
    note: str = ""


class StateChange(Struct, frozen=True):
    """One atomic change. Changes without a revision (placements, rollouts) are not part of the history."""

    entries: tuple[EntryChange, ...]
    revision: Revision | None = None
    dropped_revisions: tuple[int, ...] = ()


class RecoveryReport(Struct, frozen=True):
    """What was wrong with the stored data, what was lost, and where the damaged files are."""

    problem: str
    lost: tuple[str, ...]
    kept_as: str | None = None

    def __str__(self) -> str:
        lost = "; ".join(self.lost) or "nothing was lost"
        kept = f"; the damaged database was kept as '{self.kept_as}'" if self.kept_as else ""
        return f"{self.problem}: {lost}{kept}"


class Stored(Struct, frozen=True):
    """The content of a store. `last_revision` is the highest number ever used, also of lost revisions."""

    entries: Mapping[EntryKey, JsonValue] = field(default_factory=dict)
    revisions: tuple[Revision, ...] = ()
    records: Mapping[str, JsonValue] = field(default_factory=dict)
    last_revision: int = 0
    report: RecoveryReport | None = None
    unknown_commit_stored: bool | None = None


class StoreStatus(Struct, frozen=True):
    """For `ank get servers` and metrics. `location` is a URL. `problem` is None if the last operation succeeded."""

    kind: str
    location: str
    revision: int
    size: int
    problem: str | None


class StateStore(Protocol):
    """`load`, `commit` and `check` are called by one task; `save_records` can be called meanwhile by another one."""

    # Seconds between two writes of records; a store for which writes are expensive has a longer interval.
    record_interval: float

    async def load(self) -> Stored:
        """Open the store if it is not open, and read everything."""
        ...

    async def commit(self, changes: Sequence[StateChange]) -> None:
        """Store all changes, or none of them; durable on return."""
        ...

    async def save_records(self, records: Mapping[str, JsonValue]) -> None:
        """Replace the records of these workloads; None removes them. May be lost in a power failure."""
        ...

    def status(self) -> StoreStatus: ...

    async def check(self) -> None:
        """Raise `StorageFailed` if nothing can be written now. It writes, so do not call it every second."""
        ...

    async def close(self) -> None: ...
