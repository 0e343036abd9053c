"""Tables in the format of Eclipse Ankaios: no borders, three spaces between columns, cells padded to the widest.

`table_lines` is a pure function from cells and a width to lines. `styled_table` adds what a terminal needs: colours,
and protection against control characters in the cells.
"""

from collections.abc import Callable, Sequence

from ankaios.cli.terminal.output import CliOutput

Paint = Callable[[str, int, int], str]
"""Gets a padded cell, its row (0 is the header) and its column; returns the coloured cell."""
CellStyle = Callable[[int, int], str]
"""The style of a cell by its row (0 is the first below the header) and column; empty for none."""

_GAP = "   "
WRAP = "wrap"
CUT_LAST = "cut last"
CUT_LINES = "cut lines"


def print_table(
    output: CliOutput, header: Sequence[str], rows: Sequence[Sequence[str]], overflow: str = CUT_LINES
) -> None:
    output.line("\n".join(styled_table(output, header, rows, overflow)))


def styled_table(
    output: CliOutput,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    overflow: str = CUT_LINES,
    style: CellStyle = lambda row, column: "",
) -> list[str]:
    if not output.is_terminal:
        return table_lines(header, rows, output.width, overflow)

    def paint(cell: str, row: int, column: int) -> str:
        name = style(row - 1, column) if row else "header"
        return output.paint(cell, name) if name else cell

    return table_lines(header, [tuple(map(printable, row)) for row in rows], output.width, overflow, paint)


def table_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    overflow: str = CUT_LINES,
    paint: Paint | None = None,
) -> list[str]:
    """Header and rows as lines that are not wider than `width`.

    `overflow` selects what happens if the last column does not fit: `WRAP` continues it on further lines, `CUT_LAST`
    cuts it with `...`; before that, the other columns are narrowed to make space for its header. If not even the
    headers fit, and with `CUT_LINES`, whole lines are cut; such lines are not coloured.
    """
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    if overflow != CUT_LINES:
        widths = _narrowed(widths, list(map(display_width, header)), width)
        table = [[*map(_shortened, row[:-1], widths), row[-1]] for row in table]
    space = width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
    if space < display_width(header[-1]):
        overflow = CUT_LINES
    if overflow == CUT_LINES and widths[-1] > space:
        return [clip(_join(row, widths), width) for row in table]
    widths[-1] = min(widths[-1], space)
    lines: list[str] = []
    for number, row in enumerate(table):
        first, *others = _fit(row[-1], space, overflow)
        lines.append(_join([*row[:-1], first], widths, number, paint))
        blank = [""] * (len(row) - 1)
        lines += [_join([*blank, other], widths, number, paint) for other in others]
    return lines


def _narrowed(widths: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Narrow the columns until the last header fits: first the widest column, and the last but one at the end."""
    narrowed, width = list(widths), width - len(_GAP) * (len(widths) - 1)
    if sum(least) > width:
        return narrowed
    for columns in (range(len(widths) - 2), range(len(widths) - 1)):
        while sum(narrowed[:-1]) + least[-1] > width:
            wide = [column for column in columns if narrowed[column] > least[column]]
            if not wide:
                break
            narrowed[max(wide, key=narrowed.__getitem__)] -= 1
    return narrowed


def _shortened(text: str, width: int) -> str:
    return text if display_width(text) <= width else clip(text, width - 1) + "…"


def _fit(text: str, space: int, overflow: str) -> list[str]:
    if display_width(text) <= space:
        return [text]
    if overflow == CUT_LAST:
        return [clip(text, space - 3) + "..."]
    parts = []
    while text:
        part = clip(text, space) or text[0]
        parts.append(part)
        text = text[len(part) :]
    return parts


def _join(cells: Sequence[str], widths: Sequence[int], row: int = 0, paint: Paint | None = None) -> str:
    padded = [cell + " " * (width - display_width(cell)) for cell, width in zip(cells, widths, strict=True)]
    if paint:
        padded = [paint(cell, row, column) for column, cell in enumerate(padded)]
    return _GAP.join(padded)


def display_width(text: str) -> int:
    """Columns on a terminal: East Asian characters take two, combining characters none."""
    if text.isascii():
        return len(text)
    import unicodedata  # only for texts that need it

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def clip(text: str, width: int) -> str:
    """The longest beginning of the text that fits into `width` columns."""
    if width <= 0:
        return ""
    if text.isascii():
        return text[:width]
    used = 0
    for index, char in enumerate(text):
        used += display_width(char)
        if used > width:
            return text[:index]
    return text


def one_line(text: str) -> str:
    """A text of several lines, as programs report errors, as one printable line."""
    return printable(" ".join(text.splitlines()))


def printable(text: str) -> str:
    """The text without control characters, which could move the cursor or change the colours of the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
