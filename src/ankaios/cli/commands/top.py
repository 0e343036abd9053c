"""`ank top`: a live view of nodes and workloads with their resource usage, for a terminal.

Input: states, usage and keys. Output: the screen. Owns the terminal while it runs, and the rows of the last refresh.
"""

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.followed_workloads import FollowedWorkloads
from ankaios.cli.interruptible import run_until_killed
from ankaios.cli.session import RequestFailed, Session, SessionLost
from ankaios.cli.terminal.output import CliError, CliOutput
from ankaios.cli.top.top_model import TopRow, View, node_rows, press, top_rows
from ankaios.cli.top.top_screen import HELP, Picture
from ankaios.cli.views.workload_rows import Instance, instance_name, usage_by_instance
from ankaios.common.pb import ank_base_pb2 as base

KEY_SECONDS = 0.1
REFRESH_SECONDS = 1.0
USAGE_SECONDS = 5
MAX_LOG_LINES = 1000
LOG_TAIL = 200
UNKNOWN_HEIGHT = 24
"""Used for a terminal without a size, such as a serial line."""


def run(call: CommandCall) -> None:
    if not call.output.is_terminal:
        raise CliError("'ank top' needs a terminal", "use 'ank get workloads -o wide' in scripts")
    from ankaios.cli.terminal.keyboard import Keyboard

    with open_session(call, "Failed to show workloads") as session:
        cluster = ClusterState(session)
        cluster.refresh()

        def work() -> None:
            with Keyboard() as keyboard:
                TopLoop(cluster, call.output, keyboard.pressed).run()

        run_until_killed(session, work)


class ClusterState:
    """What is known of the cluster, and the output of one workload. Agents and usage are requested each second."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._workloads = FollowedWorkloads(session)
        self.usage: dict[Instance, base.ResourceUsage] = {}
        self.agents: dict[str, base.AgentAttributes] = {}
        self.notice = ""
        self.log_lines: deque[str] = deque(maxlen=MAX_LOG_LINES)
        self._requests: dict[str, str] = {}  # open requests by what they are for
        self._campaign: str | None = None
        session.on_response = self._other_response

    def refresh(self) -> None:
        """Request everything and wait for it."""
        self.agents = dict(self._workloads.request("agents").agents.agents)
        if not self._session.accepts_additions:
            self.notice = "this server reports no resource usage"

    def rows(self, view: View) -> list[TopRow]:
        return top_rows(self._workloads.rows.values(), self.usage, view)

    def request_values(self) -> None:
        """Request agents and usage without waiting. What was requested before and is still missing is not repeated."""
        agents = base.CompleteStateRequest(fieldMask=["agents"])
        self._request("agents", base.Request(completeStateRequest=agents))
        if self._session.accepts_additions:
            self._request("usage", base.Request(usageRequest=base.UsageRequest(seconds=USAGE_SECONDS)))

    def _request(self, what: str, request: base.Request) -> None:
        if what not in self._requests:
            self._requests[what] = self._session.send(request)

    def receive(self, seconds: float) -> bool:
        """Wait so long for changes of workloads; returns whether there is something new."""
        changed = self._session.next_states(seconds)
        self._workloads.update(changed)
        taken = [what for what in list(self._requests) if self._take(what)]
        return bool(changed or taken)

    def _take(self, what: str) -> bool:
        response = self._session.take_response(self._requests[what])
        if response is None:
            return False
        del self._requests[what]
        match what, response.WhichOneof("ResponseContent"):
            case "agents", "completeStateResponse":
                self.agents = dict(response.completeStateResponse.completeState.agents.agents)
            case "usage", "usageResponse":
                self.usage = usage_by_instance(response.usageResponse.workloads)
                missing = response.usageResponse.missingAgents
                self.notice = f"no usage of {', '.join(missing)}" if missing else ""
            case "usage", "error":
                self.notice = response.error.message
        return True

    def why(self, instance: Instance) -> list[str]:
        """Why the workload is in its state, as far as the server explains it."""
        row = self._workloads.rows.get(instance)
        known = [f"{row.state} on {row.agent or 'no node'}", row.info] if row is not None else ["It is removed."]
        if not self._session.accepts_additions:
            return [*known, "", "This server does not explain states."]
        try:
            response = self._session.request_addition(base.Request(whyRequest=base.WhyRequest(workload=instance[0])))
        except SessionLost:
            raise
        except RequestFailed:
            return [*known, "", "The server has no further explanation."]
        lines = [
            f"{'  ' * depth}{cause.workload}: {cause.text}" for depth, cause in enumerate(response.whyResponse.causes)
        ]
        return [*known, "", *lines] if lines else [*known, "", "It runs as desired."]

    def follow_logs(self, instance: Instance | None) -> None:
        """Collect the output of this workload, or of none."""
        if self._campaign is not None:
            self._session.cancel_logs(self._campaign)
            self._campaign = None
        self.log_lines.clear()
        if instance is not None:
            wanted = base.LogsRequest(workloadNames=[instance_name(instance)], follow=True, tail=LOG_TAIL)
            accepted = self._session.request_logs(wanted)
            self._campaign = accepted.requestId
            if not accepted.logsRequestAccepted.workloadNames:
                self.log_lines.append("The workload has no output that can be read now.")

    def _other_response(self, response: base.Response) -> None:
        if response.requestId == self._campaign:
            for entry in response.logEntriesResponse.logEntries:
                self.log_lines.append(entry.message)


class TopLoop:
    """Draws the screen until the user ends it. The signal that ends the program is noticed while it waits."""

    def __init__(self, cluster: ClusterState, output: CliOutput, pressed: Callable[[], list[str]]) -> None:
        self._cluster = cluster
        self._output = output
        self._pressed = pressed
        self._view = View()
        self._pane_lines: Sequence[str] = ()

    def run(self) -> None:
        from ankaios.cli.terminal.live_display import full_screen

        next_values, drawn = 0.0, None
        with full_screen(self._output) as show:
            while not self._view.ended:
                size = (self._output.width, self._output.height or UNKNOWN_HEIGHT)
                is_new = self._cluster.receive(KEY_SECONDS) or self._view.pane == "logs"
                keys = self._pressed()
                for key in keys:
                    self._press(key)
                if monotonic() >= next_values:
                    next_values = monotonic() + REFRESH_SECONDS
                    self._cluster.request_values()
                if is_new or keys or size != drawn:
                    show(self._picture(), *size)
                    drawn = size

    def _press(self, key: str) -> None:
        before, rows = self._view.pane, self._cluster.rows(self._view)
        self._view = press(self._view, key, rows)
        if self._view.pane == before:
            return
        if before == "logs":
            self._cluster.follow_logs(None)
        if self._view.pane == "logs":
            self._cluster.follow_logs(self._view.selected)
        elif self._view.pane == "why" and self._view.selected is not None:
            self._pane_lines = self._cluster.why(self._view.selected)

    def _picture(self) -> Picture:
        rows, every = self._cluster.rows(self._view), self._cluster.rows(View())
        lines = {"logs": self._cluster.log_lines, "why": self._pane_lines, "help": HELP}.get(self._view.pane, ())
        nodes = node_rows(self._cluster.agents, every)
        return Picture(rows, len(every), nodes, self._view, list(lines), self._cluster.notice)
