"""Tables as every `ank` prints them: no borders, three blanks between columns, cells padded to the widest.

Pure: cells and a width come in, lines go out. `paint` may colour a finished cell; it never changes what is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Paint = Callable[[str, int, int], str]

_GAP = "   "
WRAP = "wrap"
CUT_LAST = "cut last"
CUT_LINES = "cut lines"


def table_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    overflow: str = CUT_LINES,
    paint: Paint | None = None,
) -> list[str]:
    """Header and rows as lines no wider than `width`.

    `overflow` says what happens to the last column if it does not fit: `WRAP` continues it on further lines, `CUT_LAST`
    ends it with `...`; before that, the others make room for its header. If not even the headers fit, and with
    `CUT_LINES`, whole lines are cut. `paint` gets the padded cell, its row (0 is the header) and its column; lines that
    are cut as a whole stay uncoloured.
    """
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    if overflow != CUT_LINES:
        widths = _narrowed(widths, list(map(display_width, header)), width)
        table = [[*map(_shortened, row[:-1], widths), row[-1]] for row in table]
    room = width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
    if room < display_width(header[-1]):
        overflow = CUT_LINES
    if overflow == CUT_LINES and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        return [clip(_join(row, widths), width) for row in table]
    widths[-1] = min(widths[-1], room)
    lines: list[str] = []
    for number, row in enumerate(table):
        first, *others = _fit(row[-1], room, overflow)
        lines.append(_join([*row[:-1], first], widths, number, paint))
        blank = [""] * (len(row) - 1)
        lines += [_join([*blank, other], widths, number, paint) for other in others]
    return lines


def _narrowed(widths: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """So that the last header fits, if all of them do: the widest column gives first, and the last but one at last."""
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


def _fit(text: str, room: int, overflow: str) -> list[str]:
    if display_width(text) <= room:
        return [text]
    if overflow == CUT_LAST:
        return [clip(text, room - 3) + "..."]
    parts = []
    while text:
        part = clip(text, room) or text[0]
        parts.append(part)
        text = text[len(part) :]
    return parts


def _join(cells: Sequence[str], widths: Sequence[int], row: int = 0, paint: Paint | None = None) -> str:
    padded = [cell + " " * (width - display_width(cell)) for cell, width in zip(cells, widths, strict=True)]
    if paint:
        padded = [paint(cell, row, column) for column, cell in enumerate(padded)]
    return _GAP.join(padded)


def display_width(text: str) -> int:
    """Columns on a terminal: East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    import unicodedata  # only for texts that need it

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def clip(text: str, width: int) -> str:
    """The longest beginning that fits into `width` columns."""
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


def harmless(text: str) -> str:
    """Text of others without control characters: it must not move the cursor or change colours of a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
