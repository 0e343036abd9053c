"""The store in an etcd cluster, for several servers of which one leads.

Input: changes. Output: durable state. Only the leader can write: every transaction is guarded with its term. Owns what
is needed to write the next change: the mark of the last commit, and which values are stored in chunks.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from ankaios.common.concurrent_work import run_concurrently
from ankaios.storage.core import etcd_transactions as transactions
from ankaios.storage.core.encoding import encode_value, write_set
from ankaios.storage.core.etcd_layout import (
    FORMAT,
    CommitMark,
    KeySpace,
    chunk_counts,
    chunks_of,
    decode_content,
    decode_mark,
)
from ankaios.storage.core.etcd_transactions import JournalHeader
from ankaios.storage.etcd.compaction import HistoryCompactor
from ankaios.storage.etcd.etcd_client import READ_LIMIT, EtcdClient
from ankaios.storage.etcd.etcd_reader import read_pairs
from ankaios.storage.etcd.guarded_writer import GuardedWriter
from ankaios.storage.leader_election import LeaderElection, Leadership
from ankaios.storage.pb.etcd_api_pb2 import RequestOp, TxnRequest
from ankaios.storage.state_store import (
    CommitUnknown,
    JsonValue,
    NotLeader,
    RecoveryReport,
    StateChange,
    StorageFailed,
    Stored,
    StoreStatus,
)

_WRITES_AT_ONCE = 4


class _Session(Struct):
    """What is known of the stored state while this server leads.

    `mark_value` is the stored mark of this term, None before its first commit. `unfinished` is a journal that is valid
    and still has to be applied.
    """

    writer: GuardedWriter
    mark: CommitMark
    mark_value: bytes | None
    chunks: dict[bytes, int]
    unfinished: tuple[bytes, list[RequestOp]] | None = None

    @property
    def term(self) -> int:
        return self.writer.leadership.term


class EtcdStore:
    """A `StateStore`; see there for the meaning of its errors."""

    record_interval = 5.0

    def __init__(self, client: EtcdClient, keys: KeySpace, election: LeaderElection, location: str) -> None:
        self._client = client
        self._keys = keys
        self._election = election
        self._location = location
        self._session: _Session | None = None
        self._unknown: tuple[bytes, bytes] | None = None
        self._compactor = HistoryCompactor(client)
        self._size = 0
        self._problem: str | None = None

    async def load(self) -> Stored:
        """Load as the leader, and complete what an earlier leader has left."""
        leadership = self._election.leadership
        if leadership is None or not leadership.is_valid:
            raise NotLeader("cannot load the state from etcd: this server does not lead")
        pairs = await read_pairs(self._client, self._keys)
        unfinished, missing = transactions.found_journal(self._keys, pairs)
        pairs_after = transactions.apply_operations(pairs, unfinished)
        content = decode_content(self._keys, pairs_after)
        self._session = await self._begin(leadership, pairs, pairs_after, unfinished, content.last_revision)
        unknown, self._unknown = self._unknown, None
        with suppress(StorageFailed):
            self._size = (await self._client.status(READ_LIMIT)).dbSize
        return Stored(
            content.entries,
            tuple(content.revisions[number] for number in sorted(content.revisions)),
            content.records,
            content.last_revision,
            _report([*missing, *content.unreadable]),
            None if unknown is None else pairs.get(unknown[0]) == unknown[1],
        )

    async def _begin(
        self,
        leadership: Leadership,
        pairs: Mapping[bytes, bytes],
        pairs_after: Mapping[bytes, bytes],
        unfinished: list[RequestOp],
        last_revision: int,
    ) -> _Session:
        mark_value = pairs.get(self._keys.commit(leadership.term))
        mark = CommitMark(decode_mark(mark_value).sequence, last_revision)
        chunks = chunk_counts(self._keys, pairs_after)
        session = _Session(GuardedWriter(self._client, leadership), mark, mark_value, chunks)
        if self._keys.journal in pairs:
            session.unfinished = (pairs[self._keys.journal], unfinished)
            await self._finish_journal(session)
        await self._write(session, transactions.tidying(self._keys, pairs_after))
        return session

    async def commit(self, changes: Sequence[StateChange]) -> None:
        session = self._opened()
        try:
            await self._commit(session, changes)
        except StorageFailed as failure:
            self._problem = str(failure)
            raise
        self._problem = None
        self._compactor.note_write(session.writer.revision)

    def _opened(self) -> _Session:
        session = self._session
        if session is None or self._unknown is not None:
            raise StorageFailed("cannot write to etcd: the state has to be loaded first")
        if not session.writer.leadership.is_valid:
            reason = session.writer.leadership.reason or "the lease was not renewed in time"
            raise NotLeader(f"cannot write to etcd: this server does not lead any more: {reason}")
        return session

    async def _commit(self, session: _Session, changes: Sequence[StateChange]) -> None:
        if session.unfinished is not None:
            await self._finish_journal(session)
        writes = write_set(changes)
        mark = CommitMark(session.mark.sequence + 1, max(session.mark.revision, writes.last_revision))
        values = transactions.values_by_key(self._keys, writes)
        made = transactions.key_operations(self._keys, values, session.chunks)
        if len(transactions.split_into_batches(made)) <= 1:
            await self._send_commit(session, mark, made)
        else:
            await self._commit_in_parts(session, mark, made)
        _remember_chunks(session.chunks, values)
        with suppress(StorageFailed):  # the change is valid; the journal is applied before the next one
            await self._finish_journal(session)

    async def _send_commit(self, session: _Session, mark: CommitMark, made: Iterable[RequestOp]) -> None:
        after, term = msgspec.json.encode(mark), session.term
        request = transactions.commit_transaction(self._keys, term, session.mark_value, after, made)
        try:
            await session.writer.commit(request, after)
        except (CommitUnknown, NotLeader) as failure:
            if isinstance(failure, CommitUnknown) or failure.stored is None:
                self._unknown = (self._keys.commit(term), after)
            raise
        session.mark, session.mark_value = mark, after

    async def _commit_in_parts(self, session: _Session, mark: CommitMark, made: list[RequestOp]) -> None:
        """Write the parts, then the journal that makes them valid."""
        change = f"{session.term}-{mark.sequence}"
        parts = transactions.encode_parts(made)
        puts = [transactions.put_key(self._keys.part(change, index), part) for index, part in enumerate(parts)]
        await self._write_all(
            session, [transactions.leader_transaction(self._keys, session.term, [each]) for each in puts]
        )
        journal = msgspec.json.encode(JournalHeader(change, len(parts)))
        await self._send_commit(session, mark, [transactions.put_key(self._keys.journal, journal)])
        session.unfinished = (journal, made)

    async def _finish_journal(self, session: _Session) -> None:
        """Apply a large change and remove its journal; may be repeated."""
        if session.unfinished is None:
            return
        journal, made = session.unfinished
        steps = [
            transactions.journal_transaction(self._keys, session.term, journal, batch)
            for batch in transactions.split_into_batches(made)
        ]
        await self._write_all(session, steps)
        cleared = transactions.cleared_journal(self._keys)
        await session.writer.write(transactions.journal_transaction(self._keys, session.term, journal, cleared))
        session.unfinished = None

    async def _write(self, session: _Session, made: Sequence[RequestOp]) -> None:
        await self._write_all(
            session,
            [
                transactions.leader_transaction(self._keys, session.term, batch)
                for batch in transactions.split_into_batches(made)
            ],
        )

    async def _write_all(self, session: _Session, requests: Sequence[TxnRequest]) -> None:
        """Write independent transactions, several at the same time; raises the first failure."""
        waiting = iter(requests)

        async def write_some() -> None:
            for request in waiting:
                await session.writer.write(request)

        writers = range(min(_WRITES_AT_ONCE, len(requests)))
        await run_concurrently({f"writes to etcd {number}": write_some() for number in writers})

    async def save_records(self, records: Mapping[str, JsonValue]) -> None:
        session = self._opened()
        values = {self._keys.record(name): encode_value(value) for name, value in records.items()}
        await self._write(session, transactions.key_operations(self._keys, values, session.chunks))
        _remember_chunks(session.chunks, values)
        self._compactor.note_write(session.writer.revision)

    def status(self) -> StoreStatus:
        revision = 0 if self._session is None else self._session.mark.revision
        return StoreStatus("etcd", self._location, revision, self._size, self._problem)

    async def check(self) -> None:
        try:
            await self._write(self._opened(), [transactions.put_key(self._keys.format, FORMAT)])
            status = await self._client.status(READ_LIMIT)
        except StorageFailed as failure:
            self._problem = str(failure)
            raise
        self._size, self._problem = status.dbSize, "; ".join(status.errors) or None

    async def close(self) -> None:
        """The owner of the client closes it."""
        self._session = None
        await self._compactor.close()


def _remember_chunks(chunks: dict[bytes, int], values: Mapping[bytes, bytes | None]) -> None:
    for key, value in values.items():
        if count := chunks_of(value):
            chunks[key] = count
        else:
            chunks.pop(key, None)


def _report(lost: Sequence[str]) -> RecoveryReport | None:
    return RecoveryReport("some values in etcd cannot be used", tuple(lost)) if lost else None
