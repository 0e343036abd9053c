"""What a server with durable state uses: a store, and the means to share it with other servers."""

from collections.abc import Callable
from contextlib import AsyncExitStack

from msgspec import Struct

from ankaios.storage.leader_election import LeaderElection
from ankaios.storage.server_registry import ServerRegistry
from ankaios.storage.state_store import StateStore


class Storage(Struct, frozen=True):
    """Campaign first, then load; commit while the leadership is valid. Close it after use.

    `registry` is None if no other server shares the store.
    """

    store: StateStore
    election: LeaderElection
    registry: ServerRegistry | None = None
    close_client: Callable[[], None] = lambda: None

    async def close(self) -> None:
        """Close everything, also if a part fails."""
        async with AsyncExitStack() as parts:
            parts.callback(self.close_client)
            parts.push_async_callback(self.election.resign)  # after the others: in reverse order
            if self.registry is not None:
                parts.push_async_callback(self.registry.close)
            parts.push_async_callback(self.store.close)
