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
from contextlib import suppress

from msgspec import Struct

from ankaios.common.errors import StartupFailed
from ankaios.common.messages import Respond
from ankaios.common.pb.ank_base_pb2 import ServerInfo
from ankaios.common.state_manipulation import Form
from ankaios.common.supervision import Supervisor, restart_delay
from ankaios.middleware.connecting import standby_text
from ankaios.server.commit_queue import UnfinishedDecisions
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.replies import Decision, Effect, refuse
from ankaios.server.core.stored_state import restored_state
from ankaios.server.known_servers import PUBLISH_SECONDS, KnownServers
from ankaios.server.metrics import StorageFacts
from ankaios.server.mutating_hooks import MutatingHook
from ankaios.server.settings import STORAGE_CONTEXT
from ankaios.server.shell import ServerShell, take_startup_state
from ankaios.storage.core.unconfirmed_loss import LOSS_KEY, loss_after
from ankaios.storage.leader_election import Candidate, Leadership
from ankaios.storage.server_registry import ServerRegistry
from ankaios.storage.state_store import (
    UNKNOWN_TEXT,
    CommitUnknown,
    EntryChange,
    NotLeader,
    StateChange,
    StorageFailed,
    Stored,
)
from ankaios.storage.storage import Storage

_END_LIMIT = 1.0  # seconds for cancelled tasks to end
_LONGEST_RETRY = 5.0

_log = logging.getLogger(__name__)


class StartState(Struct, frozen=True):
    """The startup manifest, or why it cannot be used. With `applies_always` it is applied at each start.

    `accepts_loss`: an operator has confirmed that a part of the state is lost.
    """

    manifest: Form | StartupFailed | None = None
    applies_always: bool = False
    accepts_loss: bool = False


class StateLeader:
    """Use `begin` once, then `run` until it is cancelled, then `close`."""

    def __init__(
        self,
        shell: ServerShell,
        storage: Storage,
        hooks: tuple[MutatingHook, ...],
        start: StartState,
        candidate: Candidate,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shell = shell
        self._storage = storage
        self._hooks = hooks
        self._start = start
        self._clock = clock
        self._name = candidate.name
        self._known = KnownServers(candidate)
        shell.servers = self._servers
        shell.metrics.observe_storage(self.storage_facts)
        self._leader_url = ""
        # What was lost and is not confirmed by an operator.
        self.loss: str | None = None
        self._leadership: Leadership | None = None
        self._stored: Stored | None = None  # loaded and not used yet
        self._has_started = False

    @property
    def is_shared(self) -> bool:
        """Whether other servers can use the same storage."""
        return self._storage.registry is not None

    def stand_by(self) -> None:
        """Reject calls until this server leads."""
        self._shell.close(standby_text(""))
        self._shell.middleware.refuse_calls(standby_text(""))

    async def _follow_leader(self, registry: ServerRegistry) -> None:
        """Keep the text current with which calls are rejected."""
        async for leader in registry.leaders():
            is_other = leader is not None and leader.name != self._name
            self._leader_url = leader.url if leader is not None and is_other else ""
            if not self._shell.is_open:
                self._shell.middleware.refuse_calls(self._refusal())

    async def _announce(self, registry: ServerRegistry) -> None:
        """Publish this server, and find out which other servers and which members of the storage there are."""
        while True:
            if self._shell.is_open:
                self._known.members = await registry.members()
            try:
                await registry.publish(self._known.announcement())
                self._known.update(await registry.read())
            except StorageFailed as failure:
                _log.debug("This server is not announced: %s", failure)
            await asyncio.sleep(PUBLISH_SECONDS)

    def _servers(self) -> list[ServerInfo]:
        term = self._term_of(self._leadership) if self._leadership is not None else 0
        return self._known.infos(term, self._storage.store.status(), self.loss or self._shell.commits.problem)

    def storage_facts(self) -> StorageFacts:
        """For metrics."""
        status = self._storage.store.status()
        led = self._leadership if self._leadership is not None and self._leadership.is_valid else None
        return StorageFacts(
            store=status.kind,
            revision=status.revision,
            size=status.size,
            is_leader=led is not None,
            term=self._term_of(led) if led is not None else 0,
            can_store=self._shell.commits.problem is None and status.problem is None,
            is_damaged=self.loss is not None,
        )

    def _refusal(self, why: str = "") -> str:
        if self.is_shared:
            return standby_text(self._leader_url)
        return f"the server has to load its state again: {why}"

    async def begin(self) -> None:
        """Lead and open the server; raises `StartupFailed` if the storage cannot be used."""
        self._leadership = await self._storage.election.campaign()
        try:
            await self._open(self._leadership)
        except StorageFailed as failure:
            raise StartupFailed(STORAGE_CONTEXT, str(failure)) from failure

    async def run(self) -> None:
        async with Supervisor() as tasks:
            if (registry := self._storage.registry) is not None:
                tasks.keep_running("the knowledge of the leader", lambda: self._follow_leader(registry))
                tasks.keep_running("the announcement of this server", lambda: self._announce(registry))
            await self._lead_forever()

    async def _lead_forever(self) -> None:
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
            self._stored = None  # another server may have led since it was loaded
        if not self._shell.is_open:
            await self._open(self._leadership)
        await self._close(await self._failure(self._leadership))

    async def _failure(self, leadership: Leadership) -> StorageFailed:
        storing = asyncio.create_task(self._shell.commits.run(), name="the storing of changes")
        losing = asyncio.create_task(leadership.lost.wait(), name="the loss of the leadership")
        diverging = asyncio.create_task(self._shell.diverged.wait(), name="the detection of unstored changes")
        assert self._shell.records is not None, "the shell is open"
        recording = asyncio.create_task(self._shell.records.run(), name="the storing of records")
        tasks = (storing, losing, diverging, recording)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            _, running = await asyncio.wait(tasks, timeout=_END_LIMIT)
            for name in (task.get_name() for task in running):
                _log.error("Internal error: %s does not end; the server continues without it.", name)
        if storing.done() and not storing.cancelled():
            return storing.result()
        if leadership.lost.is_set():
            return NotLeader(f"this server does not lead any more: {leadership.reason}", stored=None)
        return CommitUnknown("an internal error has interrupted a change")

    # --- open ---

    async def _open(self, leadership: Leadership) -> None:
        store = self._storage.store
        stored, self._stored = self._stored or await store.load(), None
        restored = restored_state(stored.entries)
        loss, change = self._loss_in(stored, restored.faults)
        server = AnkaiosServer(
            has_hooks=bool(self._hooks),
            is_durable=True,
            term=self._term_of(leadership),
            keeps_unlisted=loss is not None,
        )
        server.load_records(stored.records)
        placed = server.restore(restored, stored.revisions, stored.last_revision, self._clock())
        changes = [change, placed, await self._apply_startup_state(server, stored)]
        await self._commit([each for each in changes if each is not None])
        self._has_started, self.loss = True, loss
        if self.is_shared:
            _log.info(
                "This server leads with term %d, the state has revision %d.", leadership.term, stored.last_revision
            )
        self._shell.open(server, store, lambda: leadership.is_valid)

    def _loss_in(self, stored: Stored, faults: list[str]) -> tuple[str | None, StateChange | None]:
        """What is lost and not confirmed, and the change to store: the loss counts until an operator confirms it."""
        found = [str(stored.report)] if stored.report is not None and stored.report.lost else []
        found += [f"a stored entry cannot be used: {fault}" for fault in faults]
        if stored.report is not None:
            _log.error("The stored state was damaged: %s", stored.report)
        before = stored.entries.get(LOSS_KEY)
        after = loss_after(before, found)
        text = None if after is None else after["text"]
        if text is not None and self._start.accepts_loss and not self._has_started:
            _log.warning("The loss is accepted: %s", text)
            text = after = None
        elif text is not None:
            _log.error(
                "A part of the state is lost: %s. Workloads that are not in the state are not deleted. Complete the "
                "state, then start the server with --accept-loss.",
                text,
            )
        if before == after:
            return text, None
        return text, StateChange((EntryChange(LOSS_KEY.kind, LOSS_KEY.name, before, after),))

    def _term_of(self, leadership: Leadership) -> int:
        """A server that shares its state with no other has no term."""
        return leadership.term if self.is_shared else 0

    async def _apply_startup_state(self, server: AnkaiosServer, stored: Stored) -> StateChange | None:
        """Only at the start of the program; later the stored state counts."""
        manifest = self._start.manifest
        if manifest is None or self._has_started:
            return None
        was_used = stored.last_revision > 0 and stored.report is None
        is_empty = not was_used and not any(key != LOSS_KEY for key in stored.entries)
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
            store = self._storage.store
            with self._shell.metrics.commit(store.status().kind):
                await store.commit(changes)

    # --- close ---

    async def _close(self, failure: StorageFailed) -> None:
        """No effect of a change that is not stored leaves; its requester is answered with an error."""
        _log.error("The server stops commanding: %s", failure)
        unfinished = self._shell.close(self._refusal(str(failure)))
        is_stored = await self._is_stored(failure)
        for effect in _responses(unfinished, failure, is_stored):
            self._shell.middleware.dispatch(effect)
        self._shell.middleware.refuse_calls(self._refusal(str(failure)))
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
        if self._shell.records is not None:
            with suppress(StorageFailed):
                await self._shell.records.flush()
        await self._storage.close()


def _responses(unfinished: UnfinishedDecisions, failure: StorageFailed, is_stored: bool | None) -> list[Respond]:
    """If the failed commit is stored after all, its requests have succeeded."""
    rejected = f"the change could not be stored: {failure}"
    unknown = f"{UNKNOWN_TEXT}: {failure}"
    stored = list(_one_time_responses(unfinished.stored))
    waiting = list(_refusals(unfinished.waiting, rejected))
    if is_stored:
        return [*stored, *_one_time_responses(unfinished.committing), *waiting]
    return [*stored, *_refusals(unfinished.committing, unknown if is_stored is None else rejected), *waiting]


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
