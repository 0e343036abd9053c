"""The decisions of the server: `decide(message)` returns what follows from a message.

Input: messages of agents and command lines, and the end of their connections. Output: effects, in the order in which
they are to be performed, and the change of stored entries that must be durable before. The facts are in `ServerState`.
Each kind of message has a handler, which owns what it needs in addition; all of them change one message at a time.
"""

import logging
from collections.abc import Mapping, Sequence
from itertools import chain

from ankaios.common.messages import (
    UNKNOWN_CLIENT,
    AgentGone,
    ClientGone,
    ClientIdentity,
    FromAgent,
    FromClient,
    Respond,
)
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.state_manipulation import Form
from ankaios.server.core.agent_message_handler import AgentMessageHandler
from ankaios.server.core.change_committer import ChangeCommitter
from ankaios.server.core.desired_state_draft import change_by_addition, change_by_replacement
from ankaios.server.core.device_coordinator import DeviceCoordinator
from ankaios.server.core.event_handler import EventHandler
from ankaios.server.core.history import HistoryLimits
from ankaios.server.core.history_requests import history_response
from ankaios.server.core.log_request_handler import LogRequestHandler
from ankaios.server.core.long_messages import LONG_SIZE, mask_count, message_size
from ankaios.server.core.record_requests import RecordRequestHandler
from ankaios.server.core.replies import (
    MAX_EVENT_MASKS,
    MAX_MASKS,
    Decision,
    DropAgent,
    Effect,
    HooksFinished,
    NextChange,
    SecondPassed,
    ServerMessage,
    refuse,
    refuse_too_many,
)
from ankaios.server.core.requester import Requester, UpdateOrigin, origin_of, workload_requester
from ankaios.server.core.rights import RequesterRights
from ankaios.server.core.rollout_monitor import RolloutMonitor
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import PreparedUpdate, changes_from_message, prepare_update
from ankaios.server.core.state_view import StateSnapshot, StateView, state_response
from ankaios.server.core.stored_state import RestoredState
from ankaios.server.core.update_request_handler import UpdateRequestHandler
from ankaios.server.core.usage_collector import UsageCollector
from ankaios.server.core.waiting_reasons import ClusterFacts
from ankaios.storage.state_store import JsonValue, Revision, StateChange

_log = logging.getLogger(__name__)

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
        self.state = state = ServerState()
        self._is_durable = is_durable
        # After an internal error: the state differs from the stored one.
        self.has_unstored_changes = False
        self._change: StateChange | None = None
        self._view = StateView(state.tree)
        self._events = EventHandler(state.recorder, self._view.select)
        self._logs = LogRequestHandler(state)
        self._usage = UsageCollector(state)
        self._devices = DeviceCoordinator(state)
        self._rollouts = RolloutMonitor(state)
        self._rights = RequesterRights(state.effective)
        facts = ClusterFacts(state, self._devices.missing_devices)
        self._records = RecordRequestHandler(facts, self._rights)
        self._committer = ChangeCommitter(
            state, self._devices, self._events, self._logs, is_durable=is_durable, limits=history
        )
        self._updates = UpdateRequestHandler(
            state, self._committer, self._devices, self._rollouts, self._rights, facts, has_hooks=has_hooks
        )
        self._agents = AgentMessageHandler(
            state,
            self._devices,
            self._committer,
            self._updates,
            self._events,
            self._records,
            self._rollouts,
            self._logs,
            self._usage,
            term=term,
            keeps_unlisted=keeps_unlisted,
        )

    @property
    def revision(self) -> int:
        """The number of the newest revision."""
        return self._committer.history.current

    @property
    def waiting_updates(self) -> int:
        return self._updates.waiting_count

    @property
    def subscription_count(self) -> int:
        return len(self._events)

    @property
    def log_request_count(self) -> int:
        return len(self._logs)

    def decide(self, message: ServerMessage, now: float) -> Decision:
        """Handle the message; `now` is in seconds since 1970."""
        self.state.now = now
        effects = self.handle(message)
        records = self.state.records.take_changed() if self._is_durable else {}
        return Decision(effects, self._change, records)

    def takes_long(self, message: ServerMessage) -> bool:
        """Whether other requests should be answered, from a snapshot, while the message is handled."""
        match message:
            case HooksFinished():
                return self._updates.size_at_hooks() > LONG_SIZE
            case NextChange():
                return self._updates.size_of_next() > LONG_SIZE
            case _:
                return message_size(message, self.state) > LONG_SIZE

    def snapshot(self) -> StateSnapshot:
        return StateSnapshot(self.state.tree)

    def handle(self, message: ServerMessage) -> list[Effect]:
        """The effects of a message, for callers that store nothing."""
        effects = self._agents.interests.completed(self._effects_of(message))
        effects += self._records.new_records()
        self._change = self.state.entries.take()
        return effects

    def _effects_of(self, message: ServerMessage) -> list[Effect]:
        match message:
            case FromAgent(agent, content):
                return self._from_agent(agent, content)
            case FromClient(connection, request, sender):
                return self._request(request, Requester(connection) if request.requestId else None, sender)
            case AgentGone(agent):
                return self._agents.gone(agent)
            case ClientGone(connection):
                return self._client_gone(connection)
            case HooksFinished(outcome):
                finished = self._updates.hooks_finished(outcome)
                return [*finished, *self._agents.greetings(), *self._updates.turn()]
            case NextChange():
                return [*self._updates.next_change(), *self._updates.turn()]
            case SecondPassed():
                self._committer.drop_old_revisions()
                return [*self._agents.second_passed(), *self._updates.advance_rollouts(None)]

    def recover(self, message: ServerMessage, why: str) -> list[Effect]:
        """After an internal error in `handle`: a request is answered with the reason, and nothing stays blocked.

        An agent whose hello failed has to connect again. `has_unstored_changes`: the state has changed.
        """
        self.state.recorder.stop()
        self.has_unstored_changes |= self.state.entries.take() is not None
        refused = self._updates.recover(why)
        match message:
            case FromClient(_, request):
                return [refuse(request.requestId, why)]
            case FromAgent(_, content) if content.HasField("request"):
                return [refuse(content.request.requestId, why)]
            case FromAgent(agent, content) if content.HasField("agentHello"):
                return [DropAgent(agent, why)]
            case _:
                return [*refused, *self._updates.turn()]

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
        self.state.now = now
        changes = prepared.changes if hooked is None else changes_from_message(hooked)
        self._committer.commit(UpdateOrigin("", "startup manifest"), prepared, changes)
        return self.state.entries.take()

    def restore(
        self, restored: RestoredState, revisions: Sequence[Revision] = (), last_revision: int = 0, now: float = 0.0
    ) -> StateChange | None:
        """Continue with a stored state. Returns a change to store."""
        self.state.now = now
        for fault in self._rollouts.restore(restored.rollouts):
            _log.warning("A stored rollout cannot be continued: %s", fault)
        self._committer.restore(restored, revisions, last_revision)
        return self.state.entries.take()

    def load_records(self, stored: Mapping[str, JsonValue]) -> None:
        """Continue with stored records of workloads."""
        if unreadable := self.state.records.load(chain.from_iterable(filter(None, stored.values()))):
            _log.warning("%d stored records of workloads cannot be read.", unreadable)

    # --- agents -------------------------------------------------------------------------------------------------------

    def _from_agent(self, agent: str, message: grpc.ToServer) -> list[Effect]:
        match message.WhichOneof("ToServerEnum"):
            case "agentHello":
                return self._agents.hello(agent, message.agentHello)
            case "updateWorkloadState":
                return self._agents.workload_states(agent, message.updateWorkloadState.workloadStates)
            case "request":
                return self._agent_request(agent, message.request)
            case "AgentLoadStatus":
                return self._agents.load_status(agent, message.AgentLoadStatus)
            case "logEntriesResponse":
                return self._logs.entries(message.logEntriesResponse)
            case "logsStopResponse":
                return self._logs.stopped(message.logsStopResponse)
            case "deviceReport" | "slotRequest":
                return self._agents.device_event(lambda: self._devices.report(agent, message))
            case "workloadRecords":
                self._records.from_agent(agent, message.workloadRecords.records)
                return []
            case "knownWorkloads":
                return self._agents.known_workloads(agent, message.knownWorkloads)
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
            return self._updates.request(request, origin_of(request, requester, sender))
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
            return [self._records.request(request_id, request.recordsRequest, requester)]
        if content == "rolloutsRequest":
            return [self._rollouts.request(request_id, request.rolloutsRequest, requester)]
        if content == "whyRequest":
            return [self._records.why(request_id, request.whyRequest.workload, requester)]
        return [refuse(request_id, f"This server does not support the request '{content}'.")]

    def _history_response(self, request_id: str, request: base.HistoryRequest, requester: Requester) -> Respond:
        """A workload receives only the entries that it may read."""
        response = history_response(self._committer.history, request, self._rights.readable_paths(requester))
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
