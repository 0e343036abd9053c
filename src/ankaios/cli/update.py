"""Changing the desired state and waiting until the changed workloads have settled.

The shared part of `apply`, `run`, `set state` and `delete workload`: remember how it was, send the update, then follow
the workload states until the wait list is done. Only what the wait table shows is asked for, and only of the workloads
concerned.

The update leaves right behind the question how it was, without waiting for the answer: the server takes one after the
other. Whatever else is needed, such as the code of the table, is loaded while server and agent already work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.cli.workload_rows import ROW_FIELDS, Instance, Row, rows_of
from ankaios.common.pb import ank_base_pb2 as base

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ankaios.cli.arguments import Call
    from ankaios.cli.connection import Session
    from ankaios.cli.output import Output

NOTHING_CHANGED = "Apply successful. No workloads updated."
CHANGED = (
    "Successfully applied the manifest(s).\n"
    "Waiting for workload(s) to reach desired states (press Ctrl+C to interrupt).\n"
)
_MAX_NAMED = 32
"""From here on one mask for all is less work for the server than one for each."""


def update_and_wait(
    call: Call,
    session: Session,
    new_state: base.CompleteState,
    masks: Sequence[str],
    names: Collection[str] | None,
) -> base.UpdateStateSuccess:
    """`names` are the workloads that may change; None if that cannot be told beforehand."""
    is_watched = not (call.settings.no_wait or call.output.quiet)
    question = session.post_state_request(*row_masks(names)) if is_watched else None
    update = session.post_update(new_state, masks)
    before = session.take_state(question) if question is not None else base.CompleteState()
    success = session.take_success(update)
    if call.settings.no_wait:
        return success
    if not success.addedWorkloads and not success.deletedWorkloads:
        call.output.progress(NOTHING_CHANGED)
        return success
    call.output.progress(CHANGED)
    _wait_until_settled(call.output, session, success, before)
    return success


def _wait_until_settled(
    output: Output, session: Session, success: base.UpdateStateSuccess, before: base.CompleteState
) -> None:
    from ankaios.cli.wait_list import WaitList, parse_instance
    from ankaios.cli.wait_table import tell_what_to_look_at, wait_for

    changed = {parse_instance(text) for text in (*success.addedWorkloads, *success.deletedWorkloads)}
    after = session.complete_state(*row_masks({name for name, _, _ in changed}), *agent_masks(changed))
    rows = changed_rows(changed, before, after)
    connected = after.agents.agents.keys()
    wait_list = WaitList(success.addedWorkloads, success.deletedWorkloads, rows, connected)
    wait_for(output, session, wait_list)
    if output.is_terminal:
        tell_what_to_look_at(output, wait_list, connected)


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
