"""Runs a server whose state is stored.

Input: settings. Output: a running server until it is asked to end. A server with its own store begins to listen when
its state is loaded. Servers that share a store listen from the beginning, and reject calls until they lead.
"""

import asyncio
import os
import socket

from ankaios.common.config import PemMaterial, require_security
from ankaios.common.errors import Rejected, StartupFailed
from ankaios.common.state_manipulation import Form
from ankaios.server.settings import STORAGE_CONTEXT, ServerSettings, StartupPolicy, StorageSettings
from ankaios.server.shell import finished_before, new_shell, security
from ankaios.server.startup_state_loader import load_startup_state
from ankaios.server.state_leader import StartState, StateLeader
from ankaios.storage.leader_election import Candidate, SoleElection
from ankaios.storage.storage import Storage
from ankaios.storage.storage_url import EtcdLocation, SqliteLocation

_ANY_ADDRESS = ("0.0.0.0", "::")


async def serve_durably(
    settings: ServerSettings, stopped: asyncio.Event, listener: socket.socket | None = None
) -> None:
    """Raises `StartupFailed` if it cannot begin."""
    pem = security(settings)
    applies_always = settings.startup_policy is StartupPolicy.ALWAYS
    start = StartState(_manifest_of(settings), applies_always, settings.accept_loss)
    candidate = _candidate(settings, pem is not None)
    storage = _make_storage(settings.storage, candidate, pem)
    shell = new_shell(settings, pem)
    leader = StateLeader(shell, storage, settings.hooks, start, candidate)
    try:
        if leader.is_shared:
            leader.stand_by()
        elif not await finished_before(stopped, leader.begin()):
            return
        await shell.listen(settings, listener)
        await shell.run_until(stopped, leader.run)
    finally:
        await leader.close()


def _manifest_of(settings: ServerSettings) -> Form | StartupFailed | None:
    """With a store, an unreadable manifest is a reason not to start only if nothing is stored."""
    if settings.startup_manifest is None:
        return None
    try:
        return load_startup_state(settings.startup_manifest)
    except StartupFailed as fault:
        return fault


def _candidate(settings: ServerSettings, uses_tls: bool) -> Candidate:
    name = settings.name or f"{socket.gethostname()}:{settings.address.port}"
    return Candidate(name, settings.url or _own_url(settings, uses_tls))


def _make_storage(storage: StorageSettings, candidate: Candidate, pem: PemMaterial | None) -> Storage:
    """The modules of a store are imported only if it is used."""
    if isinstance(storage.location, SqliteLocation):
        from ankaios.storage.sqlite.sqlite_store import SqliteStore

        return Storage(SqliteStore(storage.location.path), SoleElection())
    assert storage.location is not None, "a server without a store is served by `shell.serve`"
    return _make_etcd_storage(storage, storage.location, candidate, pem)


def _make_etcd_storage(
    storage: StorageSettings, location: EtcdLocation, candidate: Candidate, pem: PemMaterial | None
) -> Storage:
    """The certificate for etcd is that of the server, unless there are files for etcd."""
    from ankaios.storage.etcd.credentials import read_etcd_credentials
    from ankaios.storage.etcd.etcd_storage import make_etcd_storage

    if location.uses_tls and any(storage.pem):
        pem = require_security(storage.pem, insecure=False)
    try:
        credentials = read_etcd_credentials(storage.credentials, os.environ)
        return make_etcd_storage(location, candidate, pem, credentials, storage.lease)
    except Rejected as fault:
        raise StartupFailed(STORAGE_CONTEXT, str(fault)) from fault


def _own_url(settings: ServerSettings, uses_tls: bool) -> str:
    host = socket.gethostname() if settings.address.host in _ANY_ADDRESS else settings.address.host
    shown = f"[{host}]" if ":" in host else host
    return f"http{'s' if uses_tls else ''}://{shown}:{settings.address.port}"
