"""Kinds of single values: text, numbers, booleans and words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ankaios.common.durations import DURATION_PATTERN, LONGEST_NUMBER, format_duration, parse_duration
from ankaios.common.errors import Rejected
from ankaios.common.model.kind import Kind, Schema
from ankaios.common.model.values import Malformed, Violation, not_of_type, shown, wrong_type

MAX_UINT32 = 2**32 - 1


class Scalar(Kind):
    """A single value of protobuf. `expected` and `json_type` are the names of its type in error texts."""

    python_type: type
    expected: str
    json_type: str

    def to_wire(self, value: Any) -> Any:
        """Convert the plain form to protobuf."""
        return value

    def put_field(self, message: Any, attribute: str, value: Any) -> None:
        setattr(message, attribute, self.to_wire(value))

    def put_entry(self, container: Any, key: str, value: Any) -> None:
        container[key] = self.to_wire(value)

    def put_item(self, container: Any, value: Any) -> None:
        container.append(self.to_wire(value))

    def read(self, value: Any) -> Any:
        if type(value) is not self.python_type:  # a boolean is not an integer here
            raise wrong_type(value, self.expected)
        return value

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        if type(value) is not self.python_type:
            yield at, not_of_type(value, self.json_type)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": self.json_type}


class Boolean(Scalar):
    python_type, expected, json_type = bool, "a boolean", "boolean"


class Integer(Scalar):
    """A number that is not negative."""

    python_type, expected, json_type = int, "a whole number", "integer"

    def __init__(self, minimum: int = 0, maximum: int = MAX_UINT32) -> None:
        self.minimum = minimum
        self.maximum = maximum

    def read(self, value: Any) -> Any:
        if not 0 <= super().read(value) <= self.maximum:
            raise Malformed(f"invalid value: integer `{value}`, expected a number from 0 to {self.maximum}")
        return value

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        yield from super().violations(value, at)
        if type(value) is int and value < self.minimum:
            yield at, f"{value} is less than the minimum of {self.minimum}"
        if type(value) is int and value > self.maximum < MAX_UINT32:
            yield at, f"{value} is greater than the maximum of {self.maximum}"

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        limits = {"minimum": self.minimum} | ({"maximum": self.maximum} if self.maximum < MAX_UINT32 else {})
        return {"type": self.json_type, **limits}


class Duration(Scalar):
    """Text such as `5s` or `500ms`, or a number of seconds. Forms have the text, and protobuf milliseconds."""

    python_type, expected, json_type = str, "a duration such as 5s or 500ms", "string"

    def read(self, value: Any) -> str:
        return format_duration(self.to_wire(value))

    def to_form(self, value: int) -> str:
        return format_duration(value)

    def to_wire(self, value: Any) -> int:
        milliseconds = parse_duration(value)
        if milliseconds is None:
            raise wrong_type(value, self.expected)
        return milliseconds

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        if parse_duration(value) is None:
            yield at, f"{shown(value)} is not {self.expected}"

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {
            "type": ["string", "integer"],
            "pattern": DURATION_PATTERN,
            "minimum": 0,
            "maximum": LONGEST_NUMBER,
        }


class Text(Scalar):
    """A string. `pattern`, which describes the whole text, and `max_length` are rules of manifests.

    The server checks names with separate functions when templates are rendered.
    """

    python_type, expected, json_type = str, "a string", "string"

    def __init__(self, pattern: str = "", max_length: int | None = None) -> None:
        self.pattern = pattern
        self.max_length = max_length

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        yield from super().violations(value, at)
        if not isinstance(value, str):
            return
        if self.pattern and not re.fullmatch(self.pattern, value):
            yield at, f"{shown(value)} does not match {shown(self.pattern)}"
        if self.max_length is not None and len(value) > self.max_length:
            yield at, f"{shown(value)} is longer than {self.max_length} characters"

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        rules = {"type": self.json_type, "pattern": self.pattern or None, "maxLength": self.max_length}
        return {name: rule for name, rule in rules.items() if rule is not None}


class ScalarText(Text):
    """The server accepts any scalar and stores its text; a blank value becomes the empty text."""

    def read(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        if value is None:
            return ""
        if isinstance(value, dict | list):
            raise wrong_type(value, "a string")
        return str(value).lower() if isinstance(value, bool) else str(value)


class TrimmedText(ScalarText):
    """Stored without white space at both ends."""

    def read(self, value: Any) -> str:
        return super().read(value).strip()


class Words(Scalar):
    """One of several words."""

    python_type, expected = str, "a string"

    def __init__(self, *words: str) -> None:
        self.words = words

    def read(self, value: Any) -> Any:
        if super().read(value) not in self.words:
            listed = ", ".join(f"`{word}`" for word in self.words)
            raise Malformed(f"unknown variant `{value}`, expected one of {listed}")
        return value

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        if value not in self.words:
            *first, last = map(shown, self.words)
            yield at, f"{shown(value)} is not one of {', '.join(first)} or {last}"

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"enum": list(self.words)}


class Enumeration(Words):
    """A protobuf enumeration. The words are in the order of its values and by default their names."""

    def __init__(self, wire: Any, *words: str) -> None:
        names = words or tuple(wire.keys())
        super().__init__(*names)
        self.name = wire.DESCRIPTOR.name
        self._words: dict[int, str] = dict(zip(wire.values(), names, strict=True))
        self._numbers = {word: number for number, word in self._words.items()}

    def to_form(self, value: int) -> str:
        word = self._words.get(value)
        if word is None:
            raise Rejected(f"{value} is no known {self.name}")
        return word

    def to_wire(self, value: str) -> int:
        return self._numbers[value]
