"""The stores under the contract tests, and how each of them is opened again, as after a restart of the server."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from ankaios.storage.etcd.etcd_storage import make_etcd_storage
from ankaios.storage.leader_election import Candidate
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.state_store import StateStore
from ankaios.storage.storage import Storage
from tests.integration.storage.etcd_cluster import EtcdCluster
from tests.support.memory_store import MemoryStore

DURABLE_SUBJECTS = ("sqlite", "etcd")
SUBJECTS = ("memory", *DURABLE_SUBJECTS)


class StoreSubject(Protocol):
    name: str

    async def open(self) -> StateStore:
        """Return the store that a server has after its start. The store before has been closed."""
        ...

    async def close(self) -> None: ...


class MemorySubject:
    name = "memory"

    def __init__(self) -> None:
        self._store = MemoryStore()

    async def open(self) -> StateStore:
        return self._store

    async def close(self) -> None:
        await self._store.close()


class SqliteSubject:
    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store" / "state.db"
        self._store: SqliteStore | None = None

    async def open(self) -> StateStore:
        await self.close()
        self._store = SqliteStore(self._path)
        return self._store

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()


class EtcdSubject:
    """Each test uses a separate prefix in a shared cluster."""

    name = "etcd"

    def __init__(self, cluster: EtcdCluster) -> None:
        self._location = cluster.location(f"/test/{secrets.token_hex(4)}")
        self._storage: Storage | None = None

    async def open(self) -> StateStore:
        await self.close()
        self._storage = make_etcd_storage(self._location, Candidate("server", "http://server:25551"))
        await self._storage.election.campaign()
        return self._storage.store

    async def close(self) -> None:
        if self._storage is not None:
            await self._storage.close()


@asynccontextmanager
async def make_subject(name: str, folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[StoreSubject]:
    subject: StoreSubject
    if name == "etcd":
        subject = EtcdSubject(request.getfixturevalue("etcd_cluster"))
    else:
        subject = MemorySubject() if name == "memory" else SqliteSubject(folder)
    yield subject
    await subject.close()
