"""A table that is drawn again and again: in place on a terminal, one after the other in a pipe."""

from __future__ import annotations

from ankaios.cli.table import display_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ankaios.cli.output import Output

MANY_ROWS = 100
"""Larger tables are not drawn for every single change: that would cost more than all changes together."""

_COLUMN_ONE = "\x1b[1G"
_CLEAR_REST = "\x1b[K"


class Screen:
    """Owns how many lines of the terminal the last drawing took."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._drawn = 0

    def draw(self, lines: Sequence[str]) -> None:
        if self._output.quiet:
            return
        if self._output.is_terminal:
            self._output.write(self._in_place(self._that_fit(lines)))
        else:
            self._output.write("\n".join(lines) + "\n\n")

    def _that_fit(self, lines: Sequence[str]) -> list[str]:
        """A table higher than the terminal cannot be overwritten: what scrolled away is out of reach."""
        height = self._output.height
        if not height or len(lines) < height:
            return list(lines)
        kept = max(height - 2, 1)
        return [*lines[:kept], f"... and {len(lines) - kept} more"]

    def _in_place(self, lines: Sequence[str]) -> str:
        width = self._output.width
        text = _COLUMN_ONE
        if self._drawn:
            text += f"\x1b[{self._drawn}A"
        for line in lines:
            # A full line leaves the cursor on its last character, which clearing the rest would take away.
            text += line + ("" if _visible_width(line) >= width else _CLEAR_REST) + "\n"
        surplus = max(self._drawn - len(lines), 0)
        text += (_CLEAR_REST + "\n") * surplus
        self._drawn = len(lines) + surplus
        return text


def _visible_width(line: str) -> int:
    """Without colours: everything from ESC to the final `m`."""
    visible, *coloured = line.split("\x1b[")
    return display_width(visible + "".join(part.partition("m")[2] for part in coloured))
