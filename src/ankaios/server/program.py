"""Everything of `ank-server` after it listens: reads its settings, sets up logging, runs."""

import asyncio
import socket
from collections.abc import Sequence

from ankaios.common.errors import StartupFailed
from ankaios.common.log import log_startup_error, setup_logging
from ankaios.server.settings import ServerSettings, read_server_settings


def run(arguments: Sequence[str] | None, early: tuple[socket.socket, str] | None) -> int:
    """`early` is a socket that listens already, with its address. Returns the exit code."""
    setup_logging()
    try:
        settings = read_server_settings(arguments)
        setup_logging(log_format=settings.log_format)
        from ankaios.server.shell import serve  # not needed to print a version or a usage error

        asyncio.run(serve(settings, _listener(settings, early)))
    except StartupFailed as fault:
        log_startup_error(fault)
        return 1
    return 0


def _listener(settings: ServerSettings, early: tuple[socket.socket, str] | None) -> socket.socket | None:
    """The settings decide, unless systemd has passed a socket."""
    if early is None:
        return None
    listener, address = early
    if address in ("", str(settings.address)):
        return listener
    listener.close()
    return None
