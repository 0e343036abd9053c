"""The rendered text: applies the indentation of partials and limits the size of the output."""

from __future__ import annotations

from typing import Final, NamedTuple

from ankaios.common.handlebars.errors import Failure

MAX_OUTPUT: Final = 64 * 1024 * 1024
"""Maximum number of characters, as protection against mistakes and attacks."""


class Indentation(NamedTuple):
    """The indentation that applies after a partial."""

    indent: str
    at_line_start: bool
    parts: int


class TemplateOutput:
    """Collects texts.

    [impl->swdd~config-renderer-supports-rendering-with-keeping-line-indent~1]
    """

    __slots__ = ("_at_line_start", "_indent", "_limit", "_parts", "_size")

    def __init__(self, limit: int) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._limit = limit
        self._indent = ""
        self._at_line_start = False

    def discarded(self) -> TemplateOutput:
        """Return a separate output with the same limit, for text that is discarded."""
        return TemplateOutput(self._limit)

    def text(self) -> str:
        return "".join(self._parts)

    def write(self, text: str) -> None:
        """Add a text, indented.

        The indent is written before the first character of each line, also of an empty one, unless a text begins with
        an empty line.
        """
        if not text:
            return
        indent = self._indent
        if indent:
            self._check(len(text) + (text.count("\n") + 1) * len(indent))
            if self._at_line_start and not text.startswith(("\n", "\r")):
                self._append(indent)
            text = text[:-1].replace("\n", "\n" + indent) + text[-1]
        self._at_line_start = text[-1] in "\r\n"
        self._append(text)

    def begin_partial(self, indent: str, at_line_start: bool) -> Indentation:
        """Indent the lines of a partial. Return the value for `end_partial`."""
        before = Indentation(self._indent, self._at_line_start, len(self._parts))
        self._indent += indent
        self._at_line_start = at_line_start
        return before

    def end_partial(self, before: Indentation) -> None:
        """If the partial wrote nothing, the line continues as without it."""
        self._indent = before.indent
        if len(self._parts) == before.parts:
            self._at_line_start = before.at_line_start

    def _append(self, text: str) -> None:
        self._check(len(text))
        self._size += len(text)
        self._parts.append(text)

    def _check(self, more: int) -> None:
        if self._size + more > self._limit:
            raise Failure(f"the output is longer than {self._limit} characters, make the template or its lists smaller")
