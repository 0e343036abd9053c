"""The servers that share a store, whether they lead or not.

Input: what each server publishes about itself, again and again. Output: what all servers have published, and who leads.
"""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct


class LeaderInfo(Struct, frozen=True):
    """The current leader. A later leader has a higher term."""

    name: str
    url: str
    term: int


class PublishedServer(Struct, frozen=True):
    """`version` changes with each publication."""

    value: bytes
    version: int


class StorageMemberStatus(Struct, frozen=True):
    """A member of a storage on several machines. `problem` is empty if the member responds."""

    name: str
    problem: str


class ServerRegistry(Protocol):
    def leaders(self) -> AsyncIterator[LeaderInfo | None]:
        """Yield the current leader, and again whenever it changes; None while there is none."""
        ...

    async def publish(self, value: bytes) -> None:
        """Publish or renew the entry of this server; it expires after some seconds. Raises `StorageFailed`."""
        ...

    async def read(self) -> list[PublishedServer]:
        """Read the entries of all servers. Raises `StorageFailed`."""
        ...

    async def members(self) -> list[StorageMemberStatus]:
        """Ask each member of the storage whether it responds; no failure is raised."""
        ...

    async def close(self) -> None: ...
