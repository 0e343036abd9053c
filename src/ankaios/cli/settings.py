"""Where the server is and how to talk to it: global options over environment over file over default.

In come the global values of the command line; out goes `Settings`, or `CliError` / `BadEnvironment`. Owns nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ankaios.cli.output import CliError, Output
from ankaios.common.config import (
    PEM_WINS_WARNING,
    BadPemFile,
    PemMaterial,
    choose,
    load_config_file,
    load_pem_material,
    require_security,
)
from ankaios.common.errors import StartupFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ankaios.common.config import GivenPem

DEFAULT_SERVER_URL = "https://127.0.0.1:25551"
DEFAULT_TIMEOUT_MS = 3000
SYSTEM_CONFIG_FILE = "/etc/ankaios/ank.conf"
_SECURITY_HINT = (
    "'ank -k …' talks to a server without TLS, as that of 'ank up'; 'ank certs create DIR' makes certificates"
)
PEM_HINT = "'ank certs create DIR' makes files that fit together and have the right modes"


class Settings:
    """`security()` is asked only when a connection is wanted: `ank schema` needs no certificates."""

    def __init__(
        self,
        *,
        server_url: str = DEFAULT_SERVER_URL,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        no_wait: bool = False,
        insecure: bool = False,
        given_pem: GivenPem | None = None,
    ) -> None:
        self.server_url = server_url
        self.timeout_ms = timeout_ms
        self.no_wait = no_wait
        self.insecure = insecure
        self.given_pem = given_pem

    @property
    def timeout(self) -> float:
        return self.timeout_ms / 1000

    def security(self, output: Output) -> PemMaterial | None:
        """The three PEM items, or None for the spoken word "insecure"."""
        from ankaios.common.config import GivenPem

        given = self.given_pem or GivenPem()
        try:
            material = require_security(given, self.insecure)
        except StartupFailed as fault:
            raise CliError(f"{fault.context}: {fault.reason}", _SECURITY_HINT) from fault
        if material and self.insecure:
            output.warn(PEM_WINS_WARNING)
        return material


def load_settings(values: Mapping[str, Any], output: Output, environ: Mapping[str, str] | None = None) -> Settings:
    """Also tells `output` how much it may say."""
    environ = os.environ if environ is None else environ
    try:
        given = values.get("ank_config")
        defaults = [] if given else _default_files(environ, output)
        file = load_config_file(given, defaults, default_table=True)
        output.quiet = choose(values.get("quiet"), None, file, "quiet", default=False)
        output.verbose = choose(values.get("verbose"), None, file, "verbose", default=False)
        return Settings(
            server_url=choose(
                values.get("server_url"), "ANK_SERVER_URL", file, "server_url", DEFAULT_SERVER_URL, environ=environ
            ),
            timeout_ms=choose(values.get("response_timeout"), None, file, "response_timeout", DEFAULT_TIMEOUT_MS),
            no_wait=choose(values.get("no_wait"), None, file, "no_wait", default=False),
            insecure=choose(values.get("insecure"), "ANK_INSECURE", file, "insecure", default=False, environ=environ),
            given_pem=load_pem_material(values, "ANK", file, environ=environ),
        )
    except BadPemFile as fault:
        raise CliError(f"Certificate error: '{fault.reason}'", _advice_behind(fault) or PEM_HINT) from fault
    except StartupFailed as fault:
        raise CliError(str(fault), _advice_behind(fault)) from fault


def _advice_behind(fault: BaseException) -> str:
    """About a file that is not there."""
    from ankaios.cli.input_file import advice

    cause = fault.__cause__
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    return advice(cause) if isinstance(cause, FileNotFoundError) else ""


def _default_files(environ: Mapping[str, str], output: Output) -> list[str]:
    home = environ.get("HOME")
    if not home:
        output.warn(f"HOME is not set: only the system configuration '{SYSTEM_CONFIG_FILE}' is looked for.")
        return [SYSTEM_CONFIG_FILE]
    return [f"{home}/.config/ankaios/ank.conf", SYSTEM_CONFIG_FILE]
