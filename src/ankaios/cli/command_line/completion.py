"""Shell completion: `COMPLETE=<shell> ank` prints the script to source, which calls `ank` with the words typed so far.

Input: the words and the position of the cursor. Output: candidates, one per line. Names are requested from the server
with the settings of the typed line, the environment and the configuration file; without a response nothing is offered.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ankaios.cli.command_line.arguments import (
    HELP,
    Command,
    CommandPath,
    HelpRequested,
    Option,
    Positional,
    UsageError,
    VersionRequested,
)
from ankaios.cli.command_line.completion_scripts import SCRIPTS
from ankaios.cli.command_line.parser import parse_command_line
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.tree.ank import ANK

FILES = ":files"
Candidate = tuple[str, str]
"""A word and its meaning."""
Lookup = Callable[[str, "CursorContext"], Iterable[str]]
"""Returns the known values of a kind, such as `workloads`."""


def complete(shell: str, words: Sequence[str], output: CliOutput) -> int:
    if shell not in SCRIPTS:
        raise UsageError(f"unknown shell '{shell}', expected one of {', '.join(SCRIPTS)}", (ANK,))
    if not words:
        output.write(SCRIPTS[shell])
        return 0
    typed = list(words[1:] if words[0] == "--" else words)
    index = int(os.environ.get("_ANK_COMPLETE_INDEX") or len(typed) - 1)
    found = candidates(typed[1:index], typed[index] if index < len(typed) else "", _request_values)
    output.write("".join(_line(shell, *candidate) for candidate in found))
    return 0


def _line(shell: str, word: str, meaning: str) -> str:
    if word == FILES:
        return f"{FILES}\n"
    if shell == "zsh":
        word = word.replace(":", r"\:")
    separator = {"zsh": ":", "fish": "\t"}.get(shell)
    return f"{word}{separator}{meaning}\n" if meaning and separator else f"{word}\n"


class CursorContext:
    """The commands, options and words before the cursor. Mistakes are ignored, because the line is not finished."""

    def __init__(self) -> None:
        self.path: CommandPath = (ANK,)
        self.global_words: list[str] = []
        self.used: set[str] = set()
        self.awaited: Option | None = None
        """The option before the cursor whose value is missing."""
        self.words: list[str] = []
        self.only_words = False

    @property
    def command(self) -> Command:
        return self.path[-1]

    def add(self, word: str) -> None:
        if len(self.path) == 1 and (word.startswith("-") or self.awaited):
            self.global_words.append(word)
        if self.awaited is not None:
            if word != "=":  # bash splits `--agent=n1` there
                self.awaited = None
        elif word == "--":
            self.only_words = True
        elif word.startswith("-") and not self.only_words:
            self._add_option(word)
        elif self.command.is_group:
            child = self.command.child(word)
            self.path = (*self.path, child) if child else self.path
            self.used.clear()
        else:
            self.words.append(word)

    def _add_option(self, word: str) -> None:
        flag = word.partition("=")[0]
        for option in self.command.options:
            if flag in option.flags:
                self.used.add(option.name)
                self.awaited = option if option.value and "=" not in word else None

    def global_values(self) -> dict[str, Any]:
        """The values of the global options on this line, as far as they are valid."""
        try:
            return parse_command_line(ANK, [*self.global_words, "schema"]).global_values
        except (UsageError, HelpRequested, VersionRequested):
            return {}


def candidates(before: Iterable[str], current: str, lookup: Lookup) -> list[Candidate]:
    context = CursorContext()
    for word in before:
        context.add(word)
    current = "" if context.awaited and current == "=" else current
    return [found for found in _offered(context, current, lookup) if found[0] == FILES or found[0].startswith(current)]


def _offered(context: CursorContext, current: str, lookup: Lookup) -> list[Candidate]:
    command = context.command
    if context.awaited is not None:
        return _values(context.awaited, context, lookup)
    if current.startswith("-") and not context.only_words:
        unused = [option for option in (*command.options, HELP) if option.repeat or option.name not in context.used]
        return [(option.flags[-1], option.summary) for option in unused]
    if command.is_group:
        return _children(command, current)
    possible = command.positionals[-2:] if context.words else command.positionals[:1]
    found: list[Candidate] = []
    for positional in possible:
        if positional.many or len(context.words) < len(command.positionals):
            found += _values(positional, context, lookup)
    return [candidate for candidate in found if candidate[0] not in context.words]


def _children(command: Command, current: str) -> list[Candidate]:
    """An alias is offered only if the beginning of the name does not match."""
    offered = []
    for child in command.children:
        offered.append((child.name, child.summary))
        offered += [(alias, child.summary) for alias in child.aliases if current and not child.name.startswith(current)]
    return offered


def _values(argument: Option | Positional, context: CursorContext, lookup: Lookup) -> list[Candidate]:
    if isinstance(argument, Option) and argument.choices:
        return [(choice, "") for choice in argument.choices]
    if argument.complete == "files":
        return [(FILES, "")]
    return [(word, "") for word in lookup(argument.complete, context)] if argument.complete else []


def _request_values(kind: str, context: CursorContext) -> Iterable[str]:
    from ankaios.cli.command_line.completion_values import known_values

    return known_values(kind, context.global_values())
