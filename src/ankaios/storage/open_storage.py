"""Makes the store and the election that a storage URL names.

Input: a location, who this server is, and how to authenticate with etcd. Output: a `Storage`; nothing is opened yet.
The modules of a store are imported only if it is used.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from ankaios.common.config import PemMaterial
from ankaios.common.errors import Rejected
from ankaios.storage.core.lease_rules import DEFAULT_SECONDS
from ankaios.storage.leader_election import Candidate, LeaderElection, SoleElection
from ankaios.storage.memory_store import MemoryStore
from ankaios.storage.server_registry import ServerRegistry, SoleRegistry
from ankaios.storage.state_store import StateStore
from ankaios.storage.storage_url import EtcdLocation, MemoryLocation, SqliteLocation, StorageLocation

if TYPE_CHECKING:
    from ankaios.grpc.tls import TlsSession
    from ankaios.storage.etcd.etcd_members import EtcdCredentials


class Storage(Struct, frozen=True):
    """Campaign first, then load; commit while the leadership is valid. Close it after use."""

    store: StateStore
    election: LeaderElection
    registry: ServerRegistry = SoleRegistry()
    close_client: Callable[[], None] = lambda: None

    async def close(self) -> None:
        await self.store.close()
        await self.registry.close()
        await self.election.close()
        self.close_client()


def open_storage(
    location: StorageLocation,
    candidate: Candidate,
    pem: PemMaterial | None = None,
    credentials: "EtcdCredentials | None" = None,
    lease: int = DEFAULT_SECONDS,
) -> Storage:
    """`pem` is the certificate of this server for etcd, `lease` the time to live of a leader's lease in seconds.

    Raises `Rejected`, or `BadPemFile` for unusable files.
    """
    if isinstance(location, MemoryLocation):
        return Storage(MemoryStore(), SoleElection(candidate))
    if isinstance(location, SqliteLocation):
        from ankaios.storage.sqlite.sqlite_store import SqliteStore

        return Storage(SqliteStore(location.path), SoleElection(candidate))
    return _open_etcd(location, candidate, pem, credentials, lease)


def _open_etcd(
    location: EtcdLocation,
    candidate: Candidate,
    pem: PemMaterial | None,
    credentials: "EtcdCredentials | None",
    lease: int,
) -> Storage:
    from ankaios.storage.core.etcd_layout import KeySpace
    from ankaios.storage.etcd.etcd_client import EtcdClient
    from ankaios.storage.etcd.etcd_election import EtcdElection
    from ankaios.storage.etcd.etcd_registry import EtcdRegistry
    from ankaios.storage.etcd.etcd_store import EtcdStore

    if location.uses_tls and pem is None:
        raise Rejected(f"'{location}' needs certificates: a CA certificate, and a certificate and key of this server")
    if credentials is not None and not location.uses_tls:
        raise Rejected(f"'{location}' would send the password without encryption: use etcds://")
    client = EtcdClient(
        location.endpoints, tls=_tls_sessions(pem) if location.uses_tls else None, credentials=credentials
    )
    keys = KeySpace(location.prefix)
    election = EtcdElection(client, keys, candidate, lease)
    registry = EtcdRegistry(client, keys, candidate.name)
    return Storage(EtcdStore(client, keys, election, str(location)), election, registry, client.close)


def _tls_sessions(pem: PemMaterial | None) -> "Callable[[str], TlsSession]":
    from ankaios.grpc.tls import TlsSession, client_context

    assert pem is not None
    context = client_context(pem)
    return lambda host: TlsSession(context, server_name=host)
