"""The output format of `ank describe`: labelled facts, then titled tables. Empty parts are left out."""

from collections.abc import Sequence

from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.terminal.table import WRAP, printable, table_lines


class Description:
    """Owns the facts and tables that were added."""

    def __init__(self) -> None:
        self._facts: list[tuple[str, str, str]] = []
        self._tables: list[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = []

    def fact(self, label: str, value: str, style: str = "") -> None:
        if value:
            self._facts.append((f"{label}:", value, style))

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        if rows:
            self._tables.append((title, header, rows))

    def text(self, output: CliOutput) -> str:
        left = max(len(label) for label, _, _ in self._facts) + 3
        lines = []
        for label, value, style in self._facts:
            shown = printable(value) if output.is_terminal else value
            lines.append(f"{label:<{left}}{output.paint(shown, style) if style else shown}")
        for title, header, rows in self._tables:
            cells = [tuple(map(printable, row)) for row in rows] if output.is_terminal else rows
            lines += ["", f"{output.paint(title, 'header')}:"]
            lines += [f"  {line}" for line in table_lines(header, cells, output.width - 2, WRAP)]
        return "\n".join(lines)
