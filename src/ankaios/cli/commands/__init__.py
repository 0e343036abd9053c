"""All commands of `ank`, by name. This is the place to register one.

A command is a module in this package with a constant `COMMAND`: its words, summary, group, examples, and as
"module:function" what it runs (see `ankaios.cli.arguments.Command`). Declarations import nothing heavy, so that help
and completion stay fast; what a command needs is imported when it runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from ankaios.cli.arguments import Command

LOOK = "Look at the cluster"
CHANGE = "Change the cluster"
TOOLS = "Tools"

COMMAND_MODULES = {
    "get": "ankaios.cli.commands.get",
    "describe": "ankaios.cli.commands.describe",
    "logs": "ankaios.cli.commands.logs",
    "apply": "ankaios.cli.commands.apply",
    "run": "ankaios.cli.commands.run",
    "set": "ankaios.cli.commands.set",
    "delete": "ankaios.cli.commands.delete",
    "up": "ankaios.cli.commands.up",
    "validate": "ankaios.cli.commands.validate",
    "doctor": "ankaios.cli.commands.doctor",
    "certs": "ankaios.cli.commands.certs",
    "schema": "ankaios.cli.commands.schema",
}
"""In the order of the help text."""


def load_command(name: str) -> Command:
    command: Command = load_module(COMMAND_MODULES[name]).COMMAND
    return command


def load_module(name: str) -> ModuleType:
    """What `importlib` would do, which is a package to be loaded itself."""
    __import__(name)
    return sys.modules[name]
