"""The metrics of the server: what is counted while it runs, and what is computed when they are read.

Input: messages and responses as the shell handles them, and the parts of the server. Owns the counters, and the time at
which each unanswered update was received.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

from msgspec import Struct

from ankaios import __version__
from ankaios.common.messages import Respond
from ankaios.common.metrics import Counter, Gauge, Histogram, Labels
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.long_messages import request_in
from ankaios.server.core.replies import Effect, HooksFinished, ServerMessage
from ankaios.server.core.update_rejected import UpdateRejected

MAX_UNANSWERED = 2000


class StorageFacts(Struct, frozen=True):
    """The storage and the leadership of a server when they are read.

    `store` is the kind of the store. `term` is 0 if this server does not lead, or shares its state with no other.
    `is_damaged`: a part of the stored state is lost, and no operator has confirmed it.
    """

    store: str
    revision: int
    size: int = 0
    is_leader: bool = True
    term: int = 0
    can_store: bool = True
    is_damaged: bool = False


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
        self.store_info = Gauge(
            "ankaios_server_store_info", "Kind of the store: memory, sqlite, or etcd; the value is always 1.", "store"
        )
        self.store_revision = Gauge("ankaios_server_store_revision", "Revision of the stored desired state.", "store")
        self.store_size = Gauge("ankaios_server_store_size_bytes", "Size of the store.", "store")
        self.store_usable = Gauge("ankaios_server_store_usable", "Whether changes can be stored.", "store")
        self.store_damaged = Gauge(
            "ankaios_server_store_damaged",
            "Whether a part of the stored state is lost, until the server is started with --accept-loss.",
            "store",
        )
        self.commits = Counter("ankaios_server_commits", "Commits to the store: ok or failed.", "store", "result")
        self.commit_seconds = Histogram(
            "ankaios_server_commit_duration_seconds", "Duration of commits to the store.", "store"
        )
        self.waiting_decisions = Gauge(
            "ankaios_server_commit_queue_decisions", "Decisions of the server that wait for a commit."
        )
        self.is_leader = Gauge("ankaios_server_is_leader", "Whether this server leads; one without others always does.")
        self.term = Gauge(
            "ankaios_server_leader_term",
            "Term of the leadership of this server; 0 if it does not lead or has no store.",
        )
        self.inbox = Gauge("ankaios_server_receive_queue_messages", "Received messages that are not handled yet.")
        self.subscribers = Gauge("ankaios_server_event_subscriptions", "Open event subscriptions.")
        self.log_campaigns = Gauge("ankaios_server_log_requests", "Open requests for logs.")
        self.tasks = Gauge("ankaios_server_tasks", "Tasks of the event loop.")
        self.internal_errors = Counter("ankaios_server_internal_errors", "Messages that failed by an internal error.")

        self.info.read = lambda: {(__version__,): 1}

    def observe(self, server: AnkaiosServer | None) -> None:
        """Compute the gauges from this server; they are absent while there is None."""
        gauges = (self.agents, self.desired, self.workloads, self.waiting_updates, self.subscribers, self.log_campaigns)
        if server is None:
            for gauge in gauges:
                gauge.read = dict
            return
        state = server.state
        self.agents.read = lambda: {(): len(state.agents.form)}
        self.desired.read = lambda: {(): len(state.desired["workloads"])}
        self.workloads.read = lambda: Tally(
            (agent, form["state"])
            # Copies, because a worker thread may change the maps meanwhile.
            for agent, workloads in list(state.workload_states.form.items())
            for ids in list(workloads.values())
            for form in ids.values()
        )
        self.waiting_updates.read = lambda: {(): server.waiting_updates}
        self.subscribers.read = lambda: {(): server.subscription_count}
        self.log_campaigns.read = lambda: {(): server.log_request_count}

    def observe_storage(self, read: Callable[[], StorageFacts]) -> None:
        """Compute the gauges of storage and leadership from these facts."""

        def of_store(value: Callable[[StorageFacts], float]) -> Callable[[], Mapping[Labels, float]]:
            def read_value() -> Mapping[Labels, float]:
                facts = read()
                return {(facts.store,): value(facts)}

            return read_value

        self.store_info.read = of_store(lambda facts: 1)
        self.store_revision.read = of_store(lambda facts: facts.revision)
        self.store_size.read = of_store(lambda facts: facts.size)
        self.store_usable.read = of_store(lambda facts: int(facts.can_store))
        self.store_damaged.read = of_store(lambda facts: int(facts.is_damaged))
        self.is_leader.read = lambda: {(): int(read().is_leader)}
        self.term.read = lambda: {(): read().term}

    @contextmanager
    def commit(self, store: str) -> Iterator[None]:
        """Count and time a commit to a store of this kind."""
        began, result = self._clock(), "failed"
        try:
            yield
            result = "ok"
        finally:
            self.commits.add(store, result)
            self.commit_seconds.observe(self._clock() - began, store)

    def handling(self, message: ServerMessage) -> None:
        """Called before a message is handled."""
        request = request_in(message)
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
