"""Shows lines that change: redrawn in place on a terminal, one block after the other in a pipe.

    with LiveDisplay(output) as display:
        display.show(lines)

Owns the part of the terminal that is redrawn. `rich` is imported with the first lines for a terminal.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Self, cast

from ankaios.cli.terminal.output import CliOutput

if TYPE_CHECKING:
    from rich.live import Live

    from ankaios.cli.top.top_screen import Picture

MANY_ROWS = 100
"""A table with more rows is not redrawn for every single change, because that takes longer than the changes."""


class LiveDisplay:
    def __init__(self, output: CliOutput) -> None:
        self._output = output
        self._live: Live | None = None
        self._shown: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._output.wait_writable = None  # the signal that ends the display must not interrupt its last lines
            self._live.stop()

    def show(self, lines: Sequence[str], footer: Sequence[str] = ()) -> None:
        """Show the lines. The footer is shown only on a terminal that has space for it."""
        if self._output.quiet:
            return
        if not self._output.is_terminal:
            self._output.write("\n".join(lines) + "\n\n")
            return
        visible = visible_lines(lines, footer, self._output.height)
        if visible != self._shown:  # the terminal may be at the end of a slow line
            self._shown = visible
            self._redraw(visible)

    def _redraw(self, lines: list[str]) -> None:
        from rich.text import Text

        if self._live is None:
            self._live = _start_live(self._output)
        self._live.update(Text.from_ansi("\n".join(lines)), refresh=True)


def visible_lines(lines: Sequence[str], footer: Sequence[str], height: int) -> list[str]:
    """The lines that a terminal can redraw: those that have scrolled away cannot be changed."""
    if not height or len(lines) + len(footer) < height:
        return [*lines, *footer]
    if len(lines) < height:
        return list(lines)
    kept = max(height - 2, 1)
    return [*lines[:kept], f"... and {len(lines) - kept} more"]


@contextmanager
def full_screen(output: CliOutput) -> "Iterator[Callable[[Picture, int, int], None]]":
    """Use the whole terminal; what was on it is shown again at the end."""
    from ankaios.cli.top.top_screen import draw

    live = _start_live(output, screen=True)

    def show(picture: "Picture", width: int, height: int) -> None:
        live.console.size = (width, height)  # else COLUMNS and LINES count, which no resizing changes
        live.update(draw(picture, width, height), refresh=True)

    try:
        yield show
    finally:
        output.wait_writable = None  # the signal that ends the view must not interrupt its last characters
        live.stop()


def _start_live(output: CliOutput, *, screen: bool = False) -> "Live":
    from rich.console import Console
    from rich.live import Live

    console = Console(
        file=cast("IO[str]", _OutputStream(output)), force_terminal=True, highlight=False, markup=False, emoji=False
    )
    live = Live(
        console=console,
        screen=screen,
        auto_refresh=False,
        vertical_overflow="visible",
        redirect_stdout=False,
        redirect_stderr=False,
    )
    live.start()
    return live


class _OutputStream(io.TextIOBase):
    """Lets `rich` write to the output of the command, which keeps the connection alive while the terminal is slow."""

    def __init__(self, output: CliOutput) -> None:
        self._output = output

    def write(self, text: str) -> int:
        self._output.write(text)
        return len(text)

    def isatty(self) -> bool:
        return True
