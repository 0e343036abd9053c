"""Connection settings: global options before environment variables before the configuration file before defaults.

Input: the global values of the command line. Output: `CliSettings`, or `CliError` or `BadEnvironment`.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from ankaios.cli.terminal.output import CliError, CliOutput
from ankaios.common.config import (
    PEM_WINS_WARNING,
    BadPemFile,
    GivenPem,
    PemMaterial,
    choose,
    load_config_file,
    load_pem_material,
    require_security,
)
from ankaios.common.errors import StartupFailed

DEFAULT_SERVER_URL = "https://127.0.0.1:25551"
DEFAULT_TIMEOUT_MS = 3000
SYSTEM_CONFIG_FILE = "/etc/ankaios/ank.conf"
PEM_HINT = "'ank certs create DIR' makes files that fit together and have the right modes"
_SECURITY_HINT = (
    "'ank -k …' connects to a server without TLS, such as that of 'ank up'; 'ank certs create DIR' makes certificates"
)


class CliSettings(NamedTuple):
    server_url: str = DEFAULT_SERVER_URL
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    no_wait: bool = False
    insecure: bool = False
    given_pem: GivenPem = GivenPem()

    def security(self, output: CliOutput) -> "PemMaterial | None":
        """The PEM items for mutual TLS, or None for an insecure connection. Called only before connecting."""
        try:
            material = require_security(self.given_pem, self.insecure)
        except StartupFailed as error:
            raise CliError(f"{error.context}: {error.reason}", _SECURITY_HINT) from error
        if material and self.insecure:
            output.warn(PEM_WINS_WARNING)
        return material


def load_settings(
    values: Mapping[str, Any], output: CliOutput, environ: Mapping[str, str] | None = None
) -> CliSettings:
    """Load the settings and set `quiet` and `verbose` of the output."""
    environ = os.environ if environ is None else environ
    try:
        given = values.get("ank_config")
        defaults = [] if given else _default_files(environ, output)
        file = load_config_file(given, defaults, default_table=True)

        def chosen(name: str, default: Any, variable: str | None = None) -> Any:
            return choose(values.get(name), variable, file, name, default, environ=environ)

        output.quiet = chosen("quiet", False)
        output.verbose = chosen("verbose", False)
        return CliSettings(
            server_url=chosen("server_url", DEFAULT_SERVER_URL, "ANK_SERVER_URL"),
            timeout_ms=chosen("response_timeout", DEFAULT_TIMEOUT_MS),
            no_wait=chosen("no_wait", False),
            insecure=chosen("insecure", False, "ANK_INSECURE"),
            given_pem=load_pem_material(values, "ANK", file, environ=environ),
        )
    except BadPemFile as error:
        raise CliError(f"Certificate error: '{error.reason}'", _missing_file_advice(error) or PEM_HINT) from error
    except StartupFailed as error:
        raise CliError(str(error), _missing_file_advice(error)) from error


def _missing_file_advice(error: BaseException) -> str:
    from ankaios.cli.input_file import advice

    cause = error.__cause__
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    return advice(cause) if isinstance(cause, FileNotFoundError) else ""


def _default_files(environ: Mapping[str, str], output: CliOutput) -> list[str]:
    home = environ.get("HOME")
    if not home:
        output.warn(f"HOME is not set: only the system configuration '{SYSTEM_CONFIG_FILE}' is looked for.")
        return [SYSTEM_CONFIG_FILE]
    return [f"{home}/.config/ankaios/ank.conf", SYSTEM_CONFIG_FILE]
