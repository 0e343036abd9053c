"""Opens the session of a command and translates connection errors into the texts for the user.

with open_session(call, "Failed to get agents") as session:
    state = session.complete_state("agents")
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.session import RequestFailed, Session, SessionLost
from ankaios.cli.settings import PEM_HINT
from ankaios.cli.terminal.output import CliError
from ankaios.common.config import BadPemFile
from ankaios.common.local_user import local_user_name
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.connecting import (
    AccessRefused,
    BadUrl,
    CannotConnect,
    ConnectionSettings,
    VersionRefused,
)
from ankaios.middleware.methods import Method

_URL_HINT = "an address looks like https://127.0.0.1:25551, or with '-k' http://127.0.0.1:25551"
_CERTIFICATE_ADVICE = "; server, agents and 'ank' need valid files of one 'ank certs create'"
_ADVICE = {
    "the server does not use TLS": "; use 'ank -k' without certificate files",
    "the server rejected the certificate": _CERTIFICATE_ADVICE,
    "the certificate of the server": _CERTIFICATE_ADVICE,
    "cannot find host": "; check the address in '--server-url' or ANK_SERVER_URL",
}


@contextmanager
def open_session(call: CommandCall, error_prefix: str = "") -> Iterator[Session]:
    """Connect, run the block, and disconnect. A failed request becomes `<prefix>: 'Command failed: '<reason>''`."""
    settings = ConnectionSettings(call.settings.server_url, call.settings.security(call.output))
    url = settings.shown_url
    call.output.debug(f"Connecting to '{url}'")
    try:
        with connect_blocking(settings, Method.CLI, commander_hello()) as connection:
            _resume_garbage_collection()
            # While the reader of our output is slow, the connection still answers the pings of the server.
            call.output.wait_writable = connection.wait_writable
            yield Session(connection, call.settings.timeout_ms)
    except RequestFailed as error:
        raise CliError(f"{error_prefix}: '{error.text}'" if error_prefix else error.text, error.hint) from error
    except BadUrl as error:
        raise CliError(f"Cannot connect to server: '{error}'", _URL_HINT) from error
    except BadPemFile as error:
        raise CliError(f"Certificate error: '{error.reason}'", PEM_HINT) from error
    except VersionRefused as error:
        raise CliError(str(error)) from error
    except CannotConnect as error:
        raise CliError(str(error), _connect_hint(url, error.reason)) from error
    except AccessRefused as error:
        raise CliError(f"Could not connect to Ankaios server on '{url}'.", str(error)) from error
    finally:
        call.output.wait_writable = None


def follow_servers(call: CommandCall, error_prefix: str, work: Callable[[Session, float | None], None]) -> None:
    """Run work that lasts, and run it again with the next server if the connection is lost and there are several.

    The work gets the session, and the time at which the previous connection was lost.
    """
    lost_at: float | None = None
    while True:
        with open_session(call, error_prefix) as session:
            try:
                work(session, lost_at)
                session.goodbye()
                return
            except SessionLost:
                if not session.can_follow:
                    raise
        lost_at = time.time()
        call.output.hint("the connection was lost; another server continues, what happened in between is not shown")


def commander_hello() -> grpc.ToServer:
    return grpc.ToServer(commanderHello=grpc.CommanderHello(protocolVersion=PROTOCOL_VERSION, user=local_user_name()))


def _resume_garbage_collection() -> None:
    """The loaded modules stay in memory, so collections need not inspect them."""
    gc.freeze()
    gc.enable()


def _connect_hint(url: str, reason: str) -> str:
    if "Connection refused" not in reason:
        return reason + next((advice for start, advice in _ADVICE.items() if reason.startswith(start)), "")
    started = "'ank up' or 'ank-server --insecure'" if url.startswith("http:") else "'ank-server' and its certificates"
    return f"no server listens there: start one with {started}, or name yours with '--server-url' or ANK_SERVER_URL"
