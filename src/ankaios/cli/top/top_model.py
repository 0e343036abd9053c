"""What `ank top` shows: pure functions from messages to sorted rows, and from keys to the next view.

Input: execution states, resource usage, agents, keys. Output: rows and views. Owns nothing.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ankaios.cli.views.workload_rows import Instance, WorkloadRow, state_style
from ankaios.common.pb import ank_base_pb2 as base

SORTS = ("problem", "cpu", "memory", "restarts", "name")
_RANKS = {"bad": 0, "busy": 1, "good": 2, "dim": 3}


class TopRow(NamedTuple):
    """One workload instance. `usage` is None while it is unknown."""

    row: WorkloadRow
    usage: base.ResourceUsage | None

    @property
    def rank(self) -> int:
        """0 for a problem."""
        return 0 if self.row.health == "Unhealthy" else _RANKS[state_style(self.row.state)]

    @property
    def cpu(self) -> int:
        return self.usage.cpuMillis if self.usage is not None else -1

    @property
    def memory(self) -> int:
        return self.usage.memoryBytes if self.usage is not None else -1


class NodeRow(NamedTuple):
    name: str
    cpu_percent: int
    free_bytes: int
    workloads: int
    problems: int


class View(NamedTuple):
    """What the user chose. `pane` is an open pane: `why`, `logs`, `help`, or empty; `typing`: a filter is typed."""

    sort: str = SORTS[0]
    filter: str = ""
    typing: bool = False
    selected: Instance | None = None
    pane: str = ""
    ended: bool = False


def top_rows(rows: Iterable[WorkloadRow], usage: Mapping[Instance, base.ResourceUsage], view: View) -> list[TopRow]:
    found = [
        TopRow(row, usage.get(row.instance))
        for row in rows
        if view.filter.lower() in " ".join((row.name, row.agent, row.runtime, row.state)).lower()
    ]
    return sorted(found, key=lambda top: _sort_key(top, view.sort))


def _sort_key(top: TopRow, sort: str) -> tuple[object, ...]:
    match sort:
        case "cpu":
            return (-top.cpu, top.row.instance)
        case "memory":
            return (-top.memory, top.row.instance)
        case "restarts":
            return (-top.row.restarts, top.row.instance)
        case "name":
            return (top.row.instance,)
        case _:
            return (top.rank, -top.cpu, top.row.instance)


def node_rows(agents: Mapping[str, base.AgentAttributes], rows: Iterable[TopRow]) -> list[NodeRow]:
    """All connected nodes, those with the most problems and the highest load first."""
    counts: dict[str, list[int]] = {name: [0, 0] for name in agents}
    for top in rows:
        if top.row.agent in counts:
            counts[top.row.agent][0] += 1
            counts[top.row.agent][1] += top.rank == 0
    found = [
        NodeRow(name, agent.status.cpu_usage.cpu_usage, agent.status.free_memory.free_memory, *counts[name])
        for name, agent in agents.items()
    ]
    return sorted(found, key=lambda node: (-node.problems, -node.cpu_percent, node.name))


def press(view: View, key: str, shown: list[TopRow]) -> View:
    """The view after a key. `shown` are the rows on the screen, in their order."""
    if view.typing:
        return _type(view, key)
    match key:
        case "q":
            return view._replace(ended=not view.pane, pane="")
        case "escape":
            return view._replace(pane="") if view.pane else view._replace(filter="")
        case "/":
            return view._replace(typing=True, filter="", pane="")
        case "s":
            return view._replace(sort=SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)])
        case "w" | "enter" if not view.pane and shown:
            return view._replace(pane="why", selected=selected_of(view, shown))
        case "l" if not view.pane and shown:
            return view._replace(pane="logs", selected=selected_of(view, shown))
        case "?" | "h":
            return view._replace(pane="" if view.pane else "help")
        case "down" | "j":
            return _move(view, shown, 1)
        case "up" | "k":
            return _move(view, shown, -1)
        case _:
            return view


def _type(view: View, key: str) -> View:
    match key:
        case "enter":
            return view._replace(typing=False)
        case "escape":
            return view._replace(typing=False, filter="")
        case "backspace":
            return view._replace(filter=view.filter[:-1])
        case _ if len(key) == 1:
            return view._replace(filter=view.filter + key)
        case _:
            return view


def _move(view: View, shown: list[TopRow], step: int) -> View:
    if view.pane or not shown:
        return view
    instances = [top.row.instance for top in shown]
    place = instances.index(view.selected) + step if view.selected in instances else 0
    return view._replace(selected=instances[max(0, min(place, len(instances) - 1))])


def selected_of(view: View, shown: list[TopRow]) -> Instance | None:
    """The selected instance, or the first one if it is not on the screen any more."""
    instances = [top.row.instance for top in shown]
    if view.selected in instances:
        return view.selected
    return instances[0] if instances else None
