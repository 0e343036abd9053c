"""Parses the words of the command line. Input: the declared commands and the words. Output: a `ParsedCommandLine`.

Raises `UsageError`, `HelpRequested` or `VersionRequested`. ADR 18 explains why this is not argparse.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ankaios.cli.command_line.arguments import (
    HELP,
    Command,
    CommandPath,
    HelpRequested,
    Option,
    ParsedCommandLine,
    Positional,
    UsageError,
    VersionRequested,
)
from ankaios.common.suggestions import nearest


def parse_command_line(root: Command, words: Sequence[str]) -> ParsedCommandLine:
    path: CommandPath = (root,)
    global_values, rest = _parse_level(path, words)
    values = global_values
    while path[-1].is_group:
        if not rest and path[-1].function:
            break
        if not rest:
            raise HelpRequested(path, missing=True)
        if rest[0] == "help":
            raise HelpRequested(_descend(path, rest[1:]), missing=False)
        path = _descend(path, rest[:1])
        if path[-1].bare_help and not rest[1:]:
            raise HelpRequested(path, missing=True)
        values, rest = _parse_level(path, rest[1:])
    return ParsedCommandLine(path, values, global_values)


def _descend(path: CommandPath, words: Sequence[str]) -> CommandPath:
    for word in words:
        child = path[-1].child(word)
        if child is None:
            tip = _similar_tip("subcommand", word, path[-1].child_names())
            raise UsageError(f"unrecognized subcommand '{word}'", path, tip)
        path = (*path, child)
    return path


def _parse_level(path: CommandPath, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Read the arguments of one command. Returns its values and, for a group, the words from its child on."""
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
            level.words = [word, *cursor]
        else:
            level.words.append(word)
    return level.finish(), level.words


class _Level:
    """The arguments of one command that were read so far."""

    def __init__(self, path: CommandPath) -> None:
        self.path = path
        self.words: list[str] = []
        self._command = path[-1]
        self._values: dict[str, Any] = {}

    def take_long(self, word: str, cursor: Iterator[str]) -> None:
        flag, has_value, value = word.partition("=")
        self._take(self._option(flag), value if has_value else None, cursor)

    def take_short(self, word: str, cursor: Iterator[str]) -> None:
        """A cluster of switches (`-fn`). The last flag may have a value (`-t5`, `-t=5`, `-t 5`)."""
        letters = word[1:]
        while letters:
            option, letters = self._option(f"-{letters[0]}"), letters[1:]
            if option.value:
                self._take(option, letters.removeprefix("=") if letters else None, cursor)
                return
            self._take(option, None, cursor)

    def _option(self, flag: str) -> Option:
        for option in (*self._command.options, HELP):
            if flag in option.flags:
                return option
        if len(self.path) > 1 and any(flag in option.flags for option in self.path[0].options):
            tip = f"'{flag}' is a global option: write it before '{self.path[1].name}'"
        else:
            long_flags = [known for option in self._command.options for known in option.flags if known[:2] == "--"]
            tip = _similar_tip("argument", flag, long_flags)
        raise UsageError(f"unexpected argument '{flag}' found", self.path, tip)

    def _take(self, option: Option, value: str | None, cursor: Iterator[str]) -> None:
        if option is HELP:
            raise HelpRequested(self.path, missing=False)
        if option.name == "version":
            raise VersionRequested
        if option.name in self._values and not option.repeat:
            raise self._error(f"the argument '{option.display}' cannot be used multiple times")
        if not option.value:
            if value is not None:
                raise self._error(f"unexpected value '{value}' for '{option.display}' found")
            self._values[option.name] = True
            return
        converted = self._convert(option, self._next_value(option, cursor) if value is None else value)
        if option.repeat:
            self._values.setdefault(option.name, []).append(converted)
        else:
            self._values[option.name] = converted

    def _next_value(self, option: Option, cursor: Iterator[str]) -> str:
        value = next(cursor, None)
        if value is not None and (value == "-" or not value.startswith("-")):
            return value
        if value is not None and option.negative and value[1:].isdigit():
            return value
        raise self._error(f"a value is required for '{option.display}' but none was supplied")

    def _convert(self, argument: Option | Positional, text: str) -> Any:
        if isinstance(argument, Option) and argument.choices and text not in argument.choices:
            possible = f"\n  [possible values: {', '.join(argument.choices)}]"
            raise self._error(f"invalid value '{text}' for '{argument.display}'{possible}")
        try:
            return argument.convert(text) if argument.convert else text
        except ValueError as error:
            raise self._error(f"invalid value '{text}' for '{argument.display}': {error}") from None

    def finish(self) -> dict[str, Any]:
        if not self._command.is_group:
            self._place_words()
        missing = [o.display for o in self._command.options if o.required and o.name not in self._values]
        missing += [p.display for p in self._command.positionals if p.required and not self._values[p.name]]
        if missing:
            listed = "".join(f"\n  {display}" for display in missing)
            raise self._error(f"the following required arguments were not provided:{listed}")
        for option in self._command.options:
            self._values.setdefault(option.name, [] if option.repeat else option.default)
        return self._values

    def _place_words(self) -> None:
        """Assign the words to the positional arguments. If there are too few words, the last arguments get none."""
        words = self.words
        for index, positional in enumerate(self._command.positionals):
            following = len(self._command.positionals) - index - 1
            count = max(len(words) - following, 1) if positional.many else 1
            converted = [self._convert(positional, word) for word in words[:count]]
            self._values[positional.name] = converted if positional.many else (converted or [None])[0]
            words = words[count:]
        if words:
            raise self._error(f"unexpected argument '{words[0]}' found")

    def _error(self, message: str) -> UsageError:
        return UsageError(message, self.path)


def _similar_tip(kind: str, word: str, known: Sequence[str]) -> str:
    found = nearest(word, known)
    return f"a similar {kind} exists: '{found}'" if found else ""
