"""A state store whose commits are counted and timed. Used only if metrics are enabled."""

from collections.abc import Mapping, Sequence
from time import monotonic

from ankaios.server.metrics import ServerMetrics
from ankaios.storage.state_store import JsonValue, StateChange, StateStore, Stored, StoreStatus


class MeasuredStore:
    """A `StateStore`; see there for the meaning of its errors."""

    def __init__(self, store: StateStore, metrics: ServerMetrics) -> None:
        self._store = store
        self._metrics = metrics
        self.record_interval = store.record_interval

    async def load(self) -> Stored:
        return await self._store.load()

    async def commit(self, changes: Sequence[StateChange]) -> None:
        began, result = monotonic(), "failed"
        try:
            await self._store.commit(changes)
            result = "ok"
        finally:
            self._metrics.committed(self._store.status().kind, result, monotonic() - began)

    async def save_records(self, records: Mapping[str, JsonValue]) -> None:
        await self._store.save_records(records)

    def status(self) -> StoreStatus:
        return self._store.status()

    async def check(self) -> None:
        await self._store.check()

    async def close(self) -> None:
        await self._store.close()
