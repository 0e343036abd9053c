"""Runs a server whose state is stored.

Input: settings. Output: a running server until it is asked to end. A server with its own store begins to listen when
its state is loaded. Servers that share a store listen from the beginning, and reject calls until they lead.
"""

import asyncio
import os
import socket
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ankaios.common.config import PemMaterial, require_security
from ankaios.common.errors import Rejected, StartupFailed
from ankaios.server.settings import STORAGE_CONTEXT, ServerSettings, StartupPolicy, StorageSettings
from ankaios.server.shell import ServerShell, finished_before, new_shell, security
from ankaios.server.startup_state_loader import Form, load_startup_state
from ankaios.server.state_leader import StartState, StateLeader
from ankaios.storage.leader_election import Candidate
from ankaios.storage.open_storage import Storage, open_storage
from ankaios.storage.storage_url import EtcdLocation

if TYPE_CHECKING:
    from ankaios.storage.etcd.etcd_members import EtcdCredentials

_ANY_ADDRESS = ("0.0.0.0", "::")


async def serve_durably(
    settings: ServerSettings, stopped: asyncio.Event, listener: socket.socket | None = None
) -> None:
    """Raises `StartupFailed` if it cannot begin."""
    pem = security(settings)
    applies_always = settings.startup_policy is StartupPolicy.ALWAYS
    start = StartState(_manifest_of(settings), applies_always, settings.accept_loss)
    candidate = _candidate(settings, pem is not None)
    storage = _open_storage(settings, candidate, pem)
    is_shared = isinstance(settings.storage.location, EtcdLocation)
    shell = new_shell(settings, pem)
    if settings.metrics is not None:
        storage = _measured(storage, shell)
    leader = StateLeader(shell, storage, settings.hooks, start, candidate, is_shared=is_shared)
    try:
        if is_shared:
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


def _open_storage(settings: ServerSettings, candidate: Candidate, pem: PemMaterial | None) -> Storage:
    storage = settings.storage
    try:
        return open_storage(storage.location, candidate, _etcd_pem(storage, pem), _credentials(storage), storage.lease)
    except Rejected as fault:
        raise StartupFailed(STORAGE_CONTEXT, str(fault)) from fault


def _measured(storage: Storage, shell: ServerShell) -> Storage:
    from ankaios.server.measured_store import MeasuredStore  # not needed by a server without metrics

    return replace(storage, store=MeasuredStore(storage.store, shell.metrics))


def _own_url(settings: ServerSettings, uses_tls: bool) -> str:
    host = socket.gethostname() if settings.address.host in _ANY_ADDRESS else settings.address.host
    shown = f"[{host}]" if ":" in host else host
    return f"http{'s' if uses_tls else ''}://{shown}:{settings.address.port}"


def _etcd_pem(storage: StorageSettings, pem: PemMaterial | None) -> PemMaterial | None:
    """Files for etcd, or those of the server."""
    if not isinstance(storage.location, EtcdLocation) or not storage.location.uses_tls:
        return None
    return require_security(storage.pem, insecure=False) if any(storage.pem) else pem


def _credentials(storage: StorageSettings) -> "EtcdCredentials | None":
    if not isinstance(storage.location, EtcdLocation):
        return None
    from ankaios.storage.etcd.credentials import read_etcd_credentials

    return read_etcd_credentials(storage.credentials, os.environ)
