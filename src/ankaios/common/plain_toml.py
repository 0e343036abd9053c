"""Reads a config file of the simple kind without a TOML library: keys with strings and truth values, and comments.

Comes in: text. Goes out: the same table that `tomllib` makes of it, or nothing if more of TOML is in it than is known
here, right or wrong. The library takes a tenth of the start of an agent and a quarter of that of `ank`.
"""

from __future__ import annotations

_KEY = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_WORDS = {"true": True, "false": False}
_BLANKS = " \t"


def read_plain_toml(text: str) -> dict[str, str | bool] | None:
    table: dict[str, str | bool] = {}
    for line in text.split("\n"):
        key, equals, rest = line.strip(_BLANKS).partition("=")
        if not line.replace("\t", "").isprintable():
            return None
        if not line.strip(_BLANKS) or key.startswith("#"):
            continue
        key = key.rstrip(_BLANKS)
        value = _value(rest.lstrip(_BLANKS)) if equals else None
        if value is None or not key or not _KEY.issuperset(key) or key in table:
            return None
        table[key] = value
    return table


def _value(text: str) -> str | bool | None:
    """With nothing behind it but a comment."""
    quote = text[:1]
    if quote not in ("'", '"'):
        return _WORDS.get(text.partition("#")[0].rstrip(_BLANKS))
    value, closing, behind = text[1:].partition(quote)
    is_plain = closing and not (quote == '"' and "\\" in value)
    return value if is_plain and behind.lstrip(_BLANKS)[:1] in ("", "#") else None
