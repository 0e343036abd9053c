"""Makes the storage of a server that shares an etcd cluster with others.

Input: the location, who this server is, and how to authenticate. Output: a `Storage`, which connects when it is used.
"""

from collections.abc import Callable

from ankaios.common.config import PemMaterial
from ankaios.common.errors import Rejected
from ankaios.grpc.tls import TlsSession, client_context
from ankaios.storage.core.etcd_layout import KeySpace
from ankaios.storage.core.lease_rules import DEFAULT_SECONDS
from ankaios.storage.etcd.etcd_client import EtcdClient
from ankaios.storage.etcd.etcd_election import EtcdElection
from ankaios.storage.etcd.etcd_members import EtcdCredentials
from ankaios.storage.etcd.etcd_registry import EtcdRegistry
from ankaios.storage.etcd.etcd_store import EtcdStore
from ankaios.storage.leader_election import Candidate
from ankaios.storage.storage import Storage
from ankaios.storage.storage_url import EtcdLocation


def make_etcd_storage(
    location: EtcdLocation,
    candidate: Candidate,
    pem: PemMaterial | None = None,
    credentials: EtcdCredentials | None = None,
    lease: int = DEFAULT_SECONDS,
) -> Storage:
    """`pem` is the certificate of this server for etcd, `lease` the time to live of a leader's lease in seconds.

    Raises `Rejected`, or `BadPemFile` for unusable files.
    """
    if credentials is not None and not location.uses_tls:
        raise Rejected(f"'{location}' would send the password without encryption: use etcds://")
    tls = _tls_sessions(location, pem) if location.uses_tls else None
    client = EtcdClient(location.endpoints, tls=tls, credentials=credentials)
    keys = KeySpace(location.prefix)
    election = EtcdElection(client, keys, candidate, lease)
    registry = EtcdRegistry(client, keys, candidate.name)
    return Storage(EtcdStore(client, keys, election, str(location)), election, registry, client.close)


def _tls_sessions(location: EtcdLocation, pem: PemMaterial | None) -> Callable[[str], TlsSession]:
    if pem is None:
        raise Rejected(f"'{location}' needs certificates: a CA certificate, and a certificate and key of this server")
    context = client_context(pem)
    return lambda host: TlsSession(context, server_name=host)
