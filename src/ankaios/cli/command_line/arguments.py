"""Declarations of the command line: commands, options, positional arguments, and the results of parsing.

`ankaios.cli.tree` declares all commands with these classes. The parser, the help texts, the shell completion and
docs/reference/cli.md are derived from the declarations.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ankaios.cli.settings import CliSettings
    from ankaios.cli.terminal.output import CliOutput

Convert = Callable[[str], Any]
"""Converts the text of an argument. Raises ValueError with the reason if the text is invalid."""


class Option(NamedTuple):
    """An option, spelled as in the help text: `-a, --agent <AGENT_NAME>`. Without `<...>` it is a switch.

    `key` is the name of its value, by default the long flag. `complete` is the kind of values that the shell completion
    offers: `agents`, `workloads`, `files` and so on. `negative` options accept a negative number as their value.
    """

    spelling: str
    summary: str
    key: str = ""
    choices: tuple[str, ...] = ()
    convert: Convert | None = None
    default: Any = None
    required: bool = False
    repeat: bool = False
    negative: bool = False
    env: str = ""
    complete: str = ""

    @property
    def flags(self) -> list[str]:
        return self.spelling.partition(" <")[0].split(", ")

    @property
    def value(self) -> str:
        """The placeholder of the value; empty for a switch."""
        return self.spelling.partition(" <")[2].removesuffix(">")

    @property
    def name(self) -> str:
        return self.key or self.flags[-1].lstrip("-").replace("-", "_")

    @property
    def display(self) -> str:
        """The form in usage errors: `--agent <AGENT_NAME>`."""
        return f"{self.flags[-1]} <{self.value}>" if self.value else self.flags[-1]


class Positional(NamedTuple):
    """A positional argument, displayed as in the usage line: `<X>` is required, `[X]` is not, `...` takes several."""

    name: str
    display: str
    summary: str
    convert: Convert | None = None
    complete: str = ""

    @property
    def required(self) -> bool:
        return self.display.startswith("<")

    @property
    def many(self) -> bool:
        return self.display.endswith("...")


class Command(NamedTuple):
    """One word of the command line. It has `children`, or a function in `ankaios.cli.commands`, or both.

    The function takes a `CommandCall` and returns the exit code; None means 0. `function` is "module:function", by
    default the function `run` of the module that is named as the command, such as `get_state`. An `offline` command
    does not connect to a server, so it ignores connection settings that are invalid. `bare_help` prints the help if no
    argument is given.
    """

    name: str
    summary: str
    function: str = ""
    group: str = ""
    aliases: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    positionals: tuple[Positional, ...] = ()
    children: tuple[Any, ...] = ()  # of commands; the first forward reference would take 2 ms at import
    details: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    bare_help: bool = False
    offline: bool = False

    @property
    def is_group(self) -> bool:
        return bool(self.children)

    @property
    def shown_examples(self) -> tuple[tuple[str, str], ...]:
        """A group without examples shows the first one of its first child."""
        return self.examples or (self.children[0].examples[:1] if self.children else ())

    def child(self, word: str) -> "Command | None":
        return next((child for child in self.children if word == child.name or word in child.aliases), None)

    def child_names(self) -> list[str]:
        return [word for child in self.children for word in (child.name, *child.aliases)]


CommandPath = tuple[Command, ...]
"""The chosen command, after the commands that contain it."""


def function_of(path: CommandPath) -> str:
    return path[-1].function or f"{'_'.join(command.name for command in path[1:])}:run"


class ParsedCommandLine(NamedTuple):
    path: CommandPath
    values: dict[str, Any]
    global_values: dict[str, Any]


class CommandCall:
    """What a command gets: the values of its arguments, the connection settings, and the output."""

    def __init__(self, path: CommandPath, values: dict[str, Any], settings: "CliSettings", output: "CliOutput") -> None:
        self.path = path
        self.values = values
        self.settings = settings
        self.output = output


class UsageError(Exception):
    """The command line is invalid: exit code 2, with the usage line of the command that `path` ends with."""

    def __init__(self, message: str, path: CommandPath, tip: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.tip = tip


class HelpRequested(Exception):
    """The help text is requested, or it is the answer to a command without arguments (`missing`)."""

    def __init__(self, path: CommandPath, missing: bool) -> None:
        super().__init__()
        self.path = path
        self.missing = missing


class VersionRequested(Exception):
    """`ank --version`."""


HELP = Option("-h, --help", "Print this help")
