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
_ADDITIONS = {
    "history": "revisions",
    "plan": "plans",
    "records": "records of workloads",
    "rollouts": "rollouts",
    "servers": "states of servers",
    "usage": "values of resource usage",
    "why": "explanations of workloads",
}
"""What is requested by the requests that servers of Eclipse Ankaios do not have."""
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


def update_request(new_state: base.CompleteState, masks: Iterable[str]) -> base.Request:
    return base.Request(updateStateRequest=base.UpdateStateRequest(newState=new_state, updateMask=masks))


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
        return self.send(base.Request(completeStateRequest=wanted))

    def receive_state(self, request_id: str, limit_ms: int | None = None) -> base.CompleteState:
        response = self._response(request_id, ("completeStateResponse",), STATE_LOST, limit_ms)
        return response.completeStateResponse.completeState

    def update(self, new_state: base.CompleteState, masks: Iterable[str]) -> base.UpdateStateSuccess:
        return self.receive_success(self.send_change(update_request(new_state, masks)))

    def send_change(self, request: base.Request) -> str:
        """Send a request that is answered with an `UpdateStateSuccess`, which `receive_success` returns."""
        return self.send(request, UPDATE_LOST)

    def receive_success(self, request_id: str) -> base.UpdateStateSuccess:
        response = self._response(request_id, ("UpdateStateSuccess", "error"), UPDATE_LOST)
        if response.HasField("error"):
            raise RequestFailed(f"SetState failed with: '{response.error.message}'")
        return response.UpdateStateSuccess

    def request_addition(self, request: base.Request) -> base.Response:
        """The response to one of the requests that servers of Eclipse Ankaios do not have."""
        name = str(request.WhichOneof("RequestContent")).removesuffix("Request")
        try:
            response = self._response(self.send(request, UPDATE_LOST), (f"{name}Response", "error"), UPDATE_LOST)
        except RequestFailed as error:
            if self.accepts_additions:
                raise
            limit = f" (no response within {duration_text(self._timeout_ms)})" if error.is_timeout else ""
            unsupported = f"the server supports no {_ADDITIONS[name]}; servers of Eclipse Ankaios do not have them"
            raise RequestFailed(f"{unsupported}{limit}") from error
        if response.HasField("error"):
            raise RequestRejected(_ADDITIONS[name], response.error.message)
        return response

    @property
    def accepts_additions(self) -> bool:
        """False for a server of Eclipse Ankaios, which may end the connection on an unsupported request.

        Known after the first response.
        """
        return self._connection.accepts_additions

    def subscribe(self, masks: Iterable[str]) -> base.Response:
        """Subscribe to events. Returns the current state; `next_response` with the same id returns the events."""
        wanted = base.CompleteStateRequest(fieldMask=masks, subscribeForEvents=True)
        subscription = self.send(base.Request(completeStateRequest=wanted))
        return self._response(subscription, ("completeStateResponse",), STATE_LOST)

    def next_response(self, request_id: str, *kinds: str, lost: str = UPDATE_LOST) -> base.Response:
        """The next response of these kinds to a request that has several. Other messages are ignored."""
        while True:
            message = self._receive(None, lost)
            response = message.response if message else None
            if response and response.requestId == request_id and response.WhichOneof("ResponseContent") in kinds:
                return response

    def request_logs(self, wanted: base.LogsRequest) -> base.Response:
        """Returns the acceptance or the error. The id of the response is the id of the log campaign."""
        campaign = self.send(base.Request(logsRequest=wanted), LOGS_LOST)
        return self._response(campaign, ("logsRequestAccepted", "error"), LOGS_LOST)

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

    def send(self, request: base.Request, lost: str = STATE_LOST) -> str:
        """Send any request without waiting; `take_response` returns the response once it is there."""
        request.requestId = os.urandom(16).hex()
        self._awaited[request.requestId] = None
        self._send(request, lost)
        return request.requestId

    def take_response(self, request_id: str) -> base.Response | None:
        """The response if it has arrived, which `next_states` notices while it waits. It is returned only once."""
        response = self._awaited.get(request_id)
        if response is not None:
            del self._awaited[request_id]
        return response

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
                del self._awaited[request_id]
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
