"""One session with the server: requests go out, the matching answers come back, everything else is kept or ignored.

`run_session` opens the connection, hands a `Session` to the command and translates what can go wrong into the texts
people know. A session owns the request ids, the answers that came before they were asked for, and the workload states
that came in unasked.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from ankaios.cli.output import CliError
from ankaios.cli.settings import PEM_HINT
from ankaios.common.config import BadPemFile
from ankaios.common.errors import Unavailable
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.connecting import (
    AccessRefused,
    BadUrl,
    CannotConnect,
    ConnectionLost,
    ConnectionSettings,
    VersionRefused,
)
from ankaios.middleware.methods import Method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from ankaios.cli.arguments import Call

    class Wire(Protocol):
        """What a session needs of a connection."""

        def send(self, message: grpc.ToServer) -> None: ...

        def receive(self, limit: float | None) -> grpc.FromServer | None: ...

        def watch(self, descriptor: int | None) -> None: ...


STATE_LOST = "Channel preliminary closed."
UPDATE_LOST = "Connection to server interrupted"
LOGS_LOST = "Error streaming workload logs: channel preliminary closed."
_ONE_SET = "; server, agents and 'ank' need valid files of one 'ank certs create'"
_NEXT_STEPS = {
    "the server does not use TLS": "; use 'ank -k' without certificate files",
    "the server rejected the certificate": _ONE_SET,
    "the certificate of the server": _ONE_SET,
    "cannot find host": "; check the address in '--server-url' or ANK_SERVER_URL",
}
_GOODBYE_LIMIT = 1.0
_MAX_KEPT_STATES = 100_000


class CommandFailed(Exception):
    """The reason, without any wrapping: who catches it knows which command it was."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint

    @property
    def text(self) -> str:
        return f"Command failed: '{self}'"


def run_session(call: Call, action: Callable[[Session], None]) -> None:
    """Connect, do, disconnect. What the command did not handle comes out as `CommandFailed`."""
    settings = ConnectionSettings(call.settings.server_url, call.settings.security(call.output))
    shown = settings.shown_url
    call.output.debug(f"Connecting to '{shown}'")
    try:
        with connect_blocking(settings, Method.CLI, commander_hello()) as connection:
            _resume_collecting()
            call.output.wait_for_room = connection.wait_writable  # a pager may take its time, the server would not wait
            action(Session(connection, call.settings.timeout_ms))
    except BadUrl as fault:
        hint = "an address looks like https://127.0.0.1:25551, or with '-k' http://127.0.0.1:25551"
        raise CliError(f"Cannot connect to server: '{fault}'", hint) from fault
    except BadPemFile as fault:
        raise CliError(f"Certificate error: '{fault.reason}'", PEM_HINT) from fault
    except VersionRefused as fault:
        raise CliError(str(fault)) from fault
    except CannotConnect as fault:
        raise CliError(str(fault), _connect_hint(shown, fault.reason)) from fault
    except AccessRefused as fault:
        raise CliError(f"Could not connect to Ankaios server on '{shown}'.", str(fault)) from fault
    finally:
        call.output.wait_for_room = None


def commander_hello() -> grpc.ToServer:
    return grpc.ToServer(commanderHello=grpc.CommanderHello(protocolVersion=PROTOCOL_VERSION))


def _resume_collecting() -> None:
    """Loading is over. What is loaded stays, so no collection needs to look at it."""
    gc.freeze()
    gc.enable()


def _connect_hint(url: str, reason: str) -> str:
    if "Connection refused" not in reason:
        return reason + next((step for start, step in _NEXT_STEPS.items() if reason.startswith(start)), "")
    started = "'ank up' or 'ank-server --insecure'" if url.startswith("http:") else "'ank-server' and its certificates"
    return f"no server listens there: start one with {started}, or name yours with '--server-url' or ANK_SERVER_URL"


class Session:
    """A conversation of one command with the server."""

    def __init__(self, connection: Wire, timeout_ms: int) -> None:
        self._connection = connection
        self._timeout_ms = timeout_ms
        self._awaited: dict[str, base.Response | None] = {}
        self._states: deque[base.WorkloadState] = deque(maxlen=_MAX_KEPT_STATES)

    def complete_state(self, *masks: str, patience_ms: int | None = None) -> base.CompleteState:
        """What the masks select; everything without masks. An empty state if the server sends none."""
        return self.take_state(self.post_state_request(*masks), patience_ms)

    def post_state_request(self, *masks: str) -> str:
        """Only ask; `take_state` waits for the answer."""
        wanted = base.CompleteStateRequest(fieldMask=masks)
        return self._post(base.Request(completeStateRequest=wanted), STATE_LOST)

    def take_state(self, request_id: str, patience_ms: int | None = None) -> base.CompleteState:
        response = self._answer(request_id, ("completeStateResponse",), STATE_LOST, patience_ms)
        return response.completeStateResponse.completeState

    def update(self, new_state: base.CompleteState, masks: Iterable[str]) -> base.UpdateStateSuccess:
        return self.take_success(self.post_update(new_state, masks))

    def post_update(self, new_state: base.CompleteState, masks: Iterable[str]) -> str:
        """Only send; `take_success` waits for the answer."""
        update = base.UpdateStateRequest(newState=new_state, updateMask=masks)
        return self._post(base.Request(updateStateRequest=update), UPDATE_LOST)

    def take_success(self, request_id: str) -> base.UpdateStateSuccess:
        response = self._answer(request_id, ("UpdateStateSuccess", "error"), UPDATE_LOST)
        if response.HasField("error"):
            raise CommandFailed(f"SetState failed with: '{response.error.message}'")
        return response.UpdateStateSuccess

    def subscribe(self, masks: Iterable[str]) -> tuple[str, base.CompleteStateResponse]:
        """The id of the subscription and the state it starts from."""
        wanted = base.CompleteStateRequest(fieldMask=masks, subscribeForEvents=True)
        subscription = self._post(base.Request(completeStateRequest=wanted), STATE_LOST)
        response = self._answer(subscription, ("completeStateResponse",), STATE_LOST)
        return subscription, response.completeStateResponse

    def next_event(self, subscription: str) -> base.CompleteStateResponse:
        while True:
            message = self._next(None, UPDATE_LOST)
            response = message.response if message else None
            if response and response.requestId == subscription and response.HasField("completeStateResponse"):
                return response.completeStateResponse

    def request_logs(self, wanted: base.LogsRequest) -> base.Response:
        """Accepted or refused; the id of the response is that of the campaign."""
        campaign = self._post(base.Request(logsRequest=wanted), LOGS_LOST)
        return self._answer(campaign, ("logsRequestAccepted", "error"), LOGS_LOST)

    def next_log_response(self, campaign: str) -> base.Response:
        while True:
            message = self._next(None, LOGS_LOST)
            if message and message.response.requestId == campaign:
                return message.response

    def cancel_logs(self, campaign: str) -> None:
        """Not waiting for the answer: who cancels wants to leave."""
        self._send(base.Request(requestId=campaign, logsCancelRequest=base.LogsCancelRequest()), LOGS_LOST)

    def kept_states(self) -> list[base.WorkloadState]:
        """The states that came while something else was awaited."""
        kept = list(self._states)
        self._states.clear()
        return kept

    def next_states(self, limit: float | None = None) -> list[base.WorkloadState]:
        """The states of one message, first those that were kept; [] at the time limit."""
        if self._states:
            return self.kept_states()
        end = None if limit is None else monotonic() + limit
        while True:
            message = self._next(_left(end), UPDATE_LOST)
            if message is None:
                return []
            if message.HasField("updateWorkloadState"):
                return list(message.updateWorkloadState.workloadStates)

    def watch(self, descriptor: int | None) -> None:
        """Every wait ends with `WaitInterrupted` as soon as this descriptor is readable; None: no more."""
        self._connection.watch(descriptor)

    def goodbye(self) -> None:
        """Tell the server that nobody listens any more, and give it a moment to end the stream."""
        end = monotonic() + _GOODBYE_LIMIT
        try:
            self._connection.send(grpc.ToServer(goodbye=grpc.Goodbye()))
            while self._connection.receive(_left(end)) is not None:
                pass
        except Unavailable:
            return

    def _post(self, request: base.Request, lost: str) -> str:
        """Send under a new id, which is returned: its answer will be kept."""
        request.requestId = os.urandom(16).hex()
        self._awaited[request.requestId] = None
        self._send(request, lost)
        return request.requestId

    def _answer(
        self, request_id: str, kinds: tuple[str, ...], lost: str, patience_ms: int | None = None
    ) -> base.Response:
        """Wait for the answer of one of the kinds, keeping the workload states and other answers that come between."""
        limit_ms = self._timeout_ms if patience_ms is None else min(patience_ms, self._timeout_ms)
        end = monotonic() + limit_ms / 1000
        refusal = ""
        while True:
            response = self._awaited[request_id]
            if response is not None and response.WhichOneof("ResponseContent") in kinds:
                del self._awaited[request_id]
                return response
            refusal = response.error.message if response is not None else refusal
            self._awaited[request_id] = None
            message = self._next(_left(end), lost)
            if message is None:
                raise _timed_out(limit_ms, refusal)
            self._keep(message)

    def _keep(self, message: grpc.FromServer) -> None:
        if message.HasField("updateWorkloadState"):
            self._states.extend(message.updateWorkloadState.workloadStates)
        elif message.response.requestId in self._awaited:
            self._awaited[message.response.requestId] = message.response

    def _send(self, request: base.Request, lost: str) -> None:
        try:
            self._connection.send(grpc.ToServer(request=request))
        except ConnectionLost as fault:
            raise CommandFailed(lost) from fault

    def _next(self, limit: float | None, lost: str) -> grpc.FromServer | None:
        """The next message, or None at the time limit."""
        try:
            return self._connection.receive(limit)
        except ConnectionLost as fault:
            raise CommandFailed(lost) from fault


def _timed_out(limit_ms: int, refusal: str) -> CommandFailed:
    hint = f"the server answered '{refusal}'" if refusal else "give it more time with '--response-timeout MS'"
    return CommandFailed(f"Command timed out after '{duration_text(limit_ms)}'", hint)


def _left(end: float | None) -> float | None:
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
