"""The command line as data: commands, their options and words, and what can come of typing them.

The parser, the help texts and the completion read the same declarations. Nothing of the standard library is loaded
here, because every `ank` waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ankaios.cli.output import Output
    from ankaios.cli.settings import Settings


class Option:
    """A switch, or with `value` (its placeholder in help) an option that takes one.

    `complete` names the kind of words offered by the shell completion: `agents`, `workloads`, `files` and so on.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        *,
        short: str = "",
        long: str = "",
        value: str = "",
        choices: tuple[str, ...] = (),
        convert: Callable[[str], Any] | None = None,
        default: Any = None,
        required: bool = False,
        repeat: bool = False,
        env: str = "",
        complete: str = "",
        negative: bool = False,
    ) -> None:
        self.name = name
        self.summary = summary
        self.short = short
        self.long = long
        self.value = value
        self.choices = choices
        self.convert = convert
        self.default = default
        self.required = required
        self.repeat = repeat
        self.env = env
        self.complete = complete
        self.negative = negative

    @property
    def display(self) -> str:
        """As usage errors name it: `--agent <AGENT>`."""
        spelled = f"--{self.long}" if self.long else f"-{self.short}"
        return f"{spelled} <{self.value}>" if self.value else spelled


class Positional:
    """An argument known by its place. `many` takes all words that the ones behind it leave over."""

    def __init__(
        self, name: str, summary: str, *, label: str = "", many: bool = False, required: bool = True, complete: str = ""
    ) -> None:
        self.name = name
        self.summary = summary
        self.label = label or name.upper()
        self.many = many
        self.required = required
        self.complete = complete

    @property
    def display(self) -> str:
        shown = f"<{self.label}>" if self.required else f"[{self.label}]"
        return shown + ("..." if self.many else "")


class Command:
    """One word of the command line: either it has `children`, or `run` says what to do.

    `run` is "module:function" and is imported only when the command runs; the function takes the `Call` and returns the
    exit code. One that is `offline` asks no server, so settings that cannot be used must not stop it.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        *,
        aliases: tuple[str, ...] = (),
        group: str = "",
        examples: tuple[tuple[str, str], ...] = (),
        options: tuple[Option, ...] = (),
        positionals: tuple[Positional, ...] = (),
        children: tuple[Command, ...] = (),
        run: str = "",
        details: str = "",
        bare_help: bool = False,
        offline: bool = False,
    ) -> None:
        self.name = name
        self.summary = summary
        self.aliases = aliases
        self.group = group
        self.examples = examples
        self.options = options
        self.positionals = positionals
        self._children = children
        self.run = run
        self.details = details
        self.bare_help = bare_help
        self.offline = offline

    @property
    def is_group(self) -> bool:
        return bool(self._children)

    def children(self) -> tuple[Command, ...]:
        return self._children

    def child(self, word: str) -> Command | None:
        return next((child for child in self._children if word == child.name or word in child.aliases), None)

    def child_names(self) -> list[str]:
        """All words that `child` knows."""
        return [word for child in self._children for word in (child.name, *child.aliases)]


class Call:
    """What was asked for: the command, its values, and the world it runs in."""

    def __init__(self, path: tuple[Command, ...], values: dict[str, Any], global_values: dict[str, Any]) -> None:
        self.path = path
        self.values = values
        self.global_values = global_values
        self.settings: Settings
        self.output: Output

    @property
    def command(self) -> Command:
        return self.path[-1]


class UsageError(Exception):
    """The words make no sense: exit code 2, with the usage line of the command they were given to."""

    def __init__(self, message: str, path: tuple[Command, ...], tip: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.tip = tip


class HelpWanted(Exception):
    """Help was asked for, or (`missing`) is all that can be answered to a command without its words."""

    def __init__(self, path: tuple[Command, ...], missing: bool) -> None:
        super().__init__()
        self.path = path
        self.missing = missing


class VersionWanted(Exception):
    """`ank --version`."""


HELP = Option("help", "Print this help", short="h", long="help")
