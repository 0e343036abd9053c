"""The output of all workloads for `ank up --follow`, each line after the name of its workload.

Input: changed workload states and log responses of a session. Output: lines. A log campaign is started for every
instance as soon as it runs, and again when it runs again.
"""

from collections.abc import Iterable

from ankaios.cli.session import Session
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.views.workload_rows import Instance, instance_name, instance_of, state_text
from ankaios.common.pb import ank_base_pb2 as base

_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92")


class FollowedLogs:
    """Owns the followed instances and the colours of their names."""

    def __init__(self, output: CliOutput, session: Session) -> None:
        self._output = output
        self._session = session
        self._followed: set[Instance] = set()
        self._colours: dict[str, str] = {}

    def follow(self, states: Iterable[tuple[Instance, base.ExecutionState]]) -> None:
        """Start a log campaign for each instance with a new state that has started and is not followed."""
        for instance, state in states:
            has_started = state_text(state).startswith(("Running", "Succeeded", "Failed"))
            if has_started and instance not in self._followed:
                self._followed.add(instance)
                self._session.request_logs(base.LogsRequest(workloadNames=[instance_name(instance)], follow=True))

    def print(self, response: base.Response) -> None:
        for entry in response.logEntriesResponse.logEntries:
            self._output.line(f"{self._prefix(entry.workloadName.workloadName)} {entry.message}")
        if response.HasField("logsStopResponse"):
            self._followed.discard(instance_of(response.logsStopResponse.workloadName))

    def _prefix(self, name: str) -> str:
        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        prefix = f"{name.ljust(max(map(len, self._colours)))} |"
        return f"\x1b[{colour}m{prefix}\x1b[39m" if self._output.is_terminal else prefix
