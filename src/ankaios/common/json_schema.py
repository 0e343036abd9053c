"""The part of JSON Schema (draft 7) that our own schema uses. Pure: a schema and a value come in, violations go out.

Texts are those people know from the usual validators. A keyword that is not known here would silently permit
everything, so it is an error of the schema, found by its test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Schema = Mapping[str, Any]

Violation = tuple[str, str]
"""JSON pointer of the place, and what is wrong there."""

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_MAX_SHOWN = 120


class Validator:
    """Owns the schema, to which its references point, and the compiled patterns.

    `shortcuts` are for patterns that most texts match, so that sound values can do without regular expressions, which
    take time to load: if the function says True, the text matches; if it says False, the pattern decides.
    """

    def __init__(self, schema: Schema, shortcuts: Mapping[str, Callable[[str], bool]] | None = None) -> None:
        self._root = schema
        self._shortcuts = shortcuts or {}
        self._patterns: dict[str, re.Pattern[str]] = {}

    def violations(self, value: Any) -> list[Violation]:
        return list(self._check(value, self._root, ""))

    def _check(self, value: Any, schema: Schema, at: str) -> Iterator[Violation]:
        for keyword, wanted in schema.items():
            if keyword in _NOTES:
                continue
            yield from _KEYWORDS[keyword](self, value, wanted, at, schema)

    def _reference(self, value: Any, wanted: str, at: str, _: Schema) -> Iterator[Violation]:
        target: Any = self._root
        for part in wanted.removeprefix("#/").split("/"):
            target = target[part]
        yield from self._check(value, target, at)

    def _type(self, value: Any, wanted: str | list[str], at: str, _: Schema) -> Iterator[Violation]:
        kinds = [wanted] if isinstance(wanted, str) else wanted
        if not any(_TYPES[kind](value) for kind in kinds):
            listed = ", ".join(map(_shown, kinds))
            yield at, f"{_shown(value)} is not of type{'s' if len(kinds) > 1 else ''} {listed}"

    def _enum(self, value: Any, wanted: list[Any], at: str, _: Schema) -> Iterator[Violation]:
        if not any(_same(value, choice) for choice in wanted):
            *first, last = map(_shown, wanted)
            listed = f"{', '.join(first)} or {last}" if first else last
            yield at, f"{_shown(value)} is not one of {listed}"

    def _const(self, value: Any, wanted: Any, at: str, _: Schema) -> Iterator[Violation]:
        if not _same(value, wanted):
            yield at, f"{_shown(wanted)} was expected"

    def _pattern(self, value: Any, wanted: str, at: str, _: Schema) -> Iterator[Violation]:
        if isinstance(value, str) and not self._matches(value, wanted):
            yield at, f"{_shown(value)} does not match {_shown(wanted)}"

    def _matches(self, text: str, pattern: str) -> bool:
        if pattern in self._shortcuts and self._shortcuts[pattern](text):
            return True
        if pattern not in self._patterns:
            import re

            # For Python a final `$` would permit a newline behind the text.
            self._patterns[pattern] = re.compile(pattern.removesuffix("$") + (r"\Z" if pattern.endswith("$") else ""))
        return self._patterns[pattern].search(text) is not None

    def _max_length(self, value: Any, wanted: int, at: str, _: Schema) -> Iterator[Violation]:
        if isinstance(value, str) and len(value) > wanted:
            yield at, f"{_shown(value)} is longer than {wanted} characters"

    def _minimum(self, value: Any, wanted: int, at: str, _: Schema) -> Iterator[Violation]:
        if _TYPES["number"](value) and value < wanted:
            yield at, f"{_shown(value)} is less than the minimum of {wanted}"

    def _required(self, value: Any, wanted: list[str], at: str, _: Schema) -> Iterator[Violation]:
        if isinstance(value, dict):
            for name in wanted:
                if name not in value:
                    yield at, f"{_shown(name)} is a required property"

    def _properties(self, value: Any, wanted: Mapping[str, Schema], at: str, _: Schema) -> Iterator[Violation]:
        if isinstance(value, dict):
            for name, schema in wanted.items():
                if name in value:
                    yield from self._check(value[name], schema, f"{at}/{_escaped(name)}")

    def _additional(self, value: Any, wanted: Schema, at: str, schema: Schema) -> Iterator[Violation]:
        if isinstance(value, dict):
            known = schema.get("properties", {})
            for name, item in value.items():
                if name not in known:
                    yield from self._check(item, wanted, f"{at}/{_escaped(name)}")

    def _names(self, value: Any, wanted: Schema, at: str, _: Schema) -> Iterator[Violation]:
        if isinstance(value, dict):
            for name in value:
                # A key of JSON is always text; that a number is no name of ours is told by whoever uses it.
                yield from self._check(str(name), wanted, at)

    def _items(self, value: Any, wanted: Schema, at: str, _: Schema) -> Iterator[Violation]:
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._check(item, wanted, f"{at}/{index}")

    def _all_of(self, value: Any, wanted: list[Schema], at: str, _: Schema) -> Iterator[Violation]:
        for schema in wanted:
            yield from self._check(value, schema, at)

    def _one_of(self, value: Any, wanted: list[Schema], at: str, _: Schema) -> Iterator[Violation]:
        valid = sum(not any(self._check(value, schema, at)) for schema in wanted)
        if valid == 0:
            yield at, f"{_shown(value)} is not valid under any of the schemas listed in the 'oneOf' keyword"
        elif valid > 1:
            yield at, f"{_shown(value)} is valid under more than one of the schemas listed in the 'oneOf' keyword"

    def _if(self, value: Any, wanted: Schema, at: str, schema: Schema) -> Iterator[Violation]:
        if not any(self._check(value, wanted, at)):
            yield from self._check(value, schema["then"], at)


_NOTES = frozenset({"$schema", "$id", "title", "description", "default", "definitions", "then"})
_KEYWORDS: dict[str, Callable[[Validator, Any, Any, str, Schema], Iterator[Violation]]] = {
    "$ref": Validator._reference,
    "type": Validator._type,
    "enum": Validator._enum,
    "const": Validator._const,
    "pattern": Validator._pattern,
    "maxLength": Validator._max_length,
    "minimum": Validator._minimum,
    "required": Validator._required,
    "properties": Validator._properties,
    "additionalProperties": Validator._additional,
    "propertyNames": Validator._names,
    "items": Validator._items,
    "allOf": Validator._all_of,
    "oneOf": Validator._one_of,
    "if": Validator._if,
}


def _same(value: Any, other: Any) -> bool:
    """True is not 1 here."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _shown(value: Any) -> str:
    """As JSON, shortened: nobody reads a whole file in an error message."""
    import json

    text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True, separators=(",", ":"))
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _escaped(name: Any) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")
