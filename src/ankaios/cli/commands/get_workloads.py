"""`ank get workloads`: a table of all instances, once or after every change (`--watch`)."""

from time import monotonic

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.session import RequestFailed, Session
from ankaios.cli.terminal.output import CliError
from ankaios.cli.views.workload_rows import (
    ROW_MASKS,
    Instance,
    WorkloadFilter,
    WorkloadRow,
    usage_by_instance,
    wide_table,
    workload_rows,
    workload_table,
)
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.suggestions import did_you_mean, suggestion

_COLLECT_SECONDS = 0.1
_MEASURED_SECONDS = 1


def run(call: CommandCall) -> None:
    if call.values["watch"] and call.values["format"] == "wide":
        raise CliError("'--watch' shows no resource usage", "use 'ank top' to watch what workloads use")
    wanted = WorkloadFilter(call.values["names"], call.values["agent"], call.values["state"])
    if call.values["watch"]:
        from ankaios.cli.interruptible import run_until_killed

        with open_session(call, "Failed to watch workloads") as session:
            run_until_killed(session, lambda: _watch(call, session, wanted))
        return
    with open_session(call, "Failed to get workloads") as session:
        rows = workload_rows(session.complete_state(*ROW_MASKS))
        shown = filter(wanted.matches, rows.values())
        if call.values["format"] == "wide":
            lines = wide_table(call.output, shown, _usage(call, session))
        else:
            lines = workload_table(call.output, shown)
        call.output.line("\n".join(lines))
        _print_hints(call, rows)


def _usage(call: CommandCall, session: Session) -> dict[Instance, base.ResourceUsage]:
    """Missing values are no reason to show nothing."""
    if not session.accepts_additions:
        call.output.hint("CPU and memory are unknown: the server does not report resource usage")
        return {}
    try:
        wanted = base.UsageRequest(seconds=_MEASURED_SECONDS)
        response = session.request_addition(base.Request(usageRequest=wanted)).usageResponse
    except RequestFailed as error:
        call.output.hint(f"CPU and memory are unknown: {error}")
        return {}
    if response.missingAgents:
        call.output.hint(f"no resource usage is known of agent {', '.join(response.missingAgents)}")
    return usage_by_instance(response.workloads)


def _print_hints(call: CommandCall, rows: dict[Instance, WorkloadRow]) -> None:
    """Print a hint for each filter that matches no row."""
    known = {row.name for row in rows.values()}
    for name in call.values["names"]:
        if name not in known:
            call.output.hint(did_you_mean("workload", name, known))
    _hint_unmatched(call, "on agent", call.values["agent"], {row.agent for row in rows.values()})
    _hint_unmatched(call, "in state", call.values["state"], {row.state for row in rows.values()})


def _hint_unmatched(call: CommandCall, where: str, wanted: str | None, known: set[str]) -> None:
    if wanted is not None and wanted.lower() not in map(str.lower, known):
        call.output.hint(f"no workload is {where} '{wanted}'{suggestion(wanted, known)}")


def _watch(call: CommandCall, session: Session, wanted: WorkloadFilter) -> None:
    from ankaios.cli.followed_workloads import FollowedWorkloads
    from ankaios.cli.terminal.live_display import MANY_ROWS, LiveDisplay

    workloads = FollowedWorkloads(session)
    with LiveDisplay(call.output) as display:
        workloads.request()
        while True:
            display.show(workload_table(call.output, filter(wanted.matches, workloads.rows.values())))
            workloads.update(_next_changes(session, 0 if len(workloads.rows) <= MANY_ROWS else _COLLECT_SECONDS))


def _next_changes(session: Session, seconds: float) -> list[base.WorkloadState]:
    """The next states, and those that follow within the seconds after them."""
    states = session.next_states()
    end = monotonic() + seconds
    while (remaining := end - monotonic()) > 0:
        states += session.next_states(remaining)
    return states
