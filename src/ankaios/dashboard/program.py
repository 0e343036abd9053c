"""Runs the dashboard: listens, follows the server, and ends on request.

Input: settings. Output: the address of the pages. Owns the tasks.
"""

import logging
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from msgspec import Struct

from ankaios.common.config import PemMaterial
from ankaios.common.errors import Rejected
from ankaios.common.supervision import Supervisor
from ankaios.dashboard.live_cluster import LiveCluster
from ankaios.dashboard.security import AccessRules, is_loopback, own_names
from ankaios.dashboard.web import make_app
from ankaios.middleware.connecting import ConnectionSettings

MIN_TOKEN_LENGTH = 16
CLOSE_SECONDS = 1

log = logging.getLogger(__name__)


class DashboardSettings(Struct, frozen=True):
    """`tls`: browsers need a certificate of its authority. `token`: browsers need this token."""

    connection: ConnectionSettings
    host: str
    port: int
    allow_changes: bool = False
    token: str = ""
    tls: PemMaterial | None = None


def _check_access(settings: DashboardSettings) -> None:
    """Raises `Rejected` if an address that others can reach would be open without a token or certificate."""
    if settings.token and len(settings.token) < MIN_TOKEN_LENGTH:
        raise Rejected(f"the token is shorter than {MIN_TOKEN_LENGTH} characters")
    if not is_loopback(settings.host) and not settings.token and settings.tls is None:
        raise Rejected(
            f"'{settings.host}' can be reached by others: give '--token-file', or '--tls-crt' and '--tls-key', "
            "or listen on 127.0.0.1"
        )


async def serve_dashboard(settings: DashboardSettings, ready: Callable[[str], None]) -> None:
    """Until it is cancelled. `ready` is called with the address once it listens."""
    _check_access(settings)
    listening = _listen(settings)
    port: int = listening.getsockname()[1]
    rules = AccessRules(
        port=port,
        access_token=settings.token,
        change_token=secrets.token_urlsafe(32),
        allow_changes=settings.allow_changes,
        hosts=(settings.host, *own_names()),
    )
    live = LiveCluster(settings.connection)
    server = _Server(_uvicorn_config(settings, make_app(live, rules)))
    async with Supervisor() as tasks:
        tasks.keep_running("the connection of the dashboard", live.client.run)
        tasks.keep_running("the resource usage of the dashboard", live.measure)
        serving = tasks.run_once("the web server of the dashboard", lambda: server.serve([listening]))
        ready(_url(settings, port))
        try:
            await serving
        finally:
            server.should_exit = server.force_exit = True
            listening.close()


def _listen(settings: DashboardSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol number, asyncio sets TCP_NODELAY: the events of a page are not delayed.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise Rejected(f"cannot listen on '{settings.host}:{settings.port}': {reason}") from error
    listening.listen(128)
    listening.setblocking(False)
    return listening


def _url(settings: DashboardSettings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    token = f"?token={settings.token}" if settings.token else ""
    return f"{'http' if settings.tls is None else 'https'}://{host}:{port}/{token}"


class _Server(uvicorn.Server):
    """The program handles signals itself."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _uvicorn_config(settings: DashboardSettings, app: Any) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http="h11",
        server_header=False,
        limit_concurrency=500,
        timeout_graceful_shutdown=CLOSE_SECONDS,
        h11_max_incomplete_event_size=64 * 1024,
    )
    config.load()
    if settings.tls is not None:
        config.ssl = _tls_context(settings.tls)
    return config


def _tls_context(pem: PemMaterial) -> ssl.SSLContext:
    """Browsers must show a certificate of the authority."""
    import tempfile

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=pem.ca.text)
    with tempfile.TemporaryDirectory() as folder:  # the ssl module reads private keys only from files
        path = Path(folder) / "pem"
        path.touch(mode=0o600)
        path.write_text(f"{pem.crt.text}\n{pem.key.text}")
        context.load_cert_chain(path)
    return context
