"""The stores under the contract tests, and how each of them is opened again, as after a restart of the server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from ankaios.storage.memory_store import MemoryStore
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.state_store import StateStore

DURABLE_SUBJECTS = ("sqlite",)
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


@asynccontextmanager
async def make_subject(name: str, folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[StoreSubject]:
    subject: StoreSubject = MemorySubject() if name == "memory" else SqliteSubject(folder)
    yield subject
    await subject.close()
