"""The metrics of the server: what is counted while it runs, and what is computed when they are read.

Input: messages and responses as the shell handles them, and the parts of the server. Owns the counters, and the time at
which each unanswered update was received.
"""

from collections import Counter as Tally
from collections.abc import Callable
from time import monotonic

from ankaios import __version__
from ankaios.common.messages import FromAgent, FromClient, Respond
from ankaios.common.metrics import Counter, Gauge, Histogram
from ankaios.common.pb.ank_base_pb2 import Request
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.replies import Effect, HooksFinished, ServerMessage
from ankaios.server.core.update_rejected import UpdateRejected

MAX_UNANSWERED = 2000


class ServerMetrics:
    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._unanswered: dict[str, float] = {}
        self.info = Gauge("ankaios_server_info", "Version of the server; the value is always 1.", "version")
        self.agents = Gauge("ankaios_server_agents", "Connected agents.")
        self.workloads = Gauge("ankaios_server_workloads", "Workload instances.", "agent", "state")
        self.desired = Gauge("ankaios_server_desired_workloads", "Workloads of the desired state.")
        self.updates = Counter(
            "ankaios_server_updates", "Accepted and rejected updates of the desired state.", "result"
        )
        self.update_seconds = Histogram(
            "ankaios_server_update_duration_seconds", "From the arrival of an update to its response, hooks included."
        )
        self.waiting_updates = Gauge("ankaios_server_waiting_updates", "Updates that wait for mutating hooks.")
        self.hook_runs = Counter(
            "ankaios_server_hook_runs", "Runs of all mutating hooks: accepted, changed, or rejected.", "result"
        )
        self.hook_seconds = Histogram("ankaios_server_hook_duration_seconds", "Duration of all mutating hooks.")
        self.inbox = Gauge("ankaios_server_receive_queue_messages", "Received messages that are not handled yet.")
        self.subscribers = Gauge("ankaios_server_event_subscriptions", "Open event subscriptions.")
        self.log_campaigns = Gauge("ankaios_server_log_requests", "Open requests for logs.")
        self.tasks = Gauge("ankaios_server_tasks", "Tasks of the event loop.")
        self.internal_errors = Counter("ankaios_server_internal_errors", "Messages that failed by an internal error.")

    def observe(self, server: AnkaiosServer) -> None:
        """Compute the gauges from this server."""
        state = server.state
        self.info.read = lambda: {(__version__,): 1}
        self.agents.read = lambda: {(): len(state.agents.form)}
        self.desired.read = lambda: {(): len(state.desired["workloads"])}
        self.workloads.read = lambda: Tally(
            (agent, form["state"])
            for agent, workloads in state.workload_states.form.items()
            for ids in workloads.values()
            for form in ids.values()
        )
        self.waiting_updates.read = lambda: {(): server.waiting_updates}
        self.subscribers.read = lambda: {(): server.subscription_count}
        self.log_campaigns.read = lambda: {(): server.log_request_count}

    def handling(self, message: ServerMessage) -> None:
        """Called before a message is handled."""
        request = _request_of(message)
        if request is not None and request.HasField("updateStateRequest"):
            if len(self._unanswered) >= MAX_UNANSWERED:
                del self._unanswered[next(iter(self._unanswered))]
            self._unanswered[request.requestId] = self._clock()

    def performing(self, effect: Effect) -> None:
        """Called before an effect is performed."""
        if not self._unanswered or not isinstance(effect, Respond):
            return
        kind = effect.response.WhichOneof("ResponseContent")
        if kind not in ("UpdateStateSuccess", "error"):
            return
        began = self._unanswered.pop(effect.response.requestId, None)
        if began is not None:
            self.updates.add("accepted" if kind == "UpdateStateSuccess" else "rejected")
            self.update_seconds.observe(self._clock() - began)

    def hooks_ran(self, finished: HooksFinished, seconds: float) -> None:
        outcome = finished.outcome
        rejected = isinstance(outcome, UpdateRejected)
        self.hook_runs.add("rejected" if rejected else "accepted" if outcome is None else "changed")
        self.hook_seconds.observe(seconds)


def _request_of(message: ServerMessage) -> Request | None:
    match message:
        case FromClient(_, request):
            return request
        case FromAgent(_, content) if content.HasField("request"):
            return content.request
        case _:
            return None
