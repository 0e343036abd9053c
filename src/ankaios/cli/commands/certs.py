"""`ank certs create`: everything mutual TLS needs, in one command."""

from __future__ import annotations

from ankaios.cli.arguments import Call, Command, Option, Positional
from ankaios.cli.commands import TOOLS

_EXAMPLES = (
    ("ank certs create ./certs --agent front --agent rear", "for a server, two agents and the command line"),
    ("ank certs create ./certs", "one certificate that any agent may use"),
)

_MOST_DAYS = 36_500


def days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= _MOST_DAYS:
        raise ValueError(f"expected a whole number from 1 to {_MOST_DAYS}")
    return int(text)


COMMAND = Command(
    "certs",
    "Make certificates for mutual TLS",
    group=TOOLS,
    bare_help=True,
    examples=_EXAMPLES[:1],
    children=(
        Command(
            "create",
            "Make a certificate authority and certificates for server, agents and command line",
            options=(
                Option(
                    "agents",
                    "Name of an agent, may be given several times; without it one certificate serves any agent",
                    long="agent",
                    value="NAME",
                    repeat=True,
                ),
                Option(
                    "algorithm",
                    "Kind of keys, default ed25519",
                    long="algorithm",
                    value="KIND",
                    choices=("ed25519", "ecdsa", "rsa"),
                    default="ed25519",
                ),
                Option(
                    "days",
                    "How long they are valid, default 825",
                    long="days",
                    value="N",
                    convert=days,
                    default=825,
                    negative=True,
                ),
            ),
            positionals=(Positional("folder", "Where the files go", label="DIR", complete="files"),),
            details=(
                "What is there already is kept, so agents can be added later. Keep 'ca-key.pem' away from the nodes: "
                "whoever has it can make certificates that the server trusts."
            ),
            examples=_EXAMPLES,
            offline=True,
            run="ankaios.cli.commands.certs:run",
        ),
    ),
)


def run(call: Call) -> int:
    from pathlib import Path

    from ankaios.cli.certificates import create
    from ankaios.cli.output import CliError
    from ankaios.common.errors import AnkaiosError

    folder, agents = Path(call.values["folder"]), list(call.values["agents"])
    try:
        made = create(folder, agents, call.values["algorithm"], call.values["days"])
    except AnkaiosError as fault:
        raise CliError(str(fault)) from fault
    except OSError as fault:
        taken = isinstance(fault, FileExistsError | NotADirectoryError)
        hint = "name a folder" if taken else "make it writable for your user, or name another folder"
        raise CliError(f"cannot write to '{folder}': {fault.strerror}", hint) from fault
    for path in made:
        call.output.line(str(path))
    call.output.progress(_next_steps(folder, agents) if made else f"'{folder}' has everything already.")
    return 0


def _next_steps(folder: object, agents: list[str]) -> str:
    agent = agents[0] if agents else "NAME"
    stem = f"agent-{agent}" if agents else "agent"

    def pem(program: str, own: str) -> str:
        return f"  {program} --ca_pem {folder}/ca.pem --crt_pem {folder}/{own}.pem --key_pem {folder}/{own}-key.pem"

    return "\n".join(
        [
            "",
            "Use them like this:",
            pem("ank-server", "server"),
            pem(f"ank-agent --name {agent}", stem),
            pem("ank", "cli") + " get workloads",
        ]
    )
