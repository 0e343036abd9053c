"""One session with the server: requests go out, the matching answers come back, everything else is kept or ignored.

`run_session` opens the connection, hands a `Session` to the command and translates what can go wrong into the texts
people know. A session owns the request ids, the one read under way and the workload states that came in unasked.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections import deque

from ankaios.cli.output import CliError
from ankaios.common.config import BadPemFile
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.middleware import client as middleware

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Protocol

    from ankaios.cli.arguments import Call

    class Wire(Protocol):
        """What a session needs of a connection."""

        async def send(self, message: grpc.ToServer) -> None: ...

        async def receive(self) -> grpc.FromServer: ...


STATE_LOST = "Channel preliminary closed."
UPDATE_LOST = "Connection to server interrupted"
LOGS_LOST = "Error streaming workload logs: channel preliminary closed."
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


def run_session(call: Call, action: Callable[[Session], Awaitable[None]]) -> None:
    """Connect, do, disconnect. What the command did not handle comes out as `CommandFailed`."""
    asyncio.run(_in_session(call, action))


async def _in_session(call: Call, action: Callable[[Session], Awaitable[None]]) -> None:
    settings = call.settings
    pem = settings.security(call.output)
    url = settings.server_url
    shown = middleware.effective_url(url, pem)
    hello = grpc.ToServer(commanderHello=grpc.CommanderHello(protocolVersion=PROTOCOL_VERSION))
    call.output.debug(f"Connecting to '{shown}'")
    try:
        async with middleware.connect(
            middleware.ConnectionSettings(url, pem), middleware.Method.CLI, hello
        ) as connection:
            _resume_collecting()
            await action(Session(connection, settings.timeout_ms))
    except middleware.BadUrl as fault:
        raise CliError(f"Cannot connect to server: '{fault}'") from fault
    except BadPemFile as fault:
        raise CliError(f"Certificate error: '{fault.reason}'") from fault
    except middleware.VersionRefused as fault:
        raise CliError(str(fault)) from fault
    except middleware.CannotConnect as fault:
        raise CliError(str(fault), _connect_hint(shown, fault.reason)) from fault
    except middleware.AccessRefused as fault:
        raise CliError(f"Could not connect to Ankaios server on '{shown}'.", str(fault)) from fault


def _resume_collecting() -> None:
    """Loading is over. What is loaded stays, so no collection needs to look at it."""
    gc.freeze()
    gc.enable()


def _connect_hint(url: str, reason: str) -> str:
    if "Connection refused" not in reason and "Connect call failed" not in reason:
        return reason
    started = "'ank-server --insecure'" if url.startswith("http:") else "'ank-server' and its certificates"
    return f"no server listens there: start one with {started}, or name yours with '--server-url' or ANK_SERVER_URL"


class Session:
    """A conversation of one command with the server."""

    def __init__(self, connection: Wire, timeout_ms: int) -> None:
        self._connection = connection
        self._timeout_ms = timeout_ms
        self._reading: asyncio.Task[grpc.FromServer] | None = None
        self._states: deque[base.WorkloadState] = deque(maxlen=_MAX_KEPT_STATES)

    async def complete_state(self, *masks: str) -> base.CompleteState:
        """What the masks select; everything without masks. An empty state if the server sends none."""
        request = base.Request(completeStateRequest=base.CompleteStateRequest(fieldMask=masks))
        response = await self._ask(request, ("completeStateResponse",), STATE_LOST)
        return response.completeStateResponse.completeState

    async def update(self, new_state: base.CompleteState, masks: Iterable[str]) -> base.UpdateStateSuccess:
        update = base.UpdateStateRequest(newState=new_state, updateMask=masks)
        response = await self._ask(
            base.Request(updateStateRequest=update), ("UpdateStateSuccess", "error"), UPDATE_LOST
        )
        if response.HasField("error"):
            raise CommandFailed(f"SetState failed with: '{response.error.message}'")
        return response.UpdateStateSuccess

    async def subscribe(self, masks: Iterable[str]) -> tuple[str, base.CompleteStateResponse]:
        """The id of the subscription and the state it starts from."""
        wanted = base.CompleteStateRequest(fieldMask=masks, subscribeForEvents=True)
        response = await self._ask(base.Request(completeStateRequest=wanted), ("completeStateResponse",), STATE_LOST)
        return response.requestId, response.completeStateResponse

    async def next_event(self, subscription: str) -> base.CompleteStateResponse:
        while True:
            message = await self._next(None, UPDATE_LOST)
            response = message.response if message else None
            if response and response.requestId == subscription and response.HasField("completeStateResponse"):
                return response.completeStateResponse

    async def request_logs(self, wanted: base.LogsRequest) -> base.Response:
        """Accepted or refused; the id of the response is that of the campaign."""
        return await self._ask(base.Request(logsRequest=wanted), ("logsRequestAccepted", "error"), LOGS_LOST)

    async def next_log_response(self, campaign: str) -> base.Response:
        while True:
            message = await self._next(None, LOGS_LOST)
            if message and message.response.requestId == campaign:
                return message.response

    async def cancel_logs(self, campaign: str) -> None:
        """Not waiting for the answer: who cancels wants to leave."""
        await self._send(base.Request(requestId=campaign, logsCancelRequest=base.LogsCancelRequest()), LOGS_LOST)

    def kept_states(self) -> list[base.WorkloadState]:
        """The states that came while something else was awaited."""
        kept = list(self._states)
        self._states.clear()
        return kept

    async def next_states(self, limit: float | None = None) -> list[base.WorkloadState]:
        """The states of one message, first those that were kept; [] at the time limit."""
        if self._states:
            return self.kept_states()
        while True:
            message = await self._next(limit, UPDATE_LOST)
            if message is None:
                return []
            if message.HasField("updateWorkloadState"):
                return list(message.updateWorkloadState.workloadStates)

    async def goodbye(self) -> None:
        """Tell the server that nobody listens any more, and give it a moment to end the stream."""
        try:
            async with asyncio.timeout(_GOODBYE_LIMIT):
                await self._connection.send(grpc.ToServer(goodbye=grpc.Goodbye()))
                while True:
                    await self._next(None, STATE_LOST)
        except (CommandFailed, TimeoutError, middleware.ConnectionLost):
            return

    async def _ask(self, request: base.Request, kinds: tuple[str, ...], lost: str) -> base.Response:
        """Send, then wait for the answer of one of the kinds, keeping the workload states that come between."""
        request.requestId = os.urandom(16).hex()
        await self._send(request, lost)
        refusal = ""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while True:
                    message = await self._next(None, lost)
                    if message is None:
                        continue
                    if message.HasField("updateWorkloadState"):
                        self._states.extend(message.updateWorkloadState.workloadStates)
                        continue
                    response = message.response
                    if response.requestId == request.requestId:
                        if response.WhichOneof("ResponseContent") in kinds:
                            return response
                        refusal = response.error.message
        except TimeoutError:
            hint = f"the server answered '{refusal}'" if refusal else "give it more time with '--response-timeout MS'"
            raise CommandFailed(f"Command timed out after '{duration_text(self._timeout_ms)}'", hint) from None

    async def _send(self, request: base.Request, lost: str) -> None:
        try:
            await self._connection.send(grpc.ToServer(request=request))
        except middleware.ConnectionLost as fault:
            raise CommandFailed(lost) from fault

    async def _next(self, limit: float | None, lost: str) -> grpc.FromServer | None:
        """The next message, or None at the time limit.

        A read is never cancelled by a limit, because half a message would be lost: it goes on and is met again here.
        """
        if self._reading is None:
            self._reading = asyncio.create_task(self._connection.receive(), name="read from server")
        done, _ = await asyncio.wait({self._reading}, timeout=limit)
        if not done:
            return None
        reading, self._reading = self._reading, None
        try:
            return reading.result()
        except middleware.ConnectionLost as fault:
            raise CommandFailed(lost) from fault


def duration_text(milliseconds: int) -> str:
    """`500ms`, `1.5s`, `3s`."""
    if milliseconds == 0:
        return "0ns"
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    whole, rest = divmod(milliseconds, 1000)
    fraction = f".{rest:03}".rstrip("0") if rest else ""
    return f"{whole}{fraction}s"
