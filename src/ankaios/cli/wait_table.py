"""The table that shows what is still waited for: drawn again with every news and with every step of the spinner.

In come the states of a session and a wait list; out go tables, and hints about what needs a look.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from ankaios.cli.output import Output
from ankaios.cli.screen import MANY_ROWS, Screen
from ankaios.cli.table import CUT_LAST, harmless, table_lines
from ankaios.cli.wait_list import WAIT_HEADER, WaitList
from ankaios.cli.workload_rows import STATE_COLUMN, style_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from ankaios.cli.connection import Session

_STEP_SECONDS = 0.1


def wait_for(output: Output, session: Session, wait_list: WaitList) -> None:
    screen = Screen(output)
    step, next_step = 0, monotonic()
    _draw(output, screen, wait_list, step)
    if early := session.kept_states():
        wait_list.update(early)
        _draw(output, screen, wait_list, step)
    while not wait_list.is_done:
        wait_list.update(session.next_states(max(next_step - monotonic(), 0)))
        is_step = monotonic() >= next_step
        if is_step:
            step, next_step = step + 1, monotonic() + _STEP_SECONDS
        if is_step or wait_list.is_done or len(wait_list) <= MANY_ROWS:
            _draw(output, screen, wait_list, step)


def _draw(output: Output, screen: Screen, wait_list: WaitList, step: int) -> None:
    if output.quiet:
        return
    cells = wait_list.cells(step)
    if not output.is_terminal:
        screen.draw(table_lines(WAIT_HEADER, cells, output.width, CUT_LAST))
        return
    states = ["", *(row.state for row in wait_list.rows())]

    def paint(cell: str, row: int, column: int) -> str:
        if row == 0:
            return output.paint(cell, "header")
        return output.paint(cell, style_of(states[row])) if column == STATE_COLUMN else cell

    screen.draw(table_lines(WAIT_HEADER, [tuple(map(harmless, row)) for row in cells], output.width, CUT_LAST, paint))


def tell_what_to_look_at(output: Output, wait_list: WaitList, connected: Collection[str]) -> None:
    """The exit code stays 0: the update was accepted. A person wants to know what to do next."""
    for agent in sorted({row.agent for row in wait_list.rows()} - set(connected) - {""}):
        output.hint(f"agent '{agent}' is not connected: its workloads wait until it is")
    for row in wait_list.rows():
        if row.state.startswith(("Failed", "Pending(StartingFailed")):
            output.hint(f"'{row.name}' is {row.state}: see 'ank describe workload {row.name}', 'ank logs {row.name}'")
