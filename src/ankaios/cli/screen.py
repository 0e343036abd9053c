"""A table that is drawn again and again: in place on a terminal, one after the other in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.cli.table import display_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ankaios.cli.output import Output

MANY_ROWS = 100
"""Larger tables are not drawn for every single change: that would cost more than all changes together."""

_COLUMN_ONE = "\x1b[1G"
_CLEAR_REST = "\x1b[K"


class Screen:
    """Owns what was drawn last and how many rows of the terminal that took."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._drawn = 0
        self._shown: tuple[list[str], int] | None = None

    def draw(self, lines: Sequence[str], below: Sequence[str] = ()) -> None:
        """`below` is for people at a terminal that has room for it."""
        if self._output.quiet:
            return
        if self._output.is_terminal:
            whole = [*lines, *below]
            self._draw_anew(whole if self._has_room(whole) else self._that_fit(lines))
        else:
            self._output.write("\n".join(lines) + "\n\n")

    def _draw_anew(self, lines: list[str]) -> None:
        """Only if there is something new: terminals may be far away."""
        shown = (lines, self._output.width)
        if shown != self._shown:
            self._shown = shown
            self._output.write(self._in_place(lines))

    def _that_fit(self, lines: Sequence[str]) -> list[str]:
        """A table higher than the terminal cannot be overwritten: what scrolled away is out of reach."""
        if self._has_room(lines):
            return list(lines)
        kept = max(self._output.height - 2, 1)
        return [*lines[:kept], f"... and {len(lines) - kept} more"]

    def _has_room(self, lines: Sequence[str]) -> bool:
        height = self._output.height
        return not height or self._rows_of(lines) < height

    def _rows_of(self, lines: Sequence[str]) -> int:
        """Tables are never wider than the terminal; a command to be copied may go on in the next row."""
        width = max(self._output.width, 1)
        return sum(max(1, -(-_visible_width(line) // width)) for line in lines)

    def _in_place(self, lines: Sequence[str]) -> str:
        width = self._output.width
        text = _COLUMN_ONE
        if self._drawn:
            text += f"\x1b[{self._drawn}A"
        for line in lines:
            # A full line leaves the cursor on its last character, which clearing the rest would take away.
            text += line + ("" if _visible_width(line) >= width else _CLEAR_REST) + "\n"
        rows = self._rows_of(lines)
        surplus = max(self._drawn - rows, 0)
        text += (_CLEAR_REST + "\n") * surplus
        self._drawn = rows + surplus
        return text


def _visible_width(line: str) -> int:
    """Without colours: everything from ESC to the final `m`."""
    visible, *coloured = line.split("\x1b[")
    return display_width(visible + "".join(part.partition("m")[2] for part in coloured))
