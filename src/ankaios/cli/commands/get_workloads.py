"""`ank get workloads`: a table of all instances, once or (`--watch`) again after every change."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from ankaios.cli.arguments import Call
from ankaios.cli.connection import Session, run_session
from ankaios.cli.failures import told_as
from ankaios.cli.output import Output
from ankaios.cli.table import WRAP, harmless, table_lines
from ankaios.cli.workload_rows import (
    HEADER,
    MADE_BY_SERVER,
    ROW_FIELDS,
    STATE_COLUMN,
    Filter,
    Instance,
    Row,
    instance_of,
    rows_of,
    style_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ankaios.common.pb import ank_base_pb2 as base

_COLLECT_SECONDS = 0.1
MASKS = ("workloadStates", *(f"desiredState.workloads.*.{field}" for field in ROW_FIELDS), MADE_BY_SERVER)


def run(call: Call) -> int:
    wanted = Filter(call.values["names"], call.values["agent"], call.values["state"])

    def show(session: Session) -> None:
        rows = rows_of(session.complete_state(*MASKS))
        call.output.line("\n".join(table_of(call.output, filter(wanted.matches, rows.values()))))
        _hint_at_unknown(call, wanted.names, rows)
        _hint_at_unmatched(call, "on agent", call.values["agent"], {row.agent for row in rows.values()})
        _hint_at_unmatched(call, "in state", call.values["state"], {row.state for row in rows.values()})

    watching = call.values["watch"]
    with told_as("Failed to watch workloads" if watching else "Failed to get workloads"):
        run_session(call, (lambda session: _watch(call, session, wanted)) if watching else show)
    return 0


def table_of(output: Output, shown: Iterable[Row]) -> list[str]:
    rows = sorted(shown, key=lambda row: row.instance)
    if not output.is_terminal:
        return table_lines(HEADER, [row.cells() for row in rows], output.width, WRAP)

    def paint(cell: str, number: int, column: int) -> str:
        if number == 0:
            return output.paint(cell, "header")
        return output.paint(cell, style_of(rows[number - 1].state)) if column == STATE_COLUMN else cell

    cells: Sequence[Sequence[str]] = [tuple(map(harmless, row.cells())) for row in rows]
    return table_lines(HEADER, cells, output.width, WRAP, paint)


def _hint_at_unknown(call: Call, wanted: frozenset[str], rows: Iterable[Instance]) -> None:
    known = {name for name, _, _ in rows}
    if unknown := sorted(wanted - known):
        from ankaios.cli.suggestions import did_you_mean

        for name in unknown:
            call.output.hint(did_you_mean("workload", name, known))


def _hint_at_unmatched(call: Call, where: str, wanted: str | None, known: set[str]) -> None:
    """`Running` is no state, `Running(Ok)` is."""
    if wanted is not None and wanted.lower() not in map(str.lower, known):
        from ankaios.cli.suggestions import nearest

        guess = nearest(wanted, known)
        call.output.hint(f"no workload is {where} '{wanted}'" + (f", did you mean '{guess}'?" if guess else ""))


def _watch(call: Call, session: Session, wanted: Filter) -> None:
    from ankaios.cli.screen import MANY_ROWS, Screen

    screen = Screen(call.output)
    rows = rows_of(session.complete_state(*MASKS))
    while True:
        if not call.output.quiet:
            screen.draw(table_of(call.output, filter(wanted.matches, rows.values())))
        states = _changes(session, 0 if len(rows) <= MANY_ROWS else _COLLECT_SECONDS)
        if all(updated(rows, state) for state in states):
            continue
        rows = rows_of(session.complete_state(*MASKS))


def _changes(session: Session, patience: float) -> list[base.WorkloadState]:
    """The next states, and all that come within the patience behind them."""
    states = session.next_states()
    end = monotonic() + patience
    while (left := end - monotonic()) > 0:
        states += session.next_states(left)
    return states


def updated(rows: dict[Instance, Row], state: base.WorkloadState) -> bool:
    """Take the state into the rows; False for an instance whose runtime is not known yet."""
    instance = instance_of(state.instanceName)
    if state.executionState.WhichOneof("ExecutionStateEnum") == "removed":
        rows.pop(instance, None)
    elif instance in rows:
        rows[instance] = rows[instance].with_state(state.executionState)
    else:
        return False
    return True
