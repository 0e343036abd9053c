"""Which words stand before the reason when a command fails. Reasons come in as `CommandFailed`, out goes `CliError`."""

from __future__ import annotations

from contextlib import contextmanager

from ankaios.cli.connection import CommandFailed
from ankaios.cli.output import CliError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def told_as(prefix: str = "") -> Iterator[None]:
    """`<prefix>: 'Command failed: '<reason>''`, without prefix just the inner text."""
    try:
        yield
    except CommandFailed as fault:
        raise CliError(f"{prefix}: '{fault.text}'" if prefix else fault.text, fault.hint) from fault


def execution_error(fault: CommandFailed) -> str:
    """The reason as two commands have always wrapped it: in a notation meant for developers."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return 'ExecutionError("' + "".join(escapes.get(char, char) for char in str(fault)) + '")'
