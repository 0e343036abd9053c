"""Tables that are printed once and cut at the width of the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ankaios.cli.output import Output
from ankaios.cli.table import harmless, table_lines


def print_table(output: Output, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    output.line("\n".join(plain_lines(output, header, rows)))


def plain_lines(output: Output, header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def paint(cell: str, row: int, column: int) -> str:
        return output.paint(cell, "header") if row == 0 else cell

    if output.is_terminal:
        rows = [tuple(map(harmless, row)) for row in rows]
    return table_lines(header, rows, output.width, paint=paint)
