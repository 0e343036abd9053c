"""Updates the desired state and waits until the changed workloads have settled.

Used by `apply`, `run`, `set state` and `delete workload`. The request for the old state and the update are sent
together; the server processes them in order. Only the fields in the wait table are requested, and only for the changed
workloads.
"""

from collections.abc import Collection, Iterable, Mapping
from time import monotonic, sleep

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.interruptible import run_until_killed
from ankaios.cli.session import Session
from ankaios.cli.terminal.live_display import MANY_ROWS, LiveDisplay
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.updates.wait_list import WaitList, parse_instance
from ankaios.cli.views.workload_rows import ROW_FIELDS, Instance, WorkloadRow, wait_table, workload_rows
from ankaios.common.pb import ank_base_pb2 as base

NOTHING_CHANGED = "Apply successful. No workloads updated."
CHANGED = (
    "Successfully applied the manifest(s).\n"
    "Waiting for workload(s) to reach desired states (press Ctrl+C to interrupt).\n"
)
_STEP_SECONDS = 0.1
_AGENT_SECONDS, _AGENT_POLL_SECONDS = 1.0, 0.05
_MAX_NAMED = 32
"""For more names, one mask for all workloads takes the server less work than one mask for each name."""


def change_and_wait(
    call: CommandCall, session: Session, change: base.Request, names: Collection[str] | None
) -> base.UpdateStateSuccess:
    """Send a request that changes the state, and wait until the changed workloads have settled.

    `names` are the workloads that may change, or None if they are unknown.
    """
    shows_table = not (call.settings.no_wait or call.output.quiet)
    request = session.send_state_request(*row_masks(names)) if shows_table else None
    update = session.send_change(change)
    before = session.receive_state(request) if request is not None else base.CompleteState()
    success = session.receive_success(update)
    if call.settings.no_wait:
        return success
    if not success.addedWorkloads and not success.deletedWorkloads:
        call.output.progress(NOTHING_CHANGED)
        return success
    call.output.progress(CHANGED)
    _wait_until_settled(call.output, session, success, before)
    return success


def _wait_until_settled(
    output: CliOutput, session: Session, success: base.UpdateStateSuccess, before: base.CompleteState
) -> None:
    changed = {parse_instance(text) for text in (*success.addedWorkloads, *success.deletedWorkloads)}
    after = session.complete_state(*row_masks({name for name, _, _ in changed}), *agent_masks(changed))
    added = {parse_instance(text) for text in success.addedWorkloads}
    connected = _connected_agents(session, set(after.agents.agents), added)
    rows = changed_rows(changed, before, after)
    first_rows = rows | initial_rows(rows, added)
    wait_list = WaitList(success.addedWorkloads, success.deletedWorkloads, first_rows, connected)
    run_until_killed(session, lambda: show_until_done(output, session, wait_list, rows))
    if output.is_terminal:
        _print_hints(output, wait_list, connected)


def _connected_agents(session: Session, connected: set[str], added: Iterable[Instance]) -> set[str]:
    """Give an agent that was started together with the command a second to connect."""
    end = monotonic() + _AGENT_SECONDS
    needed = {agent for _, _, agent in added if agent}
    while needed - connected and monotonic() < end:
        sleep(_AGENT_POLL_SECONDS)
        connected |= set(session.complete_state(*agent_masks(added)).agents.agents)
    return connected


def initial_rows(rows: Mapping[Instance, WorkloadRow], added: Iterable[Instance]) -> dict[Instance, WorkloadRow]:
    """The rows with which new workloads begin, even if their agent has already reported a later state."""
    initial = base.ExecutionState(pending=base.PENDING_INITIAL)
    return {
        instance: rows[instance].with_state(initial)
        for instance in added
        if instance[2] and not rows[instance].state.startswith("NotScheduled")
    }


def show_until_done(
    output: CliOutput, session: Session, wait_list: WaitList, rows: Mapping[Instance, WorkloadRow]
) -> None:
    """Show the wait table at the start, after every message, and after every step of the spinner.

    `rows` are known later than those of the wait list.
    """
    with LiveDisplay(output) as display:

        def show() -> None:
            display.show(wait_table(output, wait_list.rows(), wait_list.signs(step)))

        step, next_step = 0, monotonic()
        show()
        if wait_list.replace_rows(rows):
            show()
        if early := session.kept_states():
            wait_list.update(early)
            show()
        while not wait_list.is_done:
            wait_list.update(session.next_states(max(next_step - monotonic(), 0)))
            is_step = monotonic() >= next_step
            if is_step:
                step, next_step = step + 1, monotonic() + _STEP_SECONDS
            if is_step or wait_list.is_done or len(wait_list) <= MANY_ROWS:
                show()


def _print_hints(output: CliOutput, wait_list: WaitList, connected: Collection[str]) -> None:
    """The exit code is 0, because the server accepted the update. The hints name the workloads with problems."""
    for agent in sorted({row.agent for row in wait_list.rows()} - set(connected) - {""}):
        output.hint(f"agent '{agent}' is not connected: its workloads wait until it is")
    for row in wait_list.rows():
        if row.state.startswith(("Failed", "Pending(StartingFailed")):
            output.hint(f"'{row.name}' is {row.state}: see 'ank describe workload {row.name}', 'ank logs {row.name}'")


def row_masks(names: Collection[str] | None) -> list[str]:
    """The masks for the rows of these workloads."""
    if names is None or len(names) > _MAX_NAMED:
        return ["workloadStates", *(f"desiredState.workloads.*.{field}" for field in ROW_FIELDS)]
    masks = []
    for name in sorted(names):
        masks += [f"workloadStates.*.{name}", *(f"desiredState.workloads.{name}.{field}" for field in ROW_FIELDS)]
    return masks or ["workloadStates"]  # without any mask the server would send everything


def agent_masks(changed: Iterable[Instance]) -> list[str]:
    """The masks that select the connected agents of these instances. An agent without name is never connected."""
    agents = {agent for _, _, agent in changed if agent}
    return ["agents"] if len(agents) > _MAX_NAMED else [f"agents.{agent}" for agent in sorted(agents)]


def changed_rows(
    changed: Iterable[Instance], before: base.CompleteState, after: base.CompleteState
) -> dict[Instance, WorkloadRow]:
    """The newest row of each changed instance. An instance without state gets a row without state."""
    known = workload_rows(before) | workload_rows(after)
    desired = after.desiredState.workloads.workloads
    rows = {}
    for instance in changed:
        name, _, agent = instance
        runtime = desired[name].runtime if name in desired and desired[name].agent == agent else ""
        rows[instance] = known.get(instance) or WorkloadRow(instance, runtime, "" if agent else "NotScheduled", "")
    return rows
