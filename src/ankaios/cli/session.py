"""One session with the server: sends requests and returns the matching responses.

Input: an open connection. Output: responses, events and workload states, or `RequestFailed`. Owns the request ids, the
responses that arrived early, and the workload states that arrived while another response was awaited.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic

from ankaios.common.errors import Unavailable
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.middleware.blocking_client import BlockingConnection
from ankaios.middleware.connecting import ConnectionLost

STATE_LOST = "Channel preliminary closed."
UPDATE_LOST = "Connection to server interrupted"
LOGS_LOST = "Error streaming workload logs: channel preliminary closed."
UNSUPPORTED = "The server ended the connection instead of an answer"
_UNSUPPORTED_HINT = "a server of Eclipse Ankaios does not support this command"
_GOODBYE_SECONDS = 1.0
_MAX_KEPT_STATES = 100_000


class RequestFailed(Exception):
    """A request to the server failed. The text is the reason; `text` is the compatible form for the user."""

    def __init__(self, reason: str, hint: str = "", *, is_timeout: bool = False) -> None:
        super().__init__(reason)
        self.hint = hint
        self.is_timeout = is_timeout

    @property
    def text(self) -> str:
        return f"Command failed: '{self}'"


class RequestRejected(RequestFailed):
    """The server answered with an error; `message` is its text."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(f"the server rejected the request for {what}: {message}")
        self.message = message


class SessionLost(RequestFailed):
    """The connection was lost. Another server may continue: `Session.can_follow`."""


def execution_error(error: RequestFailed) -> str:
    """The reason as `delete config` and `logs` of Eclipse Ankaios wrap it, in debug notation."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return 'ExecutionError("' + "".join(escapes.get(char, char) for char in str(error)) + '")'


class Session:
    def __init__(self, connection: BlockingConnection, timeout_ms: int) -> None:
        self._connection = connection
        self._timeout_ms = timeout_ms
        self._awaited: dict[str, base.Response | None] = {}
        self._states: deque[base.WorkloadState] = deque(maxlen=_MAX_KEPT_STATES)
        self.on_response: Callable[[base.Response], None] | None = None
        """Gets the responses that no call waits for, such as those of log campaigns."""

    @property
    def can_follow(self) -> bool:
        """Whether another server may continue after this one: several share the state."""
        return self._connection.can_follow

    def complete_state(self, *masks: str, limit_ms: int | None = None) -> base.CompleteState:
        """The selected parts of the state, or everything without masks. The state is empty if the server sends none."""
        return self.receive_state(self.send_state_request(*masks), limit_ms)

    def send_state_request(self, *masks: str) -> str:
        """Send the request without waiting; `receive_state` returns the response."""
        wanted = base.CompleteStateRequest(fieldMask=masks)
        return self._send_new(base.Request(completeStateRequest=wanted), STATE_LOST)

    def receive_state(self, request_id: str, limit_ms: int | None = None) -> base.CompleteState:
        response = self._response(request_id, ("completeStateResponse",), STATE_LOST, limit_ms)
        return response.completeStateResponse.completeState

    def update(self, new_state: base.CompleteState, masks: Iterable[str]) -> base.UpdateStateSuccess:
        return self.receive_success(self.send_update(new_state, masks))

    def send_update(self, new_state: base.CompleteState, masks: Iterable[str]) -> str:
        """Send the update without waiting; `receive_success` returns the response."""
        update = base.UpdateStateRequest(newState=new_state, updateMask=masks)
        return self.send_change(base.Request(updateStateRequest=update))

    def send_change(self, request: base.Request) -> str:
        """Send a request that is answered with an `UpdateStateSuccess`."""
        return self._send_new(request, UPDATE_LOST)

    def receive_success(self, request_id: str) -> base.UpdateStateSuccess:
        response = self._response(request_id, ("UpdateStateSuccess", "error"), UPDATE_LOST)
        if response.HasField("error"):
            raise RequestFailed(f"SetState failed with: '{response.error.message}'")
        return response.UpdateStateSuccess

    def plan(self, update: base.UpdateStateRequest) -> base.PlanResponse:
        request = base.Request(planRequest=base.PlanRequest(update=update))
        return self._extension(request, "planResponse", "plans").planResponse

    def _extension(self, request: base.Request, kind: str, what: str) -> base.Response:
        """The response to a request that servers of Eclipse Ankaios do not have."""
        unsupported = f"the server supports no {what}; servers of Eclipse Ankaios do not have them"
        try:
            response = self._response(self._send_new(request, unsupported), (kind, "error"), unsupported)
        except RequestFailed as error:
            if error.is_timeout:
                raise RequestFailed(f"{unsupported} (no response within {duration_text(self._timeout_ms)})") from error
            raise
        if response.HasField("error"):
            raise RequestRejected(what, response.error.message)
        return response

    def why(self, workload: str) -> list[base.Cause]:
        request = base.Request(whyRequest=base.WhyRequest(workload=workload))
        return list(self._extension(request, "whyResponse", "explanations of workloads").whyResponse.causes)

    def records(self, wanted: base.RecordsRequest) -> tuple[str, list[base.WorkloadRecord]]:
        """The id of the request, and the records so far; `next_records` returns those that follow."""
        response = self._extension(base.Request(recordsRequest=wanted), "recordsResponse", "records of workloads")
        return response.requestId, list(response.recordsResponse.records)

    def rollouts(self, wanted: base.RolloutsRequest) -> tuple[str, list[base.RolloutInfo]]:
        """The id of the request, and the rollouts; with `follow`, `next_rollouts` returns their changes."""
        response = self._extension(base.Request(rolloutsRequest=wanted), "rolloutsResponse", "rollouts")
        return response.requestId, list(response.rolloutsResponse.rollouts)

    def next_rollouts(self, request_id: str) -> list[base.RolloutInfo]:
        while True:
            message = self._receive(None, UPDATE_LOST)
            response = message.response if message else None
            if response and response.requestId == request_id and response.HasField("rolloutsResponse"):
                return list(response.rolloutsResponse.rollouts)

    def next_records(self, request_id: str) -> list[base.WorkloadRecord]:
        while True:
            message = self._receive(None, UPDATE_LOST)
            response = message.response if message else None
            if response and response.requestId == request_id and response.HasField("recordsResponse"):
                return list(response.recordsResponse.records)

    def ask(self, request: base.Request, kind: str) -> base.Response:
        """Send a request that only servers of this project support; return its response of this kind."""
        try:
            response = self._response(self._send_new(request, UNSUPPORTED), (kind, "error"), UNSUPPORTED)
        except RequestFailed as error:
            raise RequestFailed(str(error), error.hint or _UNSUPPORTED_HINT) from error
        if response.HasField("error"):
            raise RequestFailed(response.error.message)
        return response

    @property
    def accepts_additions(self) -> bool:
        """False for a server of Eclipse Ankaios, which may end the connection on an unsupported request.

        Known after the first response.
        """
        return self._connection.accepts_additions

    def usage(self, seconds: int, limit_ms: int | None = None) -> base.UsageResponse:
        """The resource usage of all workloads. Agents go on measuring for so many seconds."""
        return self.receive_usage(self.send_usage_request(seconds), limit_ms)

    def send_usage_request(self, seconds: int) -> str:
        if not self.accepts_additions:
            raise RequestFailed("the server does not report resource usage")
        return self._send_new(base.Request(usageRequest=base.UsageRequest(seconds=seconds)), STATE_LOST)

    def receive_usage(self, request_id: str, limit_ms: int | None = None) -> base.UsageResponse:
        response = self._response(request_id, ("usageResponse", "error"), STATE_LOST, limit_ms)
        if response.HasField("error"):
            raise RequestFailed(response.error.message)
        return response.usageResponse

    def subscribe(self, masks: Iterable[str]) -> tuple[str, base.CompleteStateResponse]:
        """Subscribe to events. Returns the id of the subscription and the current state."""
        wanted = base.CompleteStateRequest(fieldMask=masks, subscribeForEvents=True)
        subscription = self._send_new(base.Request(completeStateRequest=wanted), STATE_LOST)
        response = self._response(subscription, ("completeStateResponse",), STATE_LOST)
        return subscription, response.completeStateResponse

    def next_event(self, subscription: str) -> base.CompleteStateResponse:
        while True:
            message = self._receive(None, UPDATE_LOST)
            response = message.response if message else None
            if response and response.requestId == subscription and response.HasField("completeStateResponse"):
                return response.completeStateResponse

    def request_logs(self, wanted: base.LogsRequest) -> base.Response:
        """Returns the acceptance or the error. The id of the response is the id of the log campaign."""
        campaign = self._send_new(base.Request(logsRequest=wanted), LOGS_LOST)
        return self._response(campaign, ("logsRequestAccepted", "error"), LOGS_LOST)

    def next_log_response(self, campaign: str) -> base.Response:
        while True:
            message = self._receive(None, LOGS_LOST)
            if message and message.response.requestId == campaign:
                return message.response

    def cancel_logs(self, campaign: str) -> None:
        """Cancel without waiting for the response: the command ends afterwards."""
        self._send(base.Request(requestId=campaign, logsCancelRequest=base.LogsCancelRequest()), LOGS_LOST)

    def kept_states(self) -> list[base.WorkloadState]:
        """The states that arrived while another response was awaited."""
        kept = list(self._states)
        self._states.clear()
        return kept

    def next_states(self, limit: float | None = None) -> list[base.WorkloadState]:
        """The kept states, or else those of the next message; [] at the time limit."""
        if self._states:
            return self.kept_states()
        end = None if limit is None else monotonic() + limit
        while True:
            message = self._receive(_remaining(end), UPDATE_LOST)
            if message is None:
                return []
            self._keep(message)
            if self._states:
                return self.kept_states()

    def watch(self, descriptor: int | None) -> None:
        """End every wait with `WaitInterrupted` as soon as this descriptor is readable. None ends the watching."""
        self._connection.watch(descriptor)

    def goodbye(self) -> None:
        """Announce the end of the session and wait a moment for the server to end the stream."""
        end = monotonic() + _GOODBYE_SECONDS
        try:
            self._connection.send(grpc.ToServer(goodbye=grpc.Goodbye()))
            while self._connection.receive(_remaining(end)) is not None:
                pass
        except Unavailable:
            return

    def send(self, request: base.Request) -> str:
        """Send any request without waiting; `take_response` returns the response once it is there."""
        return self._send_new(request, STATE_LOST)

    def take_response(self, request_id: str) -> base.Response | None:
        """The response if it has arrived, which `next_states` notices while it waits. It is returned only once."""
        response = self._awaited.get(request_id)
        if response is not None:
            del self._awaited[request_id]
        return response

    def forget(self, request_id: str) -> None:
        """The response is not needed any more."""
        self._awaited.pop(request_id, None)

    def _send_new(self, request: base.Request, lost: str) -> str:
        request.requestId = os.urandom(16).hex()
        self._awaited[request.requestId] = None
        self._send(request, lost)
        return request.requestId

    def _response(
        self, request_id: str, kinds: tuple[str, ...], lost: str, limit_ms: int | None = None
    ) -> base.Response:
        """Wait for a response of one of the kinds. Workload states and other responses are kept."""
        limit_ms = self._timeout_ms if limit_ms is None else min(limit_ms, self._timeout_ms)
        end = monotonic() + limit_ms / 1000
        rejection = ""
        while True:
            response = self._awaited[request_id]
            if response is not None and response.WhichOneof("ResponseContent") in kinds:
                del self._awaited[request_id]
                return response
            rejection = response.error.message if response is not None else rejection
            self._awaited[request_id] = None
            message = self._receive(_remaining(end), lost)
            if message is None:
                raise _timed_out(limit_ms, rejection)
            self._keep(message)

    def _keep(self, message: grpc.FromServer) -> None:
        if message.HasField("updateWorkloadState"):
            self._states.extend(message.updateWorkloadState.workloadStates)
        elif message.response.requestId in self._awaited:
            self._awaited[message.response.requestId] = message.response
        elif self.on_response is not None:
            self.on_response(message.response)

    def _send(self, request: base.Request, lost: str) -> None:
        try:
            self._connection.send(grpc.ToServer(request=request))
        except ConnectionLost as error:
            raise SessionLost(lost) from error

    def _receive(self, limit: float | None, lost: str) -> grpc.FromServer | None:
        """The next message, or None at the time limit."""
        try:
            return self._connection.receive(limit)
        except ConnectionLost as error:
            raise SessionLost(lost) from error


def _timed_out(limit_ms: int, rejection: str) -> RequestFailed:
    hint = f"the server answered '{rejection}'" if rejection else "give it more time with '--response-timeout MS'"
    return RequestFailed(f"Command timed out after '{duration_text(limit_ms)}'", hint, is_timeout=True)


def _remaining(end: float | None) -> float | None:
    return None if end is None else max(end - monotonic(), 0)


def duration_text(milliseconds: int) -> str:
    """`500ms`, `1.5s`, `3s`."""
    if milliseconds == 0:
        return "0ns"
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    whole, rest = divmod(milliseconds, 1000)
    fraction = f".{rest:03}".rstrip("0") if rest else ""
    return f"{whole}{fraction}s"
