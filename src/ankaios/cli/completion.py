"""Shell completion: `COMPLETE=<shell> ank` prints the script to source, which calls back with the words typed so far.

In come words and the place of the cursor, out go candidates, one on each line. What only the server knows is asked of
it, with the settings of the typed line, the environment and the configuration file; if it does not answer quickly there
is simply nothing to offer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ankaios.cli.arguments import HELP, Command, HelpWanted, Option, UsageError, VersionWanted
from ankaios.cli.completion_scripts import SCRIPTS
from ankaios.cli.output import Output
from ankaios.cli.parser import parse
from ankaios.cli.root import RootCommand

Lookup = Callable[[str, "Place"], Iterable[str]]

FILES = ":files"
Candidate = tuple[str, str]
"""The word and what it means."""


def complete(shell: str, words: Sequence[str], output: Output) -> int:
    if shell not in SCRIPTS:
        raise UsageError(f"unknown shell '{shell}', expected one of {', '.join(SCRIPTS)}", (RootCommand(),))
    if not words:
        output.write(SCRIPTS[shell])
        return 0
    typed = list(words[1:] if words[0] == "--" else words)
    index = int(os.environ.get("_ANK_COMPLETE_INDEX") or len(typed) - 1)
    found = candidates(typed[1:index], typed[index] if index < len(typed) else "", _ask_server)
    output.write("".join(_line(shell, *candidate) for candidate in found))
    return 0


def _line(shell: str, word: str, meaning: str) -> str:
    if word == FILES:
        return f"{FILES}\n"
    if shell == "zsh":
        shown = word.replace(":", r"\:")
        return f"{shown}:{meaning}\n" if meaning else f"{shown}\n"
    if shell == "fish":
        return f"{word}\t{meaning}\n" if meaning else f"{word}\n"
    return f"{word}\n"


class Place:
    """Where on the line the cursor is: after which commands, options and words."""

    def __init__(self) -> None:
        self.path: tuple[Command, ...] = (RootCommand(),)
        self.global_words: list[str] = []
        self.used: set[str] = set()
        self.awaited: Option | None = None
        self.words: list[str] = []
        self.only_words = False

    @property
    def command(self) -> Command:
        return self.path[-1]

    def pass_by(self, word: str) -> None:
        """Mistakes are passed over: the person is still typing."""
        if len(self.path) == 1 and (word.startswith("-") or self.awaited):
            self.global_words.append(word)
        if self.awaited is not None:
            if word != "=":  # bash splits `--agent=n1` there
                self.awaited = None
        elif word == "--":
            self.only_words = True
        elif word.startswith("-") and not self.only_words:
            self._pass_option(word)
        elif self.command.is_group:
            child = self.command.child(word)
            self.path = (*self.path, child) if child else self.path
            self.used.clear()
        else:
            self.words.append(word)

    def _pass_option(self, word: str) -> None:
        name = word.partition("=")[0]
        for option in self.command.options:
            if name in (f"--{option.long}", f"-{option.short}"):
                self.used.add(option.name)
                self.awaited = option if option.value and "=" not in word else None


def candidates(before: Iterable[str], current: str, lookup: Lookup) -> list[Candidate]:
    place = Place()
    for word in before:
        place.pass_by(word)
    current = "" if place.awaited and current == "=" else current
    return [one for one in _offered(place, current, lookup) if one[0] == FILES or one[0].startswith(current)]


def _offered(place: Place, current: str, lookup: Lookup) -> list[Candidate]:
    if place.awaited is not None:
        return _values(place.awaited.choices, place.awaited.complete, place, lookup)
    if current.startswith("-") and not place.only_words:
        return _options(place)
    if place.command.is_group:
        return _children(place.command, current)
    found: list[Candidate] = []
    for positional in place.command.positionals[-2:] if len(place.words) else place.command.positionals[:1]:
        if positional.many or len(place.words) < len(place.command.positionals):
            found += _values((), positional.complete, place, lookup)
    return [candidate for candidate in found if candidate[0] not in place.words]


def _children(command: Command, current: str) -> list[Candidate]:
    """The other spelling of a word is offered only to who has begun it."""
    offered = []
    for child in command.children():
        offered.append((child.name, child.summary))
        offered += [(alias, child.summary) for alias in child.aliases if current and not child.name.startswith(current)]
    return offered


def _options(place: Place) -> list[Candidate]:
    return [
        (f"--{option.long}" if option.long else f"-{option.short}", option.summary)
        for option in (*place.command.options, HELP)
        if option.name not in place.used or option.repeat
    ]


def _values(choices: Sequence[str], kind: str, place: Place, lookup: Lookup) -> list[Candidate]:
    if choices:
        return [(choice, "") for choice in choices]
    if kind == "files":
        return [(FILES, "")]
    if not kind:
        return []
    return [(word, "") for word in lookup(kind, place)]


def _ask_server(kind: str, place: Place) -> Iterable[str]:
    from ankaios.cli.completion_values import known_values

    return known_values(kind, _global_values(place))


def _global_values(place: Place) -> dict[str, Any]:
    """The global options typed on this line, as far as they make sense."""
    try:
        return parse(RootCommand(), [*place.global_words, "schema"]).global_values
    except (UsageError, HelpWanted, VersionWanted):
        return {}
