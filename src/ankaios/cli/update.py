"""Changing the desired state and waiting until the changed workloads have settled.

The shared part of `apply`, `run`, `set state` and `delete workload`: remember how it was, send the update, then follow
the workload states until the wait list is done. Only what the wait table shows is asked for, and only of the workloads
concerned.
"""

from __future__ import annotations

import asyncio

from ankaios.cli.output import Output
from ankaios.cli.screen import MANY_ROWS, Screen
from ankaios.cli.table import CUT_LAST, harmless, table_lines
from ankaios.cli.wait_list import WAIT_HEADER, WaitList, parse_instance
from ankaios.cli.workload_rows import ROW_FIELDS, STATE_COLUMN, Instance, Row, rows_of, style_of
from ankaios.common.pb import ank_base_pb2 as base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ankaios.cli.arguments import Call
    from ankaios.cli.connection import Session

NOTHING_CHANGED = "Apply successful. No workloads updated."
CHANGED = (
    "Successfully applied the manifest(s).\n"
    "Waiting for workload(s) to reach desired states (press Ctrl+C to interrupt).\n"
)
_STEP_SECONDS = 0.1
_MAX_NAMED = 32
"""From here on one mask for all is less work for the server than one for each."""


async def update_and_wait(
    call: Call,
    session: Session,
    new_state: base.CompleteState,
    masks: Sequence[str],
    names: Collection[str] | None,
) -> base.UpdateStateSuccess:
    """`names` are the workloads that may change; None if that cannot be told beforehand."""
    before = base.CompleteState()
    if not (call.settings.no_wait or call.output.quiet):
        before = await session.complete_state(*row_masks(names))
    success = await session.update(new_state, masks)
    if call.settings.no_wait:
        return success
    if not success.addedWorkloads and not success.deletedWorkloads:
        call.output.progress(NOTHING_CHANGED)
        return success
    call.output.progress(CHANGED)
    changed = {parse_instance(text) for text in (*success.addedWorkloads, *success.deletedWorkloads)}
    after = await session.complete_state(*row_masks({name for name, _, _ in changed}), *agent_masks(changed))
    rows = changed_rows(changed, before, after)
    connected = after.agents.agents.keys()
    wait_list = WaitList(success.addedWorkloads, success.deletedWorkloads, rows, connected)
    await _wait(call.output, session, wait_list)
    if call.output.is_terminal:
        _tell_what_to_look_at(call.output, wait_list, connected)
    return success


def row_masks(names: Collection[str] | None) -> list[str]:
    """What the rows of these workloads are made of."""
    if names is None or len(names) > _MAX_NAMED:
        return ["workloadStates", *(f"desiredState.workloads.*.{field}" for field in ROW_FIELDS)]
    masks = []
    for name in sorted(names):
        masks += [f"workloadStates.*.{name}", *(f"desiredState.workloads.{name}.{field}" for field in ROW_FIELDS)]
    # Without any mask the server would send everything.
    return masks or ["workloadStates"]


def agent_masks(changed: Iterable[Instance]) -> list[str]:
    """Which agents are connected; those without a name are never."""
    agents = {agent for _, _, agent in changed if agent}
    return ["agents"] if len(agents) > _MAX_NAMED else [f"agents.{agent}" for agent in sorted(agents)]


def changed_rows(
    changed: Iterable[Instance], before: base.CompleteState, after: base.CompleteState
) -> dict[Instance, Row]:
    """The newest row of each changed instance. One that has no state yet gets what is known of it."""
    known = rows_of(before) | rows_of(after)
    desired = after.desiredState.workloads.workloads
    rows = {}
    for instance in changed:
        name, _, agent = instance
        runtime = desired[name].runtime if name in desired and desired[name].agent == agent else ""
        rows[instance] = known.get(instance) or Row(instance, runtime, "" if agent else "NotScheduled", "")
    return rows


async def _wait(output: Output, session: Session, wait_list: WaitList) -> None:
    screen = Screen(output)
    now = asyncio.get_running_loop().time
    step, next_step = 0, now()
    _draw(output, screen, wait_list, step)
    if early := session.kept_states():
        wait_list.update(early)
        _draw(output, screen, wait_list, step)
    while not wait_list.is_done:
        wait_list.update(await session.next_states(max(next_step - now(), 0)))
        is_step = now() >= next_step
        if is_step:
            step, next_step = step + 1, now() + _STEP_SECONDS
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


def _tell_what_to_look_at(output: Output, wait_list: WaitList, connected: Collection[str]) -> None:
    """The exit code stays 0: the update was accepted. A person wants to know what to do next."""
    for agent in sorted({row.agent for row in wait_list.rows()} - set(connected) - {""}):
        output.hint(f"agent '{agent}' is not connected: its workloads wait until it is")
    for row in wait_list.rows():
        if row.state.startswith(("Failed", "Pending(StartingFailed")):
            output.hint(f"'{row.name}' is {row.state}: see 'ank describe workload {row.name}', 'ank logs {row.name}'")
