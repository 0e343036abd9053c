"""Makes changes durable before their effects leave the server.

Input: decisions of the server, in order: effects, and the change they belong to. Output: the same effects in the same
order, each after all changes before it are stored. Owns the decisions that wait, and what is known about the storage.

Decisions that arrive during a commit wait, and their changes share the next commit. A decision without a change leaves
immediately if nothing waits before it. Without a store everything does.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from msgspec import Struct

from ankaios.server.core.replies import Decision, Effect
from ankaios.server.core.stored_entries import EntryCollector
from ankaios.server.metrics import ServerMetrics
from ankaios.storage.state_store import CommitUnknown, NotLeader, StateChange, StateStore, StorageFailed

MOST_WAITING = 1024
_MOST_CHANGES, _MOST_ENTRIES = 64, 100  # of one commit; a single change may have more entries
_RETRY_SECONDS = 2.0
# Effects of a long decision that are sent before connections are served again.
_EFFECTS_OF_PART = 20

_log = logging.getLogger(__name__)


class UnfinishedDecisions(Struct, frozen=True):
    """Decisions whose effects have not left: stored ones, those of the last commit, which failed, and later ones."""

    stored: list[Decision]
    committing: list[Decision]
    waiting: list[Decision]


class CommitQueue:
    """`perform` sends effects. `problem` is None while changes can be stored."""

    def __init__(self, perform: Callable[[Iterable[Effect]], None], metrics: ServerMetrics) -> None:
        self._perform = perform
        self._metrics = metrics
        self._store: StateStore | None = None
        self._waiting: deque[Decision] = deque()
        self._stored = self._committing = 0  # of the decisions that wait: the first ones
        self._unsaved = EntryCollector()
        self._submitted = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.problem: str | None = None

    def open(self, store: StateStore) -> None:
        """From now on changes are stored here; `run` has to run."""
        self._store = store

    def close(self) -> UnfinishedDecisions:
        """Stop storing; the effects of the returned decisions do not leave."""
        decisions, stored = list(self._waiting), self._stored
        last = stored + self._committing
        unfinished = UnfinishedDecisions(decisions[:stored], decisions[stored:last], decisions[last:])
        self._waiting.clear()
        self._unsaved.take()
        self._store, self._stored, self._committing = None, 0, 0
        self._has_room.set()
        return unfinished

    def submit(self, decision: Decision) -> None:
        if self._store is None or (decision.change is None and not self._waiting):
            self._perform(decision.effects)
            return
        self._waiting.append(decision)
        self._submitted.set()
        if len(self._waiting) >= MOST_WAITING:
            self._has_room.clear()

    async def submit_long(self, decision: Decision) -> None:
        """Submit a decision with many effects. The caller submits no other one before this returns."""
        if self._store is None:
            await self._perform_in_parts(decision.effects)
        else:
            self.submit(decision)

    async def _perform_in_parts(self, effects: list[Effect]) -> None:
        for start in range(0, len(effects), _EFFECTS_OF_PART):
            self._perform(effects[start : start + _EFFECTS_OF_PART])
            await asyncio.sleep(0)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    async def room(self) -> None:
        """Wait while too many decisions wait."""
        await self._has_room.wait()

    async def run(self) -> StorageFailed:
        """Store changes until that fails; the caller then continues with the stored state."""
        assert self._store is not None, "open it first"
        while True:
            await self._wait()
            try:
                await self._commit_next(self._store)
            except StorageFailed as failure:
                self.problem = str(failure)
                return failure

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_RETRY_SECONDS if self.problem is not None else None):
                await self._submitted.wait()
        except TimeoutError:
            pass
        self._submitted.clear()

    async def _commit_next(self, store: StateStore) -> None:
        if self.problem is not None:
            await self._check(store)
        while batch := _next_batch(self._waiting):
            self._committing = len(batch)
            await self._commit(store, [decision.change for decision in batch if decision.change is not None])
            self._stored, self._committing = len(batch), 0
            await self._perform_stored()
            if len(self._waiting) < MOST_WAITING:
                self._has_room.set()

    async def _perform_stored(self) -> None:
        """Later decisions wait until the last effect has left."""
        while self._stored:
            effects = self._waiting[0].effects
            if len(effects) > _EFFECTS_OF_PART:
                self._waiting[0] = Decision(effects[_EFFECTS_OF_PART:])
            else:
                self._waiting.popleft()
                self._stored -= 1
            self._perform(effects[:_EFFECTS_OF_PART])
            if len(effects) > _EFFECTS_OF_PART:
                await asyncio.sleep(0)

    async def _check(self, store: StateStore) -> None:
        """Requests for changes are rejected meanwhile, so nothing is lost by the attempt."""
        try:
            await store.check()
        except (CommitUnknown, NotLeader):
            raise
        except StorageFailed as failure:
            self.problem = str(failure)
            return
        self.problem = None
        await self._commit(store, [])
        if self.problem is None:
            _log.info("The state can be stored again.")

    async def _commit(self, store: StateStore, changes: list[StateChange]) -> None:
        unsaved = self._unsaved.take()
        everything = changes if unsaved is None else [unsaved, *changes]
        if not everything:
            return
        try:
            with self._metrics.commit(store.status().kind):
                await store.commit(everything)
        except (CommitUnknown, NotLeader):
            raise
        except StorageFailed as failure:
            if any(change.revision is not None for change in changes):
                raise
            self._keep(everything, failure)

    def _keep(self, changes: list[StateChange], failure: StorageFailed) -> None:
        """Decisions of the server itself are valid without a store; they are stored as soon as that is possible."""
        if self.problem is None:
            _log.warning("Decisions of the server are not stored yet: %s", failure)
        self.problem = str(failure)
        for change in changes:
            self._unsaved.note_all(change.entries)
            self._unsaved.note_dropped_revisions(change.dropped_revisions)


def _next_batch(waiting: Iterable[Decision]) -> list[Decision]:
    batch: list[Decision] = []
    changes = entries = 0
    for decision in islice(waiting, MOST_WAITING):
        if decision.change is not None:
            changes += 1
            entries += len(decision.change.entries)
            if changes > 1 and (changes > _MOST_CHANGES or entries > _MOST_ENTRIES):
                break
        batch.append(decision)
    return batch
