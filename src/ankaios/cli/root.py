"""The word `ank` itself: its global options, and its commands, each loaded only when it is named or listed."""

from __future__ import annotations

from ankaios.cli.arguments import Command, Option
from ankaios.cli.commands import COMMAND_MODULES, load_command

_DETAILS = """\
Exit codes:
  0    done (also if a started workload failed later)
  1    failed, the reason is on standard error
  2    wrong usage
  141  the reader of the output went away

Configuration file:
  ~/.config/ankaios/ank.conf, else /etc/ankaios/ank.conf; command line, then environment, then file

Shell completion:
  source <(COMPLETE=bash ank)    also: zsh, fish, elvish, powershell"""


def milliseconds(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("invalid digit found in string" if text else "cannot parse integer from empty string")
    if int(text) >= 2**64:
        raise ValueError("number too large to fit in target type")
    return int(text)


OPTIONS = (
    Option("ank_config", "Configuration file", short="x", long="ank-config", value="PATH", complete="files"),
    Option(
        "server_url",
        "Where the server is, default https://127.0.0.1:25551",
        short="s",
        long="server-url",
        value="URL",
        env="ANK_SERVER_URL",
    ),
    Option(
        "response_timeout",
        "How long to wait for an answer in milliseconds, default 3000",
        long="response-timeout",
        value="MS",
        convert=milliseconds,
    ),
    Option("verbose", "Say what is going on", short="v", long="verbose"),
    Option("quiet", "Say nothing but results, warnings and errors", short="q", long="quiet"),
    Option("no_wait", "Do not wait for workloads to be created or deleted", long="no-wait"),
    Option("insecure", "Talk to the server without TLS", short="k", long="insecure", env="ANK_INSECURE"),
    Option("ca_pem", "Certificate authority", long="ca_pem", value="PATH", env="ANK_CA_PEM", complete="files"),
    Option("crt_pem", "Certificate of this client", long="crt_pem", value="PATH", env="ANK_CRT_PEM", complete="files"),
    Option("key_pem", "Private key of this client", long="key_pem", value="PATH", env="ANK_KEY_PEM", complete="files"),
    Option("version", "Print the version", short="V", long="version"),
)


class RootCommand(Command):
    """Like any other command, but its children are modules that are imported on demand."""

    def __init__(self) -> None:
        super().__init__(
            "ank",
            "Command line of Ankaios: see and change the workloads of a cluster.",
            options=OPTIONS,
            details=_DETAILS,
            examples=(
                ("ank up web.yaml", "try it: run a cluster in this terminal, with what a manifest describes"),
                ("ank -k apply web.yaml", "start what a manifest describes on an insecure local server"),
                ("ank get workloads", "see how all workloads are doing"),
                ("ank logs -f web", "follow the output of a workload"),
            ),
        )

    @property
    def is_group(self) -> bool:
        return True

    def children(self) -> tuple[Command, ...]:
        return tuple(map(load_command, COMMAND_MODULES))

    def child(self, word: str) -> Command | None:
        return load_command(word) if word in COMMAND_MODULES else None

    def child_names(self) -> list[str]:
        return list(COMMAND_MODULES)
