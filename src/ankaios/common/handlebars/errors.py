"""Errors of templates, with the texts that users read.

`TemplateSyntaxError` belongs to the text of a template, `TemplateRenderError` to the text together with a context.
Helpers and path lookups raise `Failure` with the reason; the renderer adds the place.
"""

from __future__ import annotations

from unicodedata import category

from ankaios.common.errors import Rejected

_SHORT_ESCAPES = {"\0": "\\0", "\t": "\\t", "\n": "\\n", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


class TemplateSyntaxError(Rejected):
    """The text is not a template: nothing can be rendered from it."""


class TemplateRenderError(Rejected):
    """A well-formed template cannot be rendered with this context."""


class Failure(Exception):
    """The reason why an element cannot be rendered; its place is added later."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def missing_variable(path: str | None) -> Failure:
    """Strict mode: a missing value is an error."""
    shown = "None" if path is None else f"Some({quoted(path)})"
    return Failure(f"Failed to access variable in strict mode {shown}")


def missing_parameter(helper: str, which: str) -> Failure:
    return Failure(f"Helper/Decorator {helper} param {which} required but not found")


def quoted(text: str) -> str:
    """Quote a text so that control and invisible characters become visible."""
    return '"' + "".join(map(_visible, text)) + '"'


def _visible(char: str) -> str:
    if short := _SHORT_ESCAPES.get(char):
        return short
    if char.isascii() and char.isprintable():
        return char
    if char.isprintable() and category(char) not in ("Mn", "Me"):
        return char
    return f"\\u{{{ord(char):x}}}"


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of an offset, both counted from 1, columns in characters."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def syntax_error(text: str, offset: int, message: str) -> TemplateSyntaxError:
    line, column = line_and_column(text, offset)
    return TemplateSyntaxError(f"Template syntax error in line {line}, col {column}: {message}")
