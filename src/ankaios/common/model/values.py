"""Plain values of YAML, JSON and the plain form, and the error texts for invalid values.

Two kinds of error texts are prescribed: `Malformed` has the texts of the server, a `Violation` those of JSON schema
validators, which the command line prints.
"""

from __future__ import annotations

from typing import Any

from ankaios.common.errors import Rejected

Form = dict[str, Any]

Violation = tuple[str, str]
"""JSON pointer of the place, and the fault."""

_MAX_SHOWN = 120


class Malformed(Rejected):
    """A value does not match its declaration. `reason` is the fault and `path` its place; `str()` has both."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def below(self, part: str) -> Malformed:
        """Return the same fault with the path relative to one level higher."""
        separator = "." if self.path and not self.path.startswith("[") else ""
        return Malformed(self.reason, f"{part}{separator}{self.path}")


def wrong_type(value: Any, expected: str) -> Malformed:
    return Malformed(f"invalid type: {_type_of(value)}, expected {expected}")


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "unit value"
        case bool():
            return f"boolean `{str(value).lower()}`"
        case int():
            return f"integer `{value}`"
        case float():
            return f"floating point `{value}`"
        case str():
            return f'string "{value}"'
        case list():
            return "sequence"
    return "map"


def read_map(value: Any) -> Form:
    """Return the map; a blank value is an empty map. All keys must be strings."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong_type(value, "a map")
    for key in value:
        if not isinstance(key, str):
            raise wrong_type(key, "a string as key")
    return value


def read_list(value: Any) -> list[Any]:
    """Return the list; a blank value is an empty list."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(value, "a sequence")
    return value


def shown(value: Any) -> str:
    """Return the value as JSON, shortened for messages."""
    import json

    text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True, separators=(",", ":"))
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def not_of_type(value: Any, *types: str) -> str:
    return f"{shown(value)} is not of type{'s' if len(types) > 1 else ''} {', '.join(map(shown, types))}"


def pointer(above: str, part: Any) -> str:
    """Return the JSON pointer of a part of the value that `above` points to."""
    return f"{above}/{str(part).replace('~', '~0').replace('/', '~1')}"
