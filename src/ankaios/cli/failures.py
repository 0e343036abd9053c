"""Which words stand before the reason when a command fails. Reasons come in as `CommandFailed`, out goes `CliError`."""

from __future__ import annotations

from ankaios.cli.connection import CommandFailed
from ankaios.cli.output import CliError


class told_as:  # noqa: N801  # reads as `with told_as("Failed to get agents"):`
    """`<prefix>: 'Command failed: '<reason>''`, without prefix just the inner text."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, fault: BaseException | None, _trace: object) -> None:
        if isinstance(fault, CommandFailed):
            raise CliError(f"{self._prefix}: '{fault.text}'" if self._prefix else fault.text, fault.hint) from fault


def execution_error(fault: CommandFailed) -> str:
    """The reason as two commands have always wrapped it: in a notation meant for developers."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return 'ExecutionError("' + "".join(escapes.get(char, char) for char in str(fault)) + '")'
