"""Leads with durable state: campaigns, loads the state, opens the server, and closes it when one of these is lost.

Input: the storage, and how to begin with an empty store. Output: an open or closed `ServerShell`. Owns the storage.

A server that cannot store a change continues with the stored state: it rejects what is not stored, ends all
connections, loads the state, and accepts connections again. Agents and clients connect again; workloads are not
affected. Requests for changes are rejected until the store works.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from msgspec import Struct

from ankaios.common.errors import StartupFailed
from ankaios.common.messages import Respond
from ankaios.common.supervision import restart_delay
from ankaios.server.commit_queue import UnfinishedDecisions
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.replies import Decision, Effect, refuse
from ankaios.server.mutating_hooks import MutatingHook
from ankaios.server.settings import STORAGE_CONTEXT
from ankaios.server.shell import ServerShell, take_startup_state
from ankaios.server.startup_state_loader import Form
from ankaios.storage.leader_election import Leadership
from ankaios.storage.open_storage import Storage
from ankaios.storage.state_store import CommitUnknown, NotLeader, StateChange, StorageFailed, Stored

_LONGEST_RETRY = 5.0

_log = logging.getLogger(__name__)


class StartState(Struct, frozen=True):
    """The startup manifest, or why it cannot be used. With `applies_always` it is applied at each start."""

    manifest: Form | StartupFailed | None = None
    applies_always: bool = False


class StateLeader:
    """Use `begin` once, then `run` until it is cancelled, then `close`."""

    def __init__(
        self,
        shell: ServerShell,
        storage: Storage,
        hooks: tuple[MutatingHook, ...],
        start: StartState,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shell = shell
        self._storage = storage
        self._hooks = hooks
        self._start = start
        self._clock = clock
        self._leadership: Leadership | None = None
        self._stored: Stored | None = None  # loaded and not used yet
        self._has_started = False

    def stand_by(self, text: str = "this server does not lead yet") -> None:
        """Reject calls until this server leads."""
        self._shell.close(text)
        self._shell.middleware.refuse_calls(text)

    async def begin(self) -> None:
        """Lead and open the server; raises `StartupFailed` if the storage cannot be used."""
        self._leadership = await self._storage.election.campaign()
        try:
            await self._open(self._leadership)
        except StorageFailed as failure:
            raise StartupFailed(STORAGE_CONTEXT, str(failure)) from failure

    async def run(self) -> None:
        failures = 0
        while True:
            try:
                await self._lead()
                failures = 0
            except StorageFailed as failure:
                failures += 1
                _log.error("The state cannot be loaded: %s", failure)
                await asyncio.sleep(min(restart_delay(failures), _LONGEST_RETRY))

    async def _lead(self) -> None:
        """Until the leadership or the connection between state and storage is lost."""
        if self._leadership is None or not self._leadership.is_valid:
            self._leadership = await self._storage.election.campaign()
        if not self._shell.is_open:
            await self._open(self._leadership)
        await self._close(await self._failure(self._leadership))

    async def _failure(self, leadership: Leadership) -> StorageFailed:
        storing = asyncio.create_task(self._shell.commits.run(), name="the storing of changes")
        losing = asyncio.create_task(leadership.lost.wait(), name="the loss of the leadership")
        diverging = asyncio.create_task(self._shell.diverged.wait(), name="the detection of unstored changes")
        tasks = (storing, losing, diverging)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if storing.done() and not storing.cancelled():
            return storing.result()
        if leadership.lost.is_set():
            return NotLeader(f"this server does not lead any more: {leadership.reason}", stored=None)
        return StorageFailed("an internal error has interrupted a change")

    # --- open ---

    async def _open(self, leadership: Leadership) -> None:
        store = self._storage.store
        stored, self._stored = self._stored or await store.load(), None
        if stored.report is not None:
            _log.error("The stored state was damaged. %s", stored.report)
        server = AnkaiosServer(has_hooks=bool(self._hooks), is_durable=True, term=leadership.term)
        change, faults = server.restore(stored)
        for fault in faults:
            _log.error("A stored entry cannot be used: %s", fault)
        changes = [change, await self._apply_startup_state(server, stored)]
        await self._commit([each for each in changes if each is not None])
        self._has_started = True
        self._shell.open(server, store, lambda: leadership.is_valid)

    async def _apply_startup_state(self, server: AnkaiosServer, stored: Stored) -> StateChange | None:
        """Only at the start of the program; later the stored state counts."""
        manifest = self._start.manifest
        if manifest is None or self._has_started:
            return None
        is_empty = stored.last_revision == 0 and not stored.entries
        if isinstance(manifest, StartupFailed):
            if is_empty:
                raise manifest
            _log.error("The startup manifest cannot be used, the stored state is: %s", manifest)
            return None
        if is_empty or self._start.applies_always:
            return await take_startup_state(server, manifest, self._hooks, self._clock(), as_update=not is_empty)
        _log.info(
            "The startup manifest is not applied, because the store has a state (revision %d). "
            "To apply it at each start: --startup-manifest-policy always",
            stored.last_revision,
        )
        return None

    async def _commit(self, changes: list[StateChange]) -> None:
        if changes:
            await self._storage.store.commit(changes)

    # --- close ---

    async def _close(self, failure: StorageFailed) -> None:
        """No effect of a change that is not stored leaves; its requester is answered with an error."""
        _log.error("The server stops commanding: %s", failure)
        unfinished = self._shell.close(f"the server has to load its state again: {failure}")
        is_stored = await self._is_stored(failure)
        for effect in _responses(unfinished, failure, is_stored):
            self._shell.middleware.dispatch(effect)
        self._shell.middleware.refuse_calls(f"the server has to load its state again: {failure}")
        await self._shell.middleware.calls_ended()

    async def _is_stored(self, failure: StorageFailed) -> bool | None:
        """Whether the failed commit is stored; None if that is not known."""
        if isinstance(failure, NotLeader):
            return failure.stored
        if not isinstance(failure, CommitUnknown):
            return False
        try:
            self._stored = await self._storage.store.load()
        except StorageFailed:
            return None
        return self._stored.unknown_commit_stored

    async def close(self) -> None:
        await self._storage.close()


def _responses(unfinished: UnfinishedDecisions, failure: StorageFailed, is_stored: bool | None) -> list[Respond]:
    """If the failed commit is stored after all, its requests have succeeded."""
    rejected = f"the change could not be stored: {failure}"
    unknown = f"it is not known whether the change is stored: {failure}"
    waiting = list(_refusals(unfinished.waiting, rejected))
    if is_stored:
        return [*_one_time_responses(unfinished.committing), *waiting]
    return [*_refusals(unfinished.committing, unknown if is_stored is None else rejected), *waiting]


def _refusals(decisions: Iterable[Decision], text: str) -> Iterable[Respond]:
    for respond in _one_time_responses(decisions):
        yield refuse(respond.response.requestId, text)


def _one_time_responses(decisions: Iterable[Decision]) -> Iterable[Respond]:
    """Not events and log entries: these belong to requests that were answered before."""
    for decision in decisions:
        yield from (effect for effect in decision.effects if _answers_once(effect))  # type: ignore[misc]


def _answers_once(effect: Effect) -> bool:
    if not isinstance(effect, Respond):
        return False
    response = effect.response
    is_event = response.HasField("completeStateResponse") and response.completeStateResponse.HasField("alteredFields")
    return not is_event and not response.HasField("logEntriesResponse") and not response.HasField("logsStopResponse")
