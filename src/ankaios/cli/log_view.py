"""Printing the logs of workloads: names to instances, a log campaign, its lines until all have ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ankaios.cli.arguments import Call
from ankaios.cli.connection import CommandFailed, Session, run_session
from ankaios.cli.failures import execution_error, told_as
from ankaios.cli.interruptible import until_signal
from ankaios.cli.workload_rows import Instance, instance_of, instances_of, state_text
from ankaios.common.pb import ank_base_pb2 as base

_WITHOUT_AGENT = ("Pending(Initial)", "AgentDisconnected", "NotScheduled")


class NoLogs(CommandFailed):
    """A reason that is told as it is."""


def run(call: Call) -> int:
    def action(session: Session) -> None:
        try:
            _print_logs(call, session)
        except NoLogs:
            raise
        except CommandFailed as fault:
            raise CommandFailed(f"Failed to get logs: '{execution_error(fault)}'", fault.hint) from fault
        session.goodbye()

    with told_as("Failed to output logs"):
        run_session(call, action)
    return 0


def _print_logs(call: Call, session: Session) -> None:
    state = session.complete_state("workloadStates")
    instances = _reachable(call, session, resolve(call.values["workloads"], state.workloadStates), state)
    response = session.request_logs(logs_request(call, instances))
    campaign = response.requestId
    check_accepted(instances, response)
    with_names = call.values["names"] or len(instances) > 1
    finished = False
    try:
        finished = until_signal(
            session, lambda: _print_until_all_stopped(call, session, campaign, set(instances), with_names)
        )
    except BrokenPipeError:
        # Nobody reads any more, but the agents still send.
        session.cancel_logs(campaign)
        session.goodbye()
        raise
    if not finished:
        session.cancel_logs(campaign)


def _reachable(call: Call, session: Session, instances: list[Instance], state: base.CompleteState) -> list[Instance]:
    """Without those whose agent is not there: the server would accept them, and nothing would ever come."""
    states = dict(instances_of(state.workloadStates))
    if not any(state_text(states[instance]) in _WITHOUT_AGENT for instance in instances):
        return instances
    connected = session.complete_state("agents").agents.agents
    reachable = [instance for instance in instances if instance[2] in connected]
    reasons = [
        f"workload '{name}' gives no output: " + (f"agent '{agent}' is not connected" if agent else "it has no agent")
        for name, _, agent in instances
        if agent not in connected
    ]
    if not reachable:
        raise NoLogs("; ".join(reasons), "'ank get agents' shows who is there")
    for reason in reasons:
        call.output.hint(reason)
    return reachable


def _print_until_all_stopped(
    call: Call, session: Session, campaign: str, running: set[Instance], with_names: bool
) -> None:
    while running:
        response = session.next_log_response(campaign)
        if response.HasField("logEntriesResponse"):
            call.output.write(lines_of(response.logEntriesResponse.logEntries, with_names))
        elif response.HasField("logsStopResponse"):
            running.discard(instance_of(response.logsStopResponse.workloadName))


def resolve(names: Sequence[str], states: base.WorkloadStatesMap) -> list[Instance]:
    """All instances of the names, in the order of the names."""
    by_name: dict[str, list[Instance]] = {}
    for instance, _ in instances_of(states):
        by_name.setdefault(instance[0], []).append(instance)
    for name in names:
        if name not in by_name:
            from ankaios.cli.suggestions import did_you_mean

            raise NoLogs(f"Workload name '{name}' does not exist.", did_you_mean("workload", name, by_name))
    return [instance for name in dict.fromkeys(names) for instance in sorted(by_name[name])]


def logs_request(call: Call, instances: Iterable[Instance]) -> base.LogsRequest:
    request = base.LogsRequest(
        workloadNames=[
            base.WorkloadInstanceName(workloadName=name, agentName=agent, id=instance_id)
            for name, instance_id, agent in instances
        ]
    )
    if call.values["follow"]:
        request.follow = True
    if call.values["tail"] >= 0:
        request.tail = call.values["tail"]
    if call.values["since"] is not None:
        request.since = call.values["since"]
    if call.values["until"] is not None:
        request.until = call.values["until"]
    return request


def check_accepted(instances: Iterable[Instance], response: base.Response) -> None:
    if response.HasField("error"):
        raise CommandFailed(response.error.message)
    accepted = {instance_of(name) for name in response.logsRequestAccepted.workloadNames}
    for instance in instances:
        if instance not in accepted:
            raise CommandFailed(f"Workload '{instance[0]}' is not accepted by the server to receive logs from.")


def lines_of(entries: Iterable[base.LogEntry], with_names: bool) -> str:
    if with_names:
        return "".join(f"{entry.workloadName.workloadName} {entry.message}\n" for entry in entries)
    return "".join(f"{entry.message}\n" for entry in entries)
