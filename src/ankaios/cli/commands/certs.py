"""`ank certs create`: creates all certificates for mutual TLS."""

from pathlib import Path

from ankaios.cli.certificates import create_certificates
from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.terminal.output import CliError


def run(call: CommandCall) -> None:
    folder, agents = Path(call.values["folder"]), list(call.values["agent"])
    try:
        created = create_certificates(folder, agents, call.values["algorithm"], call.values["days"])
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        hint = "name a folder" if is_file else "make it writable for your user, or name another folder"
        raise CliError(f"cannot write to '{folder}': {error.strerror}", hint) from error
    for path in created:
        call.output.line(str(path))
    call.output.progress(_next_steps(folder, agents) if created else f"'{folder}' has everything already.")


def _next_steps(folder: Path, agents: list[str]) -> str:
    agent = agents[0] if agents else "NAME"
    stem = f"agent-{agent}" if agents else "agent"

    def with_pem(program: str, stem: str) -> str:
        return f"  {program} --ca_pem {folder}/ca.pem --crt_pem {folder}/{stem}.pem --key_pem {folder}/{stem}-key.pem"

    return "\n".join(
        [
            "",
            "Use them like this:",
            with_pem("ank-server", "server"),
            with_pem(f"ank-agent --name {agent}", stem),
            with_pem("ank", "cli") + " get workloads",
        ]
    )
