"""Literal values in a template: `"text"`, `'text'`, `8080`, `true`, `null`, `[1, 2]`, `{"a": 1}`.

First the extent of a literal is found, then it is read as JSON. Text with the shape of a literal that is not JSON
(`01`, `['a']`) is a fault in the template. Text without that shape may be a path (`[my key]`, `1st`, `nullable`).
"""

from __future__ import annotations

import re
from typing import Final

from ankaios.common.handlebars.errors import quoted, syntax_error
from ankaios.common.handlebars.nodes import Literal
from ankaios.common.handlebars.values import parse_number

MAX_LITERAL_DEPTH: Final = 50

SYMBOL: Final = r"[A-Za-z0-9_$:\-\x80-\U0010ffff]"
_BLANKS: Final = re.compile(r"[ \t\r\n]*+")

_STRING: Final = (
    r'"(?>(?:[^"\\]++|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*)"' r"|'(?>(?:[^'\\]++|\\['\\/bfnrt]|\\u[0-9A-Fa-f]{4})*)'"
)
_SCALAR: Final = re.compile(
    rf"(?P<string>{_STRING})"
    rf"|(?P<number>-?[0-9]++\.?+[0-9]*+(?>(?:E-?[0-9]++)?))(?!{SYMBOL})"
    rf"|(?P<word>null|true|false)(?!{SYMBOL})"
)
_KEY: Final = re.compile(rf"(?:{_STRING})[ \t\r\n]*+:[ \t\r\n]*+")
_WORDS: Final = {"null": None, "true": True, "false": False}
_CLOSING: Final = {"[": "]", "{": "}"}


def skip_blanks(text: str, start: int) -> int:
    """Return the next position that is not a blank or a line break."""
    match = _BLANKS.match(text, start)
    return match.end() if match else start


def read_literal(text: str, start: int) -> tuple[Literal, int] | None:
    """Read the literal at this position; None if there is none."""
    if scalar := _SCALAR.match(text, start):
        return Literal(_scalar_value(text, scalar)), scalar.end()
    end = _container_end(text, start, 0)
    return None if end is None else (Literal(_parse_json(text, start, end)), end)


def _scalar_value(text: str, scalar: re.Match[str]) -> object:
    written = scalar[0]
    match scalar.lastgroup:
        case "word":
            return _WORDS[written]
        case "number":
            number = parse_number(written)
            if number is None:
                raise _invalid(text, scalar.start(), scalar.end())
            return number
        case _:
            return _string_value(text, scalar)


def _string_value(text: str, string: re.Match[str]) -> object:
    inner = string[0][1:-1]
    if "\\" not in inner and inner.isprintable():
        return inner
    if string[0][0] == "'":
        inner = inner.replace("\\'", "'").replace('"', '\\"')
    return _parse_json(text, string.start(), string.end(), f'"{inner}"')


def _container_end(text: str, start: int, depth: int) -> int | None:
    """Return the end of the list or map at this position, or None if there is none."""
    closing = _CLOSING.get(text[start : start + 1])
    if closing is None:
        return None
    if depth == MAX_LITERAL_DEPTH:
        raise syntax_error(text, start, f"lists and maps may be nested {MAX_LITERAL_DEPTH} levels deep, not more")
    position: int | None = skip_blanks(text, start + 1)
    first = True
    while position is not None and text[position : position + 1] != closing:
        if text[position : position + 1] == ",":
            position = _element_end(text, skip_blanks(text, position + 1), depth, closing)
        else:
            position = _element_end(text, position, depth, closing) if first else None
        first = False
    return None if position is None else position + 1


def _element_end(text: str, start: int, depth: int, closing: str) -> int | None:
    if closing == "}":
        key = _KEY.match(text, start)
        if key is None:
            return None
        start = key.end()
    scalar = _SCALAR.match(text, start)
    end = scalar.end() if scalar else _container_end(text, start, depth + 1)
    return None if end is None else skip_blanks(text, end)


def _parse_json(text: str, start: int, end: int, written: str | None = None) -> object:
    """Read a list, a map or an escaped text. The json module is loaded only for templates that have one."""
    import json

    try:
        value = json.loads(text[start:end] if written is None else written, parse_int=_number, parse_float=_number)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        raise _invalid(text, start, end) from None
    return value


def _number(written: str) -> int | float:
    number = parse_number(written)
    if number is None:
        raise ValueError(written)
    return number


def _invalid(text: str, start: int, end: int) -> Exception:
    shown = quoted(text[start : min(end, start + 40)])
    return syntax_error(text, start, f'invalid parameter {shown}, write it as in JSON, e.g. 10, 0.5, "text", [1, 2]')
