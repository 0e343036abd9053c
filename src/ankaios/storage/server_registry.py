"""The servers that share a store, whether they lead or not.

Input: what each server publishes about itself, again and again. Output: what all servers have published.
"""

from typing import Protocol

from msgspec import Struct


class PublishedServer(Struct, frozen=True):
    """`version` changes with each publication."""

    value: bytes
    version: int


class StorageMemberStatus(Struct, frozen=True):
    """A member of a storage on several machines. `problem` is empty if the member responds."""

    name: str
    problem: str


class ServerRegistry(Protocol):
    async def publish(self, value: bytes) -> None:
        """Publish or renew the entry of this server; it ends by itself some seconds later. Raises `StorageFailed`."""
        ...

    async def read(self) -> list[PublishedServer]:
        """Read the entries of all servers. Raises `StorageFailed`."""
        ...

    async def members(self) -> list[StorageMemberStatus]:
        """Ask each member of the storage whether it responds; no failure is raised."""
        ...

    async def close(self) -> None: ...


class SoleRegistry:
    """The registry of a server that shares its state with no other."""

    async def publish(self, value: bytes) -> None:
        """The announcement is not read by other servers."""

    async def read(self) -> list[PublishedServer]:
        return []

    async def members(self) -> list[StorageMemberStatus]:
        return []

    async def close(self) -> None:
        """There is nothing to remove."""
