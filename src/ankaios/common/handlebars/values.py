"""Values in templates: conversion to text and boolean, equality and order.

Values are JSON values: configuration items are texts, lists and maps; literals in a template can also be numbers,
booleans and null. Numbers are typed: an integer never equals a float.
"""

from __future__ import annotations

import re
from typing import Final

from ankaios.common.handlebars.errors import Failure

Value = str | list["Value"] | dict[str, "Value"]
"""The value of a configuration item."""

MAX_VALUE_DEPTH: Final = 100


class Missing:
    """The type of `MISSING`: the value does not exist, which differs from null."""

    __slots__ = ()


MISSING: Final = Missing()

_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MAX_UNSIGNED: Final = 2**64 - 1
_MIN_SIGNED: Final = -(2**63)


def is_true(value: object, *, include_zero: bool = False) -> bool:
    """Empty texts, lists and maps, zero, false, null and missing values are false."""
    if include_zero and _is_number(value):
        return True
    return value is not MISSING and bool(value)


def to_text(value: object, depth: int = 0) -> str:
    """Return the printed text: lists as `[a, b]`, maps as `[object]`, null as empty text."""
    match value:
        case str():
            return value
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case list():
            if depth > MAX_VALUE_DEPTH:
                raise Failure(f"a list is nested deeper than {MAX_VALUE_DEPTH} levels and cannot be printed")
            return "[" + ", ".join([to_text(item, depth + 1) for item in value]) + "]"
        case dict():
            return "[object]"
        case _:
            return str(value)


def are_equal(left: object, right: object, depth: int = 0) -> bool:
    """Compare values and types: the text `8080`, the number 8080 and the number 8080.0 are different."""
    if type(left) is not type(right):
        return False
    if depth > MAX_VALUE_DEPTH:
        raise Failure(f"a value is nested deeper than {MAX_VALUE_DEPTH} levels and cannot be compared")
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(are_equal(a, b, depth + 1) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(are_equal(left[key], right[key], depth + 1) for key in left)
    return left == right


def order(left: object, right: object) -> int | None:
    """Return -1, 0 or 1 if left is less than, equal to or greater than right; None if they cannot be compared.

    Two texts are compared as texts, a text with a number as numbers.
    """
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    a, b = _as_number(left), _as_number(right)
    return None if a is None or b is None else (a > b) - (a < b)


def parse_number(text: str) -> int | float | None:
    """Read a JSON number; integers of more than 64 bits become floats. None if it is not a finite number."""
    match = _JSON_NUMBER.fullmatch(text)
    if match is None:
        return None
    if match[1] is None and match[2] is None and text != "-0" and len(text) <= len(str(_MAX_UNSIGNED)):
        integer = int(text)
        if _MIN_SIGNED <= integer <= _MAX_UNSIGNED:
            return integer
    number = float(text)
    return None if number in (float("inf"), float("-inf")) else number


def _as_number(value: object) -> int | float | None:
    if isinstance(value, str):
        return parse_number(value)
    return value if _is_number(value) else None  # type: ignore[return-value]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _float_text(value: float) -> str:
    """Return the shortest text that is read back as the same value, e.g. `0.00001`, `1e-6`, `1000.0`, `1e+16`."""
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    power = int(exponent)
    if power != -5:
        return f"{mantissa}e{power:+d}"
    sign = "-" if value < 0 else ""
    return f"{sign}0.0000{mantissa.lstrip('-').replace('.', '')}"
