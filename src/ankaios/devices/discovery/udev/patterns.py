"""Patterns written by people, matched in a time that is bounded whatever they wrote.

In: a shell glob or a regular expression. Out: whether it covers a whole text. Python's `re` backtracks, so
`.*.*.*.*.*x` could hold up the agent for hours. Here all ways to match advance together, one character at a time, so
the work grows with the length of the text and not with the number of ways. The price is the language: what udev rules
can contain (no groups, no `+`), which is checked when the pattern is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from msgspec import Struct

MAX_STEPS = 1024
MAX_REMEMBERED = 256

Ranges = tuple[tuple[str, str], ...]

_DIGIT = (("0", "9"),)
_WORD = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_SPACE = (("\t", "\r"), (" ", " "))
_POSIX = {
    "alnum": (("0", "9"), ("A", "Z"), ("a", "z")),
    "alpha": (("A", "Z"), ("a", "z")),
    "blank": (("\t", "\t"), (" ", " ")),
    "digit": _DIGIT,
    "lower": (("a", "z"),),
    "punct": (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
    "space": _SPACE,
    "upper": (("A", "Z"),),
    "word": _WORD,
    "xdigit": (("0", "9"), ("A", "F"), ("a", "f")),
}
_ESCAPES: dict[str, Ranges] = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_INVERTED = "DWS"
_UNSUPPORTED = "()^+"


class PatternError(ValueError):
    """The pattern is not one; the text says what to change."""


class Times(Enum):
    ONCE = 1
    MAYBE = 2
    MANY = 3  # any number, also none


class Step(Struct, frozen=True):
    """One character set and how often it may be consumed."""

    ranges: Ranges
    negated: bool = False
    times: Times = Times.ONCE

    def accepts(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges) != self.negated


class Branch:
    """A row of steps, run as a machine whose places are the bits of one number.

    Bit n tells that the first n steps can be done with; all places advance together in a few operations.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        if len(steps) > MAX_STEPS:
            raise PatternError(f"the pattern has more than {MAX_STEPS} steps; make it shorter")
        self._steps = tuple(steps)
        self._many = _bits(step.times is Times.MANY for step in steps)
        self._optional = _bits(step.times is not Times.ONCE for step in steps)
        self._accepting: dict[str, int] = {}

    def covers(self, text: str) -> bool:
        places = self._with_skips(1)
        for character in text:
            places &= self._accepts(character)
            if not places:
                return False
            places = self._with_skips((places & ~self._many) << 1 | (places & self._many))
        return bool(places >> len(self._steps))

    def _with_skips(self, places: int) -> int:
        """Add the places that are reached by leaving out optional steps.

        The sum carries from each place through the whole row of optional steps behind it, all rows at once.
        """
        return places | ((self._optional + (places & self._optional)) ^ self._optional)

    def _accepts(self, character: str) -> int:
        """The steps that accept a character; computed once, for texts repeat few characters."""
        if (known := self._accepting.get(character)) is not None:
            return known
        if len(self._accepting) == MAX_REMEMBERED:
            self._accepting.clear()
        found = self._accepting[character] = _bits(step.accepts(character) for step in self._steps)
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
    """`*`, `?`, `[a-z]`, `[!a]` and `\\` as in fnmatch(3) without flags: a slash is a character like any other."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == "*":
            steps.append(Step((), negated=True, times=Times.MANY))
        elif character == "?":
            steps.append(Step((), negated=True))
        elif character == "[" and (end := _class_end(text, at)):
            steps.append(_glob_class(text, at, end))
            at = end + 1
        else:
            if character == "\\" and at < len(text):
                character = text[at]
                at += 1
            steps.append(Step(((character, character),)))
    return Pattern(steps)


def compile_regex(text: str) -> Pattern:
    """A regular expression without groups; `|` separates whole alternatives."""
    return Pattern(*_RegexParser(text).branches())


def _class_end(text: str, at: int) -> int:
    """The index of the bracket that closes the class whose content begins at `at`, or 0."""
    if text[at : at + 1] in ("!", "^"):
        at += 1
    first = at
    while at < len(text):
        if text[at] == "]" and at > first:
            return at
        if text.startswith("[:", at) and (end := text.find(":]", at + 2)) > 0:
            at = end + 2
        else:
            at += 2 if text[at] == "\\" else 1
    return 0


def _glob_class(text: str, at: int, end: int) -> Step:
    negated = text[at] in ("!", "^")
    return Step(_class_ranges(text[at + negated : end], lambda letter: ((letter, letter),)), negated)


def _class_ranges(content: str, escape: Callable[[str], Ranges]) -> Ranges:
    """What the content of a pair of brackets names."""
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(content):
        if content.startswith("[:", at):
            name, _, _ = content[at + 2 :].partition(":]")
            if name not in _POSIX:
                raise PatternError(f"'[:{name}:]' is no class of characters; there are {', '.join(_POSIX)}")
            ranges.extend(_POSIX[name])
            at += len(name) + 4
            continue
        member, at = _class_member(content, at, escape)
        if content[at : at + 1] == "-" and at + 1 < len(content):
            last, at = _class_member(content, at + 1, escape)
            member = ((_single(member), _single(last)),)
        ranges.extend(member)
    return tuple(ranges)


def _class_member(content: str, at: int, escape: Callable[[str], Ranges]) -> tuple[Ranges, int]:
    """The ranges one member names, and where the next one begins."""
    if content[at] != "\\" or at + 1 == len(content):
        return ((content[at], content[at]),), at + 1
    return escape(content[at + 1]), at + 2


def _single(ranges: Ranges) -> str:
    if len(ranges) != 1 or ranges[0][0] != ranges[0][1]:
        raise PatternError("a range in brackets needs one character at each end, as in [a-z]")
    return ranges[0][0]


def _escaped_ranges(letter: str) -> Ranges:
    """What a backslash and this letter stand for in a regular expression."""
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isalnum():
        raise PatternError(f"'\\{letter}' is not supported here; use \\d, \\w, \\s or a class like [0-9]")
    return ((letter, letter),)


class _RegexParser:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def branches(self) -> list[list[Step]]:
        branches = [self._branch()]
        while self._take("|"):
            branches.append(self._branch())
        return branches

    def _take(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _branch(self) -> list[Step]:
        steps: list[Step] = []
        while self._at < len(self._text) and self._text[self._at] != "|":
            if self._take("$"):
                if self._text[self._at : self._at + 1] not in ("", "|"):
                    raise PatternError("nothing can follow '$', the end of the value; write '\\$' for a dollar sign")
                continue
            steps += self._repeated(self._atom())
        return steps

    def _atom(self) -> Step:
        character = self._text[self._at]
        self._at += 1
        if character in "*?{":
            raise PatternError(f"'{character}' has nothing to repeat; in a regular expression any text is '.*'")
        if character in _UNSUPPORTED:
            raise PatternError(f"'{character}' is not supported here; write '\\{character}' for the character itself")
        if character == ".":
            return Step((("\n", "\n"),), negated=True)
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escaped()
        return Step(((character, character),))

    def _escaped(self) -> Step:
        if self._at == len(self._text):
            raise PatternError("a '\\' at the end escapes nothing; write '\\\\' for a backslash")
        letter = self._text[self._at]
        self._at += 1
        if letter in _INVERTED:
            return Step(_ESCAPES[letter.lower()], negated=True)
        return Step(_escaped_ranges(letter))

    def _class(self) -> Step:
        end = _class_end(self._text, self._at)
        if not end:
            raise PatternError("a '[' is not closed; add ']' or write '\\[' for a bracket")
        negated = self._take("^")
        ranges = _class_ranges(self._text[self._at : end], _escaped_ranges)
        self._at = end + 1
        if any(low > high for low, high in ranges):
            raise PatternError("a range in brackets runs backwards; write the smaller character first")
        return Step(ranges, negated)

    def _repeated(self, step: Step) -> list[Step]:
        if self._take("*"):
            steps = [Step(step.ranges, step.negated, Times.MANY)]
        elif self._take("?"):
            steps = [Step(step.ranges, step.negated, Times.MAYBE)]
        elif self._take("{"):
            return [step] * self._count()
        else:
            return [step]
        self._take("?")  # a lazy repetition covers the same texts
        return steps

    def _count(self) -> int:
        digits, closed, _ = self._text[self._at :].partition("}")
        if not closed or not digits.isdecimal() or not digits.isascii() or len(digits) > 3:
            raise PatternError("'{' needs a number and '}', as in [0-9]{4}; write '\\{' for the brace itself")
        self._at += len(digits) + 1
        return int(digits)
