"""Shell globs and regular expressions that are matched in bounded time.

Input: a pattern of a udev rule. Output: whether it covers a whole text. Python's `re` backtracks, so `.*.*.*.*.*x`
could block the agent for hours. Here `re` matches single characters only; how often each may occur is followed for all
possibilities at once, so the work grows with the length of the text. The supported language is that of udev rules: no
groups and no `+`, which is checked when the pattern is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct

MAX_STEPS = 1024
MAX_REMEMBERED = 256

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": "\\t ",
    "digit": "0-9",
    "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t-\\r ",
    "upper": "A-Z",
    "word": "0-9A-Z_a-z",
    "xdigit": "0-9A-Fa-f",
}
# A bracket directly behind the opening one, or behind the negation, is a member, so `[]` alone is not a class.
_MEMBERS = r"\]?+(?:\[:[^\]]*:\]|\\.|[^\]\\])*\]"
_GLOB_ATOM = re.compile(rf"\[[!^]?+{_MEMBERS}|\\.|.", re.DOTALL)
# A lazy repetition (`*?`, `??`) covers the same texts.
_REGEX_ATOM = re.compile(rf"(\[\^?+{_MEMBERS}|\\.|.)(\*\??|\?\??|{{[0-9]{{1,3}}}})?", re.DOTALL)
_CLASS_MEMBER = re.compile(r"\[:([^\]]*):\]|\\(.)|([\[&|~])", re.DOTALL)
_ESCAPES = "dwsDWS"


class PatternError(ValueError):
    """The pattern is not valid; the text contains what to change."""


class Times(Enum):
    ONCE = 1
    MAYBE = 2
    MANY = 3  # any number, also none


class Step(Struct, frozen=True):
    """A regular expression for one character, and how often the character may occur."""

    character: re.Pattern[str]
    times: Times = Times.ONCE


class Branch:
    """A sequence of steps, executed as an automaton whose states are the bits of one integer.

    Bit n means that the first n steps are possibly done; all states advance together in a few operations.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        if len(steps) > MAX_STEPS:
            raise PatternError(f"the pattern has more than {MAX_STEPS} steps; make it shorter")
        self._steps = tuple(steps)
        self._many = _bits(step.times is Times.MANY for step in steps)
        self._optional = _bits(step.times is not Times.ONCE for step in steps)
        self._accepting: dict[str, int] = {}

    def covers(self, text: str) -> bool:
        states = self._with_skips(1)
        for character in text:
            states &= self._accepts(character)
            if not states:
                return False
            states = self._with_skips((states & ~self._many) << 1 | (states & self._many))
        return bool(states >> len(self._steps))

    def _with_skips(self, states: int) -> int:
        """Add the states that are reached by skipping optional steps.

        The sum carries from each state through all optional steps that follow it, for all states at once.
        """
        return states | ((self._optional + (states & self._optional)) ^ self._optional)

    def _accepts(self, character: str) -> int:
        """The steps that accept a character, computed once: texts repeat few characters."""
        if (known := self._accepting.get(character)) is not None:
            return known
        if len(self._accepting) == MAX_REMEMBERED:
            self._accepting.clear()
        found = _bits(step.character.fullmatch(character) is not None for step in self._steps)
        self._accepting[character] = found
        return found


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << place for place, flag in enumerate(flags) if flag)


class Pattern:
    """Alternatives, one of which has to cover the text."""

    def __init__(self, *branches: Sequence[Step]) -> None:
        self._branches = tuple(map(Branch, branches))

    def covers(self, text: str) -> bool:
        return any(branch.covers(text) for branch in self._branches)


def compile_glob(text: str) -> Pattern:
    """`*`, `?`, `[a-z]`, `[!a]` and `\\` as in fnmatch(3) without flags: a slash is an ordinary character."""
    return Pattern([_glob_step(atom[0]) for atom in _GLOB_ATOM.finditer(text)])


def _glob_step(atom: str) -> Step:
    if atom in ("*", "?"):
        return Step(re.compile("(?s:.)"), Times.MANY if atom == "*" else Times.ONCE)
    if len(atom) > 1 and atom[0] == "[":
        try:
            return Step(re.compile(_class(atom, escapes="")))
        except re.error:  # a range that runs backwards is empty
            return Step(re.compile("(?!)"))
    return Step(re.compile(re.escape(atom[-1])))


def compile_regex(text: str) -> Pattern:
    """A regular expression without groups; `|` separates alternatives of the whole expression."""
    branches: list[list[Step]] = [[]]
    for found in _REGEX_ATOM.finditer(text):
        atom, times = found.groups()
        if atom == "|" and not times:
            branches.append([])
        elif atom == "$" and not times:
            if text[found.end() : found.end() + 1] not in ("", "|"):
                raise PatternError("nothing can follow '$', the end of the value; write '\\$' for a dollar sign")
        else:
            branches[-1] += _repeated(_character(atom), times or "{1}")
    return Pattern(*branches)


def _repeated(character: re.Pattern[str], times: str) -> list[Step]:
    if times[0] == "{":
        return [Step(character)] * int(times[1:-1])
    return [Step(character, Times.MANY if times[0] == "*" else Times.MAYBE)]


def _character(atom: str) -> re.Pattern[str]:
    """The expression for one character, or a `PatternError`."""
    if atom in "*?|$":
        raise PatternError(f"'{atom}' has nothing to repeat; in a regular expression any text is '.*'")
    if atom == "{":
        raise PatternError(
            "'{' must repeat something and needs a number and '}', as in [0-9]{4}; write '\\{' for the brace itself"
        )
    if atom in "()^+":
        raise PatternError(f"'{atom}' is not supported here; write '\\{atom}' for the character itself")
    if atom == "[":
        raise PatternError("a '[' is not closed; add ']' or write '\\[' for a bracket")
    if atom == "\\":
        raise PatternError("a '\\' at the end escapes nothing; write '\\\\' for a backslash")
    if atom[0] == "\\":
        _check_escape(atom[1], _ESCAPES)
    try:
        return re.compile(_class(atom, _ESCAPES) if atom[0] == "[" else atom, re.ASCII)
    except re.error as error:
        raise PatternError(f"'{atom}' is not a class of characters: {error}; a range is written as in [a-z]") from error


def _class(atom: str, escapes: str) -> str:
    """A class in brackets in the syntax of `re`. Letters in `escapes` keep their meaning after a backslash."""
    negated = atom[1] in "!^" if not escapes else atom[1] == "^"

    def member(found: re.Match[str]) -> str:
        name, escaped, special = found.groups()
        if name is not None:
            if name not in _POSIX:
                raise PatternError(f"'[:{name}:]' is not a class of characters; there are {', '.join(_POSIX)}")
            return _POSIX[name]
        if escaped is not None:
            _check_escape(escaped, escapes)
            return f"\\{escaped}" if escaped in escapes or not escaped.isalnum() else escaped
        return f"\\{special}"

    content = _CLASS_MEMBER.sub(member, atom[1 + negated : -1])
    if content.startswith("]"):
        content = f"\\{content}"
    return f"[{'^' if negated else ''}{content}]"


def _check_escape(letter: str, escapes: str) -> None:
    if escapes and letter.isalnum() and letter not in escapes:
        raise PatternError(f"'\\{letter}' is not supported here; use \\d, \\w, \\s or a class like [0-9]")
