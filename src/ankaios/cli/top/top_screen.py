"""Draws `ank top` for a terminal of any size, with `rich`.

Input: rows, nodes, the view, and the lines of an open pane. Output: one renderable that fills the terminal. Owns
nothing. Texts of workloads are printed without control characters.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ankaios.cli.terminal.table import printable
from ankaios.cli.top.top_model import NodeRow, TopRow, View, selected_of
from ankaios.cli.views.usage_texts import memory_text, usage_cells
from ankaios.cli.views.workload_rows import health_style, state_style

_COLOURS = {"good": "green", "busy": "yellow", "bad": "bold red", "dim": "dim"}
_KEYS = "[/] filter  [s] sort  [↑↓] select  [w] why  [l] logs  [?] help  [q] quit"
_PANE_KEYS = "[Esc] back  [q] back"
HELP = (
    "Nodes and workloads of the cluster. Problems are listed first, then the highest load.",
    "",
    "  /        type a filter: part of a name, node, runtime or state; Enter keeps it, Esc removes it",
    "  s        sort by problem, CPU, memory, restarts or name",
    "  ↑ ↓      select a workload",
    "  w Enter  why the workload is in its state",
    "  l        follow its output",
    "  q        close this page, or end",
)
_WIDE = 110
_BAR = 10


class _Column(NamedTuple):
    """`ratio` is the share of the free width; without one the column is as wide as its content."""

    name: str
    ratio: int | None = None
    is_number: bool = False


class Picture(NamedTuple):
    """Everything on the screen. `notice` is a message about the connection or missing values."""

    rows: Sequence[TopRow]
    total: int
    nodes: Sequence[NodeRow]
    view: View
    pane_lines: Sequence[str] = ()
    notice: str = ""


def draw(picture: Picture, width: int, height: int) -> Group:
    lines: list[Text | Table] = [_title(picture, width)]
    space = height - 2
    if picture.view.pane:
        lines += _pane(picture, space)
    else:
        shown_nodes = picture.nodes[: max(1, min(len(picture.nodes), height // 4))]
        lines += [_node_table(shown_nodes, len(picture.nodes)), Text()]
        space -= len(shown_nodes) + 3
        lines.append(_workload_table(picture, width, space))
        used = len(shown_nodes) + 3 + min(len(picture.rows), space - 1)
        lines += [Text()] * max(height - 2 - used, 0)
    return Group(*lines, _footer(picture, width))


def _title(picture: Picture, width: int) -> Text:
    counts = {"bad": 0, "busy": 0, "good": 0, "dim": 0}
    for top in picture.rows:
        counts["bad" if top.rank == 0 else state_style(top.row.state)] += 1
    title = Text("ank top", style="bold", no_wrap=True, overflow="ellipsis")
    title.append(f"  {picture.total} workloads", style="not bold")
    for style, word in (("bad", "with a problem"), ("busy", "changing"), ("good", "running")):
        if counts[style]:
            title.append(f"  ● {counts[style]} {word}", style=_COLOURS[style])
    if picture.notice:
        title.append(f"  {printable(picture.notice)}", style="reverse")
    title.truncate(width, overflow="ellipsis")
    return title


def _grid(*columns: _Column) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="bold dim", expand=True)
    for column in columns:
        table.add_column(
            column.name,
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=column.ratio,
        )
    return table


def _node_table(nodes: Sequence[NodeRow], total: int) -> Table:
    more = f" (+{total - len(nodes)})" if total > len(nodes) else ""
    free, workloads = _Column("FREE", is_number=True), _Column("WORKLOADS", is_number=True)
    table = _grid(_Column(f"NODE{more}", 2), _Column("CPU"), free, workloads, _Column("", 3))
    for node in nodes:
        problems = Text(f"{node.problems} with a problem", style="bold red") if node.problems else Text()
        numbers = memory_text(node.free_bytes), str(node.workloads)
        table.add_row(Text(printable(node.name)), _bar(node.cpu_percent), *numbers, problems)
    return table


def _bar(percent: int) -> Text:
    filled = round(min(percent, 100) / 100 * _BAR)
    colour = "red" if percent >= 90 else "yellow" if percent >= 70 else "green"
    bar = Text("█" * filled, style=colour)
    bar.append("░" * (_BAR - filled), style="dim")
    bar.append(f" {percent:3}%")
    return bar


def _workload_table(picture: Picture, width: int, space: int) -> Table:
    wide = width >= _WIDE
    names = ("CPU", "MEMORY", "RESTARTS" if wide else "RST", "UPTIME")
    columns = [_Column("WORKLOAD", 4), _Column("NODE", 2), _Column("STATE")]
    columns += [_Column(name, is_number=True) for name in names]
    if wide:
        columns += [_Column("HEALTH"), _Column("RUNTIME", 2), _Column("REASON", 9)]
    table = _grid(*columns)
    chosen = selected_of(picture.view, list(picture.rows)) if picture.view.selected else None
    for top in visible_rows(picture.rows, chosen, space - 1):
        table.add_row(*_cells(top, wide), style="reverse" if top.row.instance == chosen else "")
    return table


def visible_rows(rows: Sequence[TopRow], chosen: object, space: int) -> Sequence[TopRow]:
    """As many rows as there is space for, with the selected one among them."""
    place = next((number for number, top in enumerate(rows) if top.row.instance == chosen), 0)
    first = max(0, min(place - space // 2, len(rows) - space))
    return rows[first : first + max(space, 1)]


def _cells(top: TopRow, wide: bool) -> list[Text | str]:
    row = top.row
    cpu, memory, uptime = usage_cells(top.usage)
    cells: list[Text | str] = [
        Text(printable(row.name)),
        Text(printable(row.agent)),
        Text(row.state, style=_COLOURS[state_style(row.state)]),
        cpu,
        memory,
        str(row.restarts) if row.restarts else "-",
        uptime,
    ]
    if wide:
        health = Text(row.health or "-", style=_COLOURS[health_style(row.health) or "dim"])
        cells += [health, Text(printable(row.runtime)), Text(printable(row.reason), style="dim")]
    elif row.health == "Unhealthy":
        cells[2] = Text(f"{row.state} unhealthy", style="bold red")
    return cells


def _pane(picture: Picture, space: int) -> list[Text | Table]:
    name = printable(picture.view.selected[0]) if picture.view.selected else ""
    titles = {"why": f"Why '{name}' is in its state", "logs": f"Output of '{name}'", "help": "Keys"}
    lines: list[Text | Table] = [Text(titles[picture.view.pane], style="bold"), Text()]
    shown = list(picture.pane_lines)
    shown = shown[-(space - 2) :] if picture.view.pane == "logs" else shown[: space - 2]
    lines += [Text(printable(line.expandtabs()), no_wrap=True, overflow="ellipsis") for line in shown]
    return lines + [Text()] * (space - 2 - len(shown))


def _footer(picture: Picture, width: int) -> Text:
    view = picture.view
    if view.typing:
        return Text(f"filter: {printable(view.filter)}█  [Enter] keep  [Esc] remove", style="bold", no_wrap=True)
    if view.pane:
        return Text(_PANE_KEYS, style="dim", no_wrap=True)
    chosen = f"sorted by {view.sort}" + (f", filter '{printable(view.filter)}'" if view.filter else "")
    footer = Text(_KEYS, style="dim", no_wrap=True, overflow="ellipsis")
    if len(_KEYS) + len(chosen) + 2 <= width:
        footer.append(" " * (width - len(_KEYS) - len(chosen)) + chosen)
    footer.truncate(width, overflow="ellipsis")
    return footer
