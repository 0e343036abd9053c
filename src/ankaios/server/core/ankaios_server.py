"""The decisions of the server: `decide(message)` returns what follows from a message.

Input: messages of agents and command lines, and the end of their connections. Output: effects, in the order in which
they are to be performed, and the change of stored entries that must be durable before. The facts are in `ServerState`,
subscriptions in `EventHandler`, log requests in `LogRequestHandler`, revisions in `History`; all of them change only in
here, one message at a time.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import AGENT_DISCONNECTED, REMOVED, ExecutionState
from ankaios.common.messages import (
    UNKNOWN_CLIENT,
    AgentGone,
    ClientGone,
    ClientIdentity,
    FromAgent,
    FromClient,
    Respond,
    ToAgent,
)
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_from_pb, workload_state_from_pb
from ankaios.common.state_manipulation import Form
from ankaios.common.state_records import StateRecord
from ankaios.common.workload import InstanceName
from ankaios.server.core.agent_sessions import AgentSessions
from ankaios.server.core.causes import CauseFacts
from ankaios.server.core.desired_state_draft import (
    DesiredChange,
    change_by_addition,
    change_by_replacement,
    change_by_request,
)
from ankaios.server.core.device_coordinator import DeviceCoordinator
from ankaios.server.core.event_handler import EventHandler
from ankaios.server.core.history import History, HistoryLimits
from ankaios.server.core.history_requests import (
    change_by_rollback,
    change_to_values,
    check_unchanged,
    history_response,
)
from ankaios.server.core.log_request_handler import LogRequestHandler
from ankaios.server.core.long_messages import LONG_SIZE, mask_count, message_size, request_size
from ankaios.server.core.recent_rejections import RecentRejections
from ankaios.server.core.record_requests import RecordRequestHandler
from ankaios.server.core.replies import (
    MAX_EVENT_MASKS,
    MAX_MASKS,
    Decision,
    DropAgent,
    Effect,
    HooksFinished,
    NextChange,
    RunHooks,
    SecondPassed,
    ServerMessage,
    broadcast_states,
    plan_response,
    refuse,
    refuse_too_many,
    states_for_agent,
    update_success,
    updates_for_agents,
)
from ankaios.server.core.requester import Requester, UpdateOrigin, origin_of, requested_update, workload_requester
from ankaios.server.core.rights import RequesterRights
from ankaios.server.core.rollout_monitor import RolloutMonitor
from ankaios.server.core.rollouts import Rollout
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.stale_states import StaleStates
from ankaios.server.core.state_interests import StateInterests
from ankaios.server.core.state_update import (
    CommittedUpdate,
    PreparedUpdate,
    added_message,
    changes_from_message,
    commit_update,
    prepare_update,
    update_message,
)
from ankaios.server.core.state_view import StateSnapshot, StateView, state_response
from ankaios.server.core.stored_entries import EntryCollector, changed_keys, desired_entries
from ankaios.server.core.stored_state import (
    HookedWorkloads,
    RestoredState,
    TagOverrides,
    encode_hooked,
    with_previous,
)
from ankaios.server.core.update_rejected import UpdateRejected
from ankaios.server.core.usage_collector import UsageCollector
from ankaios.server.core.waiting_reasons import ClusterFacts
from ankaios.server.core.workload_plan import PlannedChanges, WorkloadChanges
from ankaios.storage.state_store import EntryChange, JsonValue, Revision, StateChange

_log = logging.getLogger(__name__)

MAX_WAITING_UPDATES = 1000
_UPDATES = ("updateStateRequest", "planRequest", "rollbackRequest")


class AnkaiosServer:
    """`has_hooks`: updates are shown to mutating hooks before they are applied. `is_durable`: the state is stored.

    `term` is the term of the leadership; agents reject servers of older terms. `keeps_unlisted`: a part of the state
    was lost, so agents do not delete workloads that are not in it.
    """

    def __init__(
        self,
        *,
        has_hooks: bool = False,
        is_durable: bool = False,
        term: int = 0,
        keeps_unlisted: bool = False,
        history: HistoryLimits | None = None,
    ) -> None:
        self.state = ServerState()
        self._interests = StateInterests(self.state.workload_states)
        self._stale = StaleStates(self.state.workload_states, self.state.effective)
        self._view = StateView(self.state.tree)
        self._entries = EntryCollector()
        self._change: StateChange | None = None
        self._history = History(history)
        self._tags = TagOverrides(is_durable)
        self._hooked = HookedWorkloads()
        self._now = 0.0
        self._events = EventHandler()
        self._logs = LogRequestHandler(self.state)
        self._usage = UsageCollector(self.state)
        self._has_hooks = has_hooks
        self._is_durable = is_durable
        self._term = term
        self._keeps_unlisted = keeps_unlisted
        self._deleting_agents: set[str] = set()  # agents that would delete unlisted workloads
        self._sessions = AgentSessions()
        self._devices = DeviceCoordinator(self.state, self._sessions, self._entries)
        self._facts = ClusterFacts(
            states_of=self.state.workload_states.of_workload,
            is_connected=self.state.agents.__contains__,
            runtimes_of=self._sessions.runtimes_of,
            missing_devices=self._devices.missing_devices,
        )
        self._rights = RequesterRights(self.state.effective)
        self._rejections = RecentRejections()
        self._records = RecordRequestHandler(
            self.state.records,
            CauseFacts(self.state, self._facts, self._sessions.gone_since, self._rejections.last_of),
        )
        self._rollouts = RolloutMonitor(self.state, self._entries)
        self._at_hooks: tuple[UpdateOrigin, PreparedUpdate] | None = None
        self._waiting: deque[tuple[base.Request, UpdateOrigin]] = deque()
        # After an internal error: the state differs from the stored one.
        self.has_unstored_changes = False
        self._unanswered: str | None = None  # the request of an update that waited and is handled now
        self._restoring: str | None = None  # the rollout whose previous state is being restored now

    @property
    def revision(self) -> int:
        """The number of the newest revision."""
        return self._history.current

    @property
    def waiting_updates(self) -> int:
        """Updates that wait until the mutating hooks have seen the ones before."""
        return len(self._waiting) + (self._at_hooks is not None)

    @property
    def subscription_count(self) -> int:
        return len(self._events)

    @property
    def log_request_count(self) -> int:
        return len(self._logs)

    def decide(self, message: ServerMessage, now: float) -> Decision:
        """Handle the message; `now` is in seconds since 1970."""
        self._set_time(now)
        effects = self.handle(message)
        records = self.state.records.take_changed() if self._is_durable else {}
        return Decision(effects, self._change, records)

    def _set_time(self, now: float) -> None:
        self._now = now
        self.state.now_ms = int(now * 1000)

    def takes_long(self, message: ServerMessage) -> bool:
        """Whether other requests should be answered, from a snapshot, while the message is handled."""
        match message:
            case HooksFinished() if self._at_hooks is not None:
                changes = self._at_hooks[1].changes
                return len(changes.added) + len(changes.deleted) > LONG_SIZE
            case NextChange() if (rollout := self._rollouts.next_to_restore()) is not None:
                return len(rollout.entries) > LONG_SIZE
            case NextChange() if self._waiting:
                return request_size(self._waiting[0][0], self.state) > LONG_SIZE
            case _:
                return message_size(message, self.state) > LONG_SIZE

    def snapshot(self) -> StateSnapshot:
        return StateSnapshot(self.state.tree)

    def handle(self, message: ServerMessage) -> list[Effect]:
        """The effects of a message, for callers that store nothing."""
        effects = self._interests.completed(self._effects_of(message))
        effects += self._records.new_records()
        self._change = self._entries.take()
        return effects

    def _effects_of(self, message: ServerMessage) -> list[Effect]:
        match message:
            case FromAgent(agent, content):
                return self._from_agent(agent, content)
            case FromClient(connection, request, sender):
                return self._request(request, Requester(connection) if request.requestId else None, sender)
            case AgentGone(agent):
                return self._agent_gone(agent)
            case ClientGone(connection):
                return self._client_gone(connection)
            case HooksFinished(outcome):
                return [*self._hooks_finished(outcome), *self._turn()]
            case NextChange():
                return [*self._next_change(), *self._turn()]
            case SecondPassed():
                self._entries.note_dropped_revisions(self._history.drop_old(self._now))
                stale = self._remove_states(self._stale.second_passed())
                ticks = [*self._device_event(self._devices.tick), *self._usage.tick(), *stale]
                return [*ticks, *self._advance_rollouts(None)]

    def recover(self, message: ServerMessage, why: str) -> list[Effect]:
        """After an internal error in `handle`: a request is answered with the reason, and nothing stays blocked.

        An agent whose hello failed has to connect again. `has_unstored_changes`: the state has changed.
        """
        self.state.recorder.stop()
        self.has_unstored_changes |= self._entries.take() is not None
        unanswered, self._unanswered = self._unanswered, None
        if self._restoring is not None:
            self._rollouts.not_restored(self._restoring, why)
            self._restoring = None
        match message:
            case FromClient(_, request):
                return [refuse(request.requestId, why)]
            case FromAgent(_, content) if content.HasField("request"):
                return [refuse(content.request.requestId, why)]
            case FromAgent(agent, content) if content.HasField("agentHello"):
                return [DropAgent(agent, why)]
            case _:
                return [*([refuse(unanswered, why)] if unanswered is not None else []), *self._turn()]

    # --- start --------------------------------------------------------------------------------------------------------

    def prepare_start(self, desired: Form, *, as_update: bool = False) -> PreparedUpdate:
        """The startup state, checked like every update. As an update it leaves entries that it does not contain."""
        change = change_by_addition if as_update else change_by_replacement
        changed = change(self.state.desired, {"desiredState": desired})
        return prepare_update(self.state, changed, self._devices.agents())

    def finish_start(
        self, prepared: PreparedUpdate, hooked: grpc.UpdateWorkload | None = None, now: float = 0.0
    ) -> StateChange | None:
        """Apply the startup state. No effects: nothing is connected yet. Returns the change to store.

        [impl->swdd~server-loads-startup-state-file~3]
        """
        self._set_time(now)
        changes = prepared.changes if hooked is None else changes_from_message(hooked)
        self._note_update(UpdateOrigin("", "startup manifest"), prepared, changes)
        self._take_over(prepared, self._devices.plan(changes))
        self._devices.desired_changed(prepared.desired, prepared.rendered)
        return self._entries.take()

    def restore(
        self, restored: RestoredState, revisions: Sequence[Revision] = (), last_revision: int = 0, now: float = 0.0
    ) -> StateChange | None:
        """Continue with a stored state. Returns a change to store."""
        self._set_time(now)
        self._history.restore(revisions, last_revision)
        self._tags.restore(restored.tags)
        self._hooked.restore(restored.hooked)
        self._devices.restore(restored.placements)
        for fault in self._rollouts.restore(restored.rollouts):
            _log.warning("A stored rollout cannot be continued: %s", fault)
        self._take_over(restored.update, self._devices.plan(restored.update.changes))
        self._devices.desired_changed(restored.update.desired, restored.update.rendered)
        return self._entries.take()

    def load_records(self, stored: Mapping[str, JsonValue]) -> None:
        """Continue with stored records of workloads."""
        if unreadable := self.state.records.load(chain.from_iterable(filter(None, stored.values()))):
            _log.warning("%d stored records of workloads cannot be read.", unreadable)

    # --- agents -------------------------------------------------------------------------------------------------------

    def _from_agent(self, agent: str, message: grpc.ToServer) -> list[Effect]:
        match message.WhichOneof("ToServerEnum"):
            case "agentHello":
                return self._agent_hello(agent, message.agentHello)
            case "updateWorkloadState":
                return self._workload_states(agent, message.updateWorkloadState.workloadStates)
            case "request":
                return self._agent_request(agent, message.request)
            case "AgentLoadStatus":
                return self._load_status(agent, message.AgentLoadStatus)
            case "logEntriesResponse":
                return self._logs.entries(message.logEntriesResponse)
            case "logsStopResponse":
                return self._logs.stopped(message.logsStopResponse)
            case "deviceReport" | "slotRequest":
                return self._device_event(lambda: self._devices.report(agent, message))
            case "workloadRecords":
                self._records.from_agent(agent, message.workloadRecords.records)
                return []
            case "knownWorkloads":
                return self._known_workloads(agent, message.knownWorkloads)
            case "usageReport":
                return self._usage.report(agent, message.usageReport)
            case other:
                _log.warning("Ignored '%s' of agent '%s'.", other, agent)
                return []

    def _agent_request(self, agent: str, request: base.Request) -> list[Effect]:
        """Requests of an agent come from its workloads; what a workload may write depends on its rights."""
        requester = workload_requester(agent, request.requestId)
        if requester is None and request.WhichOneof("RequestContent") in _UPDATES:
            text = "Access denied: an agent can only forward requests of its workloads, the request id names none"
            return [refuse(request.requestId, text)]
        return self._request(request, requester)

    def _agent_hello(self, agent: str, hello: grpc.AgentHello) -> list[Effect]:
        """[impl->swdd~server-informs-a-newly-connected-agent-workload-states~1]
        [impl->swdd~server-sends-all-workloads-on-start~2]
        [impl->swdd~server-stores-newly-connected-agent~2]
        [impl->swdd~server-sends-event-for-newly-connected-agent~1]
        """
        question = self._devices.question(agent, hello)
        if self._stale.connect(agent, lists_workloads=hello.devices) and not question:
            question = [ToAgent(agent, grpc.FromServer(tellWorkloads=grpc.TellWorkloads()))]
        if hello.records:
            wanted = grpc.AgentRecordsRequest(sinceMs=self.state.records.newest_of_agent(agent))
            question = [*question, ToAgent(agent, grpc.FromServer(recordsRequest=wanted))]
        if hello.dependencyStatesOnly:
            self._interests.connect(agent)
        effects = [*question, *states_for_agent(agent, self._interests.initial_states(agent))]
        self._watch()
        self._use_overridden_tags(agent, hello)
        self._note_deleting_agent(agent, hello)
        self.state.agents.add(agent, hello.tags.tags)
        messages = self._devices.hello(agent, hello)
        workloads = (workload.instance_name for workload in self.state.workloads_of_agent(agent))
        self._sessions.connect(agent, workloads, hello.runtimes)
        effects += self._seen_changes()
        own = self._commit_own()  # decides what runs on the agent, which its greeting contains
        usage = self._usage.agent_connected(agent, hello)
        return [*effects, *self._greetings(), *messages, *own, *usage]

    def _note_deleting_agent(self, agent: str, hello: grpc.AgentHello) -> None:
        """An agent of Eclipse Ankaios deletes what its greeting does not contain, so it is not greeted after a loss."""
        self._deleting_agents.discard(agent)
        if self._keeps_unlisted and not hello.keepsUnlisted:
            self._deleting_agents.add(agent)
            _log.error(
                "Agent '%s' gets no commands, because it would delete workloads that are not in the state. "
                "Complete the state, then start the server with --accept-loss.",
                agent,
            )

    def _use_overridden_tags(self, agent: str, hello: grpc.AgentHello) -> None:
        tags, entries = self._tags.hello(agent, dict(hello.tags.tags))
        self._entries.note_all(entries)
        hello.tags.CopyFrom(base.Tags(tags=tags))

    def _greetings(self) -> list[Effect]:
        """Greet the agents whose workloads are decided."""
        effects: list[Effect] = []
        for agent in filter(self._devices.may_greet, self._sessions.ungreeted()):
            if agent in self._deleting_agents:
                continue
            workloads = map(added_message, self._devices.greet(agent))
            greeting = grpc.ServerHello(addedWorkloads=workloads, term=self._term, keepUnlisted=self._keeps_unlisted)
            effects.append(ToAgent(agent, grpc.FromServer(serverHello=greeting)))
            effects += self._logs.agent_greeted(agent)
        return effects

    def _agent_gone(self, agent: str) -> list[Effect]:
        """[impl->swdd~server-removes-disconnected-agents-from-state~2]
        [impl->swdd~server-set-workload-state-on-disconnect~1]
        [impl->swdd~server-distribute-workload-state-on-disconnect~1]
        [impl->swdd~server-sends-events-for-disconnected-agent~1]
        """
        self._interests.disconnect(agent)
        self._stale.disconnect(agent)
        self._watch()
        self._sessions.disconnect(agent, self.state.now_ms)
        self._tags.gone(agent)
        self.state.agents.remove(agent)
        names = self.state.workload_states.mark_disconnected(agent)
        effects = self._seen_changes()
        self._events.remove_of_peer(agent)
        self._records.cancel_of_peer(agent)
        self._rollouts.cancel_of_peer(agent)
        effects += broadcast_states((name, AGENT_DISCONNECTED) for name in names)
        effects += self._logs.agent_gone(agent)
        effects += self._usage.agent_gone(agent)
        effects += self._device_event(lambda: self._devices.gone(agent))
        return effects + self._advance_rollouts({name.workload for name in names})

    def _workload_states(self, agent: str, messages: Iterable[base.WorkloadState]) -> list[Effect]:
        """[impl->swdd~server-stores-workload-state~1]
        [impl->swdd~server-forwards-workload-state~1]
        [impl->swdd~server-sends-event-for-updated-workload-states~1]
        [impl->swdd~server-sends-event-for-removed-workload-states~1]
        """
        reported = list(_valid_states(agent, messages))
        for name, state, time_ms in reported:
            self.state.records.add(StateRecord(name, time_ms or self.state.now_ms, state))
        states = [(name, state) for name, state, _ in reported]
        self._watch()
        self.state.workload_states.process(states)
        self._devices.states_seen(states)
        effects = self._seen_changes()
        for name, state in states:
            if state.is_same(REMOVED):
                self._forget_workload(name)
        self._rollouts.seen(states)
        effects += broadcast_states(states)
        if self._devices.has_due:
            effects += self._commit_own()
        return effects + self._advance_rollouts({name.workload for name, _ in states})

    def _known_workloads(self, agent: str, known: grpc.KnownWorkloads) -> list[Effect]:
        stale = self._stale.listed(agent, set(map(instance_name_from_pb, known.instanceNames)))
        return self._device_event(lambda: self._devices.known_workloads(agent, known)) + self._remove_states(stale)

    def _remove_states(self, names: Sequence[InstanceName]) -> list[Effect]:
        """Remove the states of instances that do not exist on any agent."""
        if not names:
            return []
        states = [(name, REMOVED) for name in names]
        self._watch()
        self.state.workload_states.process(states)
        effects = self._seen_changes()
        for name in names:
            self._forget_workload(name)
        return effects + broadcast_states(states)

    def _forget_workload(self, name: InstanceName) -> None:
        """[impl->swdd~server-cleans-up-state~1]
        [impl->swdd~server-removes-subscription-for-deleted-subscriber-workload~1]
        """
        self.state.forget_removed(name)
        self._events.remove_of_workload(name.agent, name.workload)

    def _load_status(self, agent: str, status: grpc.AgentLoadStatus) -> list[Effect]:
        """[impl->swdd~server-receives-resource-availability~2]
        [impl->swdd~server-sends-event-for-updated-agent-resource-availability~1]
        """
        self._watch()
        self.state.agents.set_load(agent, status.cpu_usage.cpu_usage, status.free_memory.free_memory)
        return self._seen_changes()

    # --- requests -----------------------------------------------------------------------------------------------------

    def _request(
        self, request: base.Request, requester: Requester | None, sender: ClientIdentity = UNKNOWN_CLIENT
    ) -> list[Effect]:
        """`requester` is None if the id does not name the workload that sent the request."""
        request_id, content = request.requestId, request.WhichOneof("RequestContent")
        if content is None:
            return [refuse(request_id, "The request has no content that is known here.")]
        if (count := mask_count(request)) > MAX_MASKS:
            text = f"{count} field masks are more than the limit of {MAX_MASKS}; send several requests"
            return [refuse(request_id, f"cannot accept the request: {text}")]
        if content in _UPDATES:
            return self._update_state(request, origin_of(request, requester, sender))
        if content == "completeStateRequest" and not request.completeStateRequest.subscribeForEvents:
            return [state_response(self._view, request_id, request.completeStateRequest.fieldMask)[0]]
        if requester is None:
            _log.debug("Ignored a request: its id '%s' does not name the requester.", request_id)
            return []
        if content == "completeStateRequest":
            return self._subscribe(request_id, request.completeStateRequest.fieldMask, requester)
        if content == "logsRequest":
            return self._logs.request(request_id, request.logsRequest, requester)
        if content == "logsCancelRequest":
            return self._logs.cancel(request_id)
        if content == "usageRequest":
            return self._usage.request(request_id, request.usageRequest, requester)
        if content == "historyRequest":
            return [self._history_response(request_id, request.historyRequest, requester)]
        if content == "eventsCancelRequest":
            return self._unsubscribe(request_id)
        if content == "recordsRequest":
            return [
                self._records.request(
                    request_id, request.recordsRequest, requester, self._rights.readable_logs(requester)
                )
            ]
        if content == "rolloutsRequest":
            return [self._rollouts.request(request_id, request.rolloutsRequest, requester)]
        if content == "whyRequest":
            return [self._records.why(request_id, request.whyRequest.workload, self._rights.readable_logs(requester))]
        return [refuse(request_id, f"This server does not support the request '{content}'.")]

    def _history_response(self, request_id: str, request: base.HistoryRequest, requester: Requester) -> Respond:
        """A workload receives only the entries that it may read."""
        response = history_response(self._history, request, self._rights.readable_paths(requester))
        return Respond(base.Response(requestId=request_id, historyResponse=response))

    def _subscribe(self, request_id: str, masks: Sequence[str], requester: Requester) -> list[Effect]:
        """The response is the current state. Invalid masks do not subscribe.

        [impl->swdd~server-stores-new-event-subscription~1]
        """
        if not self._events.has_room(requester):
            return [refuse_too_many(request_id, "event subscriptions")]
        if len(masks) > MAX_EVENT_MASKS:
            text = f"cannot subscribe: {len(masks)} field masks are more than the limit of {MAX_EVENT_MASKS}"
            return [refuse(request_id, text)]
        answer, is_valid = state_response(self._view, request_id, masks)
        if is_valid:
            self._events.add(request_id, requester, masks)
        return [answer]

    def _unsubscribe(self, request_id: str) -> list[Effect]:
        """[impl->swdd~server-removes-event-subscription~1]"""
        self._events.remove(request_id)
        self._records.cancel(request_id)
        self._rollouts.cancel(request_id)
        return [Respond(base.Response(requestId=request_id, eventsCancelAccepted=base.EventsCancelAccepted()))]

    def _client_gone(self, connection: str) -> list[Effect]:
        """[impl->swdd~server-removes-event-subscription-for-disconnected-cli~1]"""
        self._events.remove_of_peer(connection)
        self._records.cancel_of_peer(connection)
        self._rollouts.cancel_of_peer(connection)
        self._usage.client_gone(connection)
        return self._logs.client_gone(connection)

    # --- updates of the desired state ---------------------------------------------------------------------------------

    def _update_state(self, request: base.Request, origin: UpdateOrigin) -> list[Effect]:
        """While hooks process one update, the others wait; all other messages are handled.

        [impl->swdd~server-continues-on-invalid-updated-state~1]
        """
        if self._at_hooks is not None:
            if len(self._waiting) >= MAX_WAITING_UPDATES:
                return [self._reject(origin, UpdateRejected("too many updates are waiting, try again later"))]
            self._waiting.append((request, origin))
            return []
        change: DesiredChange | None = None
        try:
            change = self._requested_change(request)
            self._rights.check_change(origin.requester, change)
            self._rollouts.check(changed_keys(self.state.desired, change), origin.atomic)
            prepared = prepare_update(self.state, change, self._devices.agents())
        except UpdateRejected as fault:
            return [self._reject(origin, fault, change)]
        if self._has_hooks and prepared.changes:
            shown = RunHooks(update_message(prepared.changes))
            self._at_hooks = origin, prepared
            return [shown]
        return self._commit_or_plan(origin, prepared, prepared.changes)

    def _requested_change(self, request: base.Request) -> DesiredChange:
        if request.HasField("rollbackRequest"):
            return change_by_rollback(self._history, self.state.desired, request.rollbackRequest, self._tags.tags_for)
        update = requested_update(request)
        change = change_by_request(self.state.desired, update)
        if update.HasField("ifRevision"):
            check_unchanged(self._history, update.ifRevision, changed_keys(self.state.desired, change))
        return change

    def _reject(self, origin: UpdateOrigin, fault: UpdateRejected, change: DesiredChange | None = None) -> Respond:
        if origin.is_plan:
            from ankaios.server.core.change_plan import describe_rejection

            return plan_response(origin.request_id, describe_rejection(fault))
        self._rejections.add(change.workloads if change is not None else (), self.state.now_ms, str(fault))
        return _refuse_update(origin.request_id, fault)

    def _commit_or_plan(self, origin: UpdateOrigin, prepared: PreparedUpdate, changes: WorkloadChanges) -> list[Effect]:
        return [self._plan(origin, prepared, changes)] if origin.is_plan else self._commit(origin, prepared, changes)

    def _plan(self, origin: UpdateOrigin, prepared: PreparedUpdate, changes: WorkloadChanges) -> Respond:
        """Everything is decided as for a commit, and nothing is changed."""
        # Loaded with the first request for a plan: 0.2 MiB.
        from ankaios.server.core.change_plan import describe_plan, hide_unreadable

        plan = describe_plan(self.state, prepared, self._devices.plan(changes), self._facts)
        plan.revision = self._history.current
        hide_unreadable(plan, self._rights.readable_paths(origin.requester))
        return plan_response(origin.request_id, plan)

    def _hooks_finished(self, outcome: grpc.UpdateWorkload | UpdateRejected | None) -> list[Effect]:
        assert self._at_hooks is not None, "no update was shown to hooks"
        origin, prepared = self._at_hooks
        self._at_hooks, self._unanswered = None, origin.request_id
        try:
            if isinstance(outcome, UpdateRejected):
                raise outcome
            changes = prepared.changes if outcome is None else changes_from_message(outcome)
            effects = self._commit_or_plan(origin, prepared, changes)
        except UpdateRejected as fault:
            effects = [self._reject(origin, fault, prepared.desired)]
        effects += self._commit_own()  # changes that became due while hooks processed the update
        self._unanswered = None
        return effects + self._greetings()

    def _turn(self) -> list[Effect]:
        """Each change is handled as a separate message, so that its effects do not depend on the others.

        While hooks process an update, nothing may change that the update was compared with.
        """
        has_next = self._waiting or self._rollouts.next_to_restore() is not None
        return [NextChange()] if has_next and self._at_hooks is None else []

    def _next_change(self) -> list[Effect]:
        if self._at_hooks is not None:
            return []
        if (rollout := self._rollouts.next_to_restore()) is not None:
            self._restoring = rollout.name
            effects = self._restore_before(rollout)
            self._restoring = None
            return effects
        if not self._waiting:
            return []
        request, origin = self._waiting.popleft()
        self._unanswered = request.requestId
        effects = self._update_state(request, origin)
        self._unanswered = None
        return effects

    def _commit(self, origin: UpdateOrigin, prepared: PreparedUpdate, changes: WorkloadChanges) -> list[Effect]:
        """[impl->swdd~server-sends-event-for-initial-workload-states~1]"""
        self._watch()
        self._rejections.accepted(prepared.desired.workloads)
        names = {*changes.added, *changes.deleted} if origin.atomic is not None else set()
        ready, effective = self._rollouts.ready_before(names), self._effective_before(names)
        entries = self._note_update(origin, prepared, changes)
        committed = self._take_over(prepared, self._devices.plan(changes))
        rollout = self._rollouts.begin(origin, entries, committed, ready, effective) if names else None
        messages = self._devices.desired_changed(prepared.desired, prepared.rendered)
        events = self._seen_changes()
        revision = self._history.current if origin.wants_revision else None
        success = update_success(origin.request_id, committed, revision, rollout)
        consequences = [success, *events] if not changes else [*self._consequences(committed, events), success]
        return [*consequences, *messages, *self._commit_own()]

    def _effective_before(self, names: Iterable[str]) -> dict[str, JsonValue]:
        """What agents have of these workloads, if mutating hooks may have changed it."""
        known = self.state.effective if self._has_hooks else {}
        return {name: encode_hooked(known[name]) for name in names if name in known}

    def _note_update(
        self, origin: UpdateOrigin, prepared: PreparedUpdate, changes: WorkloadChanges
    ) -> list[EntryChange]:
        """Before the update is applied: what has to be stored of it, and its revision."""
        desired = [
            *desired_entries(self.state.desired, prepared.desired),
            *self._tags.set(prepared.desired.agent_tags),
        ]
        self._entries.note_all(desired)
        self._entries.note_all(self._hooked.set(self.state.effective, prepared, changes))
        if desired:
            revision = self._history.add(self._now, origin.requester_text, origin.masks, desired, origin.note)
            self._entries.note_revision(revision, self._history.drop_old(self._now))
        return desired

    def _take_over(self, prepared: PreparedUpdate, planned: PlannedChanges) -> CommittedUpdate:
        committed = commit_update(self.state, prepared, planned)
        self._devices.commit(planned)
        return committed

    def _consequences(self, committed: CommittedUpdate, events: list[Effect]) -> list[Effect]:
        effects = self._logs.workloads_deleted(committed.deleted)
        effects += events
        effects += broadcast_states((name, REMOVED) for name in committed.unstarted)
        return effects + updates_for_agents(committed, self.state.agents.form.keys())

    # --- rollouts -----------------------------------------------------------------------------------------------------

    def _advance_rollouts(self, names: Collection[str] | None) -> list[Effect]:
        """States of these workloads, or the time, have changed."""
        return [*self._rollouts.advance(names), *self._turn()]

    def _restore_before(self, rollout: Rollout) -> list[Effect]:
        """Restore the entries that the rollout has changed, without hooks: agents get the workloads they had before."""
        values = {entry.key: entry.before for entry in rollout.entries}
        try:
            change = change_to_values(values, self.state.desired, self._tags.tags_for)
            prepared = prepare_update(self.state, change, self._devices.agents())
        except UpdateRejected as fault:
            self._rollouts.not_restored(rollout.name, fault.reason)
            return []
        note = f"restores the state before {rollout.name}: {rollout.reason}"
        _log.warning("%s failed, its change is undone: %s", rollout.name, rollout.reason)
        self._watch()
        changes = with_previous(prepared.changes, rollout.hooked)
        self._note_update(UpdateOrigin("", "server", note=note), prepared, changes)
        committed = self._take_over(prepared, self._devices.plan(changes))
        messages = self._devices.desired_changed(prepared.desired, prepared.rendered)
        effects = self._consequences(committed, self._seen_changes())
        self._rollouts.restoring(rollout.name, committed)
        return [*effects, *messages, *self._commit_own()]

    # --- devices ------------------------------------------------------------------------------------------------------

    def _device_event(self, happened: Callable[[], list[ToAgent]]) -> list[Effect]:
        self._watch()
        messages = happened()
        return [*self._seen_changes(), *messages, *self._commit_own(), *self._greetings()]

    def _commit_own(self) -> list[Effect]:
        """Commit changes of brokers and placements. They have no requester, so there is no response.

        While hooks process an update, its base must not change; changes that become due then are committed after it.
        """
        if self._at_hooks is not None or not self._devices.must_plan:
            return []
        self._watch()
        planned = self._devices.due()
        nothing = DesiredChange(self.state.desired["apiVersion"])
        committed = self._take_over(PreparedUpdate(nothing, planned.rendered, planned.changes), planned)
        return self._consequences(committed, self._seen_changes())

    # --- events -------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Without subscribers, changes are not recorded."""
        if self._events:
            self.state.recorder.start()

    def _seen_changes(self) -> list[Effect]:
        return [*self._events.events(self.state.recorder.finish(), self._view.select)] if self._events else []


def _valid_states(
    agent: str, messages: Iterable[base.WorkloadState]
) -> Iterable[tuple[InstanceName, ExecutionState, int]]:
    """States with their times. States of workloads of other agents and states without a value are dropped."""
    for message in messages:
        try:
            name, state = workload_state_from_pb(message)
        except Rejected as fault:
            _log.warning("Dropped a workload state of agent '%s': %s.", agent, fault)
            continue
        if name.agent == agent:
            yield name, state, max(0, message.timeMs)
        else:
            _log.warning("Dropped the state of '%s' that came from agent '%s'.", name, agent)


def _refuse_update(request_id: str, fault: UpdateRejected) -> Respond:
    _log.info("Refused the update '%s': %.500s", request_id, fault)
    return refuse(request_id, str(fault))
