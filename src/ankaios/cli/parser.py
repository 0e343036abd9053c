"""What was typed, held against the declarations of the commands.

In come the declarations of `arguments` and the typed words; out goes a `Call`, or one of `UsageError`, `HelpWanted`,
`VersionWanted`. This is a parser of our own because every `ank` waits for it: it loads nothing from the standard
library, and of the commands only the chosen one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ankaios.cli.arguments import HELP, Call, Command, HelpWanted, Option, UsageError, VersionWanted


def parse(root: Command, words: Sequence[str]) -> Call:
    path: tuple[Command, ...] = (root,)
    global_values, rest = _parse_level(path, list(words))
    values = global_values
    if rest and rest[0] == "help":
        raise HelpWanted(_descend(path, rest[1:]), missing=False)
    while rest:
        path = _descend(path, rest[:1])
        if not rest[1:] and (path[-1].is_group or path[-1].bare_help):
            raise HelpWanted(path, missing=True)
        values, rest = _parse_level(path, rest[1:])
    if path[-1].is_group:
        raise HelpWanted(path, missing=True)
    return Call(path, values, global_values)


def _descend(path: tuple[Command, ...], words: Sequence[str]) -> tuple[Command, ...]:
    for word in words:
        child = path[-1].child(word)
        if child is None:
            tip = similar_tip("subcommand", word, path[-1].child_names())
            raise UsageError(f"unrecognized subcommand '{word}'", path, tip)
        path = (*path, child)
    return path


def _parse_level(path: tuple[Command, ...], words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Read the options of one command, up to the name of its child (which starts the returned rest) or the end."""
    level = _Level(path)
    cursor = iter(words)
    for word in cursor:
        if word == "--":
            level.words.extend(cursor)
        elif word.startswith("--"):
            level.take_long(word, cursor)
        elif word.startswith("-") and word != "-":
            level.take_short(word, cursor)
        elif path[-1].is_group:
            return level.finish(), [word, *cursor]
        else:
            level.words.append(word)
    return level.finish(), level.words if path[-1].is_group else []


class _Level:
    """What was typed for one command so far."""

    def __init__(self, path: tuple[Command, ...]) -> None:
        self.path = path
        self.command = path[-1]
        self.words: list[str] = []
        self.values: dict[str, Any] = {}

    def take_long(self, word: str, cursor: Iterator[str]) -> None:
        name, has_value, value = word[2:].partition("=")
        option = next((o for o in (*self.command.options, HELP) if o.long and o.long == name), None)
        if option is None:
            raise self._unexpected(f"--{name}")
        self._take(option, value if has_value else None, cursor)

    def take_short(self, word: str, cursor: Iterator[str]) -> None:
        """A bundle of switches (`-fn`), of which the last may take a value (`-t5`, `-t=5`, `-t 5`)."""
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            option = next((o for o in (*self.command.options, HELP) if o.short == letter), None)
            if option is None:
                raise self._unexpected(f"-{letter}")
            if option.value:
                attached = letters.removeprefix("=") if letters else None
                self._take(option, attached, cursor)
                return
            self._take(option, None, cursor)

    def _take(self, option: Option, value: str | None, cursor: Iterator[str]) -> None:
        if option is HELP:
            raise HelpWanted(self.path, missing=False)
        if option.name == "version":
            raise VersionWanted
        if option.name in self.values and not option.repeat:
            raise UsageError(f"the argument '{option.display}' cannot be used multiple times", self.path)
        if not option.value:
            if value is not None:
                raise UsageError(f"unexpected value '{value}' for '{option.display}' found", self.path)
            self.values[option.name] = True
            return
        converted = self._convert(option, self._value(option, cursor) if value is None else value)
        if option.repeat:
            self.values.setdefault(option.name, []).append(converted)
        else:
            self.values[option.name] = converted

    def _value(self, option: Option, cursor: Iterator[str]) -> str:
        value = next(cursor, None)
        looks_like_option = value is not None and value.startswith("-") and value != "-"
        if looks_like_option and option.negative and value is not None and value[1:].isdigit():
            return value
        if value is None or looks_like_option:
            raise UsageError(f"a value is required for '{option.display}' but none was supplied", self.path)
        return value

    def _convert(self, option: Option, text: str) -> Any:
        if option.choices and text not in option.choices:
            possible = f"\n  [possible values: {', '.join(option.choices)}]"
            raise UsageError(f"invalid value '{text}' for '{option.display}'{possible}", self.path)
        try:
            return option.convert(text) if option.convert else text
        except ValueError as fault:
            raise UsageError(f"invalid value '{text}' for '{option.display}': {fault}", self.path) from None

    def _unexpected(self, word: str) -> UsageError:
        root = self.path[0]
        if len(self.path) > 1 and any(word in (f"-{o.short}", f"--{o.long}") for o in root.options):
            tip = f"'{word}' is a global option: write it before '{self.path[1].name}'"
            return UsageError(f"unexpected argument '{word}' found", self.path, tip)
        known = [f"--{o.long}" for o in self.command.options if o.long]
        tip = similar_tip("argument", word, known)
        return UsageError(f"unexpected argument '{word}' found", self.path, tip)

    def finish(self) -> dict[str, Any]:
        if not self.command.is_group:
            self._place_words()
        missing = [o.display for o in self.command.options if o.required and o.name not in self.values]
        missing += [p.display for p in self.command.positionals if p.required and not self.values.get(p.name)]
        if missing:
            listed = "".join(f"\n  {display}" for display in missing)
            raise UsageError(f"the following required arguments were not provided:{listed}", self.path)
        for option in self.command.options:
            self.values.setdefault(option.name, [] if option.repeat else option.default)
        return self.values

    def _place_words(self) -> None:
        words = self.words
        for index, positional in enumerate(self.command.positionals):
            behind = len(self.command.positionals) - index - 1
            if positional.many:
                count = max(len(words) - behind, 1)  # of too few words the later ones are missing
                self.values[positional.name], words = words[:count], words[count:]
            else:
                self.values[positional.name], words = (words[0] if words else None), words[1:]
        if words:
            raise UsageError(f"unexpected argument '{words[0]}' found", self.path)


def similar_tip(kind: str, word: str, known: Sequence[str]) -> str:
    from ankaios.cli.suggestions import nearest  # only a mistake pays for it

    found = nearest(word, known)
    return f"a similar {kind} exists: '{found}'" if found else ""
