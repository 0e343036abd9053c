"""`ank logs`: prints the output of workloads. Resolves names to instances and runs a log campaign for them."""

from collections.abc import Iterable, Sequence
from time import monotonic, sleep

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import follow_servers
from ankaios.cli.interruptible import until_signal
from ankaios.cli.session import LOGS_LOST, RequestFailed, Session, SessionLost, execution_error
from ankaios.cli.views.times import rfc3339_time
from ankaios.cli.views.workload_rows import (
    Instance,
    info_text,
    instance_name,
    instance_of,
    state_text,
    workload_instances,
)
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.suggestions import did_you_mean

_AGENT_SECONDS, _AGENT_PAUSE = 10.0, 0.2
_WITHOUT_AGENT = ("Pending(Initial)", "AgentDisconnected", "NotScheduled")
States = dict[Instance, base.ExecutionState]


class NoLogs(RequestFailed):
    """A reason that is printed without further wrapping."""


def run(call: CommandCall) -> None:
    follow_servers(call, "Failed to output logs", lambda session, lost_at: _print_from(call, session, lost_at))


def _print_from(call: CommandCall, session: Session, lost_at: float | None) -> None:
    """After a lost connection, from that time on."""
    if lost_at is not None:
        call.values |= {"since": rfc3339_time(int(lost_at * 1e9)), "tail": -1}
    try:
        _print_logs(call, session, is_again=lost_at is not None)
    except NoLogs:
        raise
    except RequestFailed as error:
        if isinstance(error, SessionLost) and session.can_follow and call.values["follow"]:
            raise
        raise RequestFailed(f"Failed to get logs: '{execution_error(error)}'", error.hint) from error


def _print_logs(call: CommandCall, session: Session, is_again: bool) -> None:
    if is_again:
        _wait_for_agents(session, call.values["workloads"])
    states = dict(workload_instances(session.complete_state("workloadStates").workloadStates))
    instances = _reachable(call, session, resolve(call.values["workloads"], states), states)
    response = session.request_logs(logs_request(call, instances))
    check_accepted(instances, response)
    campaign = LogCampaign(call, session, response.requestId, instances)
    try:
        signal_number = until_signal(session, campaign.print_until_stopped)
    except BrokenPipeError:
        # The reader of the output has gone, but the agents still send.
        session.cancel_logs(response.requestId)
        session.goodbye()
        raise
    if signal_number is not None:
        session.cancel_logs(response.requestId)
    for instance in campaign.silent:
        call.output.hint(not_started(instance, states[instance]))


def _wait_for_agents(session: Session, names: Sequence[str]) -> None:
    """After a failover the agents connect to the new leader; until then nothing is known about their workloads."""
    until = monotonic() + _AGENT_SECONDS
    while monotonic() < until:
        state = session.complete_state("workloadStates", "agents")
        found = [key for key, _ in workload_instances(state.workloadStates) if key[0] in names]
        if found and all(agent in state.agents.agents for _, _, agent in found):
            return
        sleep(_AGENT_PAUSE)


def resolve(names: Sequence[str], states: States) -> list[Instance]:
    """All instances of the names, in the order of the names."""
    by_name: dict[str, list[Instance]] = {}
    for instance in sorted(states):
        by_name.setdefault(instance[0], []).append(instance)
    for name in names:
        if name not in by_name:
            raise NoLogs(f"Workload name '{name}' does not exist.", did_you_mean("workload", name, by_name))
    return [instance for name in dict.fromkeys(names) for instance in by_name[name]]


def _reachable(call: CommandCall, session: Session, instances: list[Instance], states: States) -> list[Instance]:
    """The instances whose agent is connected. The server would accept the others and never send anything."""
    if not any(state_text(states[instance]) in _WITHOUT_AGENT for instance in instances):
        return instances
    connected = session.complete_state("agents").agents.agents
    reasons = [
        f"workload '{name}' gives no output: " + (f"agent '{agent}' is not connected" if agent else "it has no agent")
        for name, _, agent in instances
        if agent not in connected
    ]
    reachable = [instance for instance in instances if instance[2] in connected]
    if not reachable:
        raise NoLogs("; ".join(reasons), "'ank get agents' shows the connected agents")
    for reason in reasons:
        call.output.hint(reason)
    return reachable


def logs_request(call: CommandCall, instances: Iterable[Instance]) -> base.LogsRequest:
    values = call.values
    return base.LogsRequest(
        workloadNames=map(instance_name, instances),
        follow=values["follow"],
        tail=values["tail"] if values["tail"] >= 0 else None,
        since=values["since"],
        until=values["until"],
    )


def check_accepted(instances: Iterable[Instance], response: base.Response) -> None:
    if response.HasField("error"):
        raise RequestFailed(response.error.message)
    accepted = {instance_of(name) for name in response.logsRequestAccepted.workloadNames}
    for instance in instances:
        if instance not in accepted:
            raise RequestFailed(f"Workload '{instance[0]}' is not accepted by the server to receive logs from.")


class LogCampaign:
    """Prints the log entries of one campaign. Owns the instances that have not stopped, and those without output."""

    def __init__(self, call: CommandCall, session: Session, campaign: str, instances: Sequence[Instance]) -> None:
        self._output = call.output
        self._session = session
        self._campaign = campaign
        self._with_names = call.values["names"] or len(instances) > 1
        self._running = set(instances)
        self.silent = list(instances)

    def print_until_stopped(self) -> None:
        while self._running:
            response = self._session.next_response(
                self._campaign, "logEntriesResponse", "logsStopResponse", lost=LOGS_LOST
            )
            if response.HasField("logEntriesResponse"):
                self._print(response.logEntriesResponse.logEntries)
            elif response.HasField("logsStopResponse"):
                self._running.discard(instance_of(response.logsStopResponse.workloadName))

    def _print(self, entries: Sequence[base.LogEntry]) -> None:
        printed = {instance_of(entry.workloadName) for entry in entries}
        self.silent = [instance for instance in self.silent if instance not in printed]
        self._output.write(log_lines(entries, self._with_names))


def log_lines(entries: Iterable[base.LogEntry], with_names: bool) -> str:
    if with_names:
        return "".join(f"{entry.workloadName.workloadName} {entry.message}\n" for entry in entries)
    return "".join(f"{entry.message}\n" for entry in entries)


def not_started(instance: Instance, state: base.ExecutionState) -> str:
    """The hint for an instance without output that was not started; empty if it was."""
    text = state_text(state)
    if not text.startswith("Pending"):
        return ""
    reason = f": {info_text(state)}" if info_text(state) else ""
    return f"workload '{instance[0]}' has no output because it has not started; it is {text}{reason}"
