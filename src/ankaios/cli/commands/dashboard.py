"""`ank dashboard`: serves web pages that show the cluster, until it is interrupted."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.terminal.output import CliError
from ankaios.common.config import PemMaterial, load_pem_material
from ankaios.common.errors import Rejected
from ankaios.common.observation_settings import parse_metrics_address
from ankaios.middleware.connecting import ConnectionSettings, address_of

DEFAULT_LISTEN = "127.0.0.1:8080"
TOKEN_VARIABLE = "ANK_DASHBOARD_TOKEN"
EXTRA_HINT = "install it with: pip install 'ankaios[dashboard]'"


def run(call: CommandCall) -> None:
    try:
        from ankaios.dashboard.program import DashboardSettings, serve_dashboard
    except ImportError as error:
        raise CliError(f"The dashboard needs the Python package '{error.name}'", EXTRA_HINT) from error
    connection = ConnectionSettings(call.settings.server_url, call.settings.security(call.output))
    address_of(connection.shown_url)  # a wrong address is an error now, not a page without connection
    host, port = _listen_address(call.values["listen"] or DEFAULT_LISTEN)
    settings = DashboardSettings(
        connection=connection,
        host=host,
        port=port,
        allow_changes=bool(call.values["allow_changes"]),
        token=_token(call.values["token_file"]),
        tls=_tls(call),
    )

    def ready(url: str) -> None:
        call.output.line(f"Dashboard: {url}")
        if call.values["open"]:
            _open(url)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError):
            await serve_dashboard(settings, ready)

    asyncio.run(main())


def _listen_address(text: str) -> tuple[str, int]:
    try:
        return parse_metrics_address(text)
    except ValueError as error:
        raise Rejected(f"invalid value '{text}' for '--listen': {error}") from error


def _token(file: str | None) -> str:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "")
    path = Path(file)
    if path.stat().st_mode & 0o077:
        raise Rejected(f"others can read the token in '{file}': its mode must be 0600")
    return path.read_text(encoding="ascii", errors="replace").strip()


def _tls(call: CommandCall) -> PemMaterial | None:
    given = {"crt_pem": call.values["tls_crt"], "key_pem": call.values["tls_key"]}
    if not any(given.values()):
        return None
    found, ca = load_pem_material(given, "", {}, environ={}), call.settings.given_pem.ca
    if found.crt is None or found.key is None or ca is None:
        raise Rejected(
            "https needs all of '--tls-crt', '--tls-key', and '--ca_pem' of 'ank' for the browsers' certificates"
        )
    return PemMaterial(ca, found.crt, found.key)


def _open(url: str) -> None:
    import webbrowser

    webbrowser.open(url)
