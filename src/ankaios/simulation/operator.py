"""A user of the simulated cluster: changes and reads the state, and follows events, through the real client.

Input: changes to make. Output: what was requested and what the server answered, for the invariants. An operator asks
again only after a rejected connection; an answer that never came is recorded as unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec import Struct

from ankaios.agent.server_link import FOLLOW_TIMEOUT
from ankaios.common.errors import Unavailable
from ankaios.common.model.state import COMPLETE_STATE, EMPTY_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import CommanderHello, FromServer, ToServer
from ankaios.common.state_manipulation import MISSING, Form, Path, get_value, parse_path, remove_value, set_value
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.middleware.client import ServerConnection, connect
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from ankaios.middleware.server_targets import ServerTargets, server_urls
from ankaios.storage.state_store import UNKNOWN_TEXT

ANSWER_LIMIT, CONNECT_LIMIT = 10.0, 5.0
EVENT_DELAY = 5.0
WATCHED = ("desiredState", "workloadStates")

ACCEPTED, REJECTED, UNKNOWN = "accepted", "rejected", "unknown"


class OperatorChange(Struct):
    """One requested change of one workload. `value` is its version, None if it was deleted.

    `revision` is the one that contains the change, 0 if that is not known.
    """

    workload: str
    value: str | None
    began: float
    ended: float = float("inf")
    outcome: str = UNKNOWN
    text: str = ""
    revision: int = 0


@asynccontextmanager
async def connected(urls: str) -> AsyncIterator[ServerConnection]:
    """Connect to the server that leads, with the rules that agents and `ank` use for several servers."""
    async with AsyncExitStack() as stack:
        yield await _connect_to_leader(stack, urls)


async def _connect_to_leader(stack: AsyncExitStack, urls: str) -> ServerConnection:
    clock = asyncio.get_running_loop().time
    targets, began = ServerTargets(server_urls(urls), CONNECT_LIMIT), clock()
    url = targets.first
    while True:
        limit = FOLLOW_TIMEOUT if targets.can_follow else CONNECT_LIMIT
        settings = ConnectionSettings(url, connect_timeout=limit)
        try:
            return await stack.enter_async_context(connect(settings, Method.COMMAND, hello()))
        except Unavailable as error:
            target = targets.after(error, clock() - began)
            if target is None:
                raise
        url = target.url
        await asyncio.sleep(target.pause)


def hello() -> ToServer:
    return ToServer(commanderHello=CommanderHello(protocolVersion=PROTOCOL_VERSION, user="operator"))


def desired_state_request(desired: Form, *masks: str) -> base.Request:
    """Request to set the parts of the desired state that the masks select."""
    state = COMPLETE_STATE.from_form({"desiredState": {**EMPTY_STATE, **desired}})
    return base.Request(updateStateRequest=base.UpdateStateRequest(newState=state, updateMask=masks))


class Operator:
    """Connects for each request, as `ank` does."""

    def __init__(self, urls: str) -> None:
        self._urls = urls
        self.operations: list[OperatorChange] = []
        self._number = 0

    async def write(self, workload: str, form: Form | None, value: str | None) -> OperatorChange:
        """Set or delete one workload."""
        operation = OperatorChange(workload, value, asyncio.get_running_loop().time())
        self.operations.append(operation)
        desired = {"workloads": {} if form is None else {workload: form}}
        return await self._finish(operation, desired_state_request(desired, f"desiredState.workloads.{workload}"))

    async def undo(self, done: OperatorChange, value: str | None) -> OperatorChange:
        """Roll back to the revision before an accepted change of a workload, which had this version then."""
        operation = OperatorChange(done.workload, value, asyncio.get_running_loop().time())
        self.operations.append(operation)
        request = base.RollbackRequest(revision=done.revision - 1, workloads=[done.workload])
        return await self._finish(operation, base.Request(rollbackRequest=request))

    async def _finish(self, operation: OperatorChange, request: base.Request) -> OperatorChange:
        response = await self.request(request)
        operation.ended = asyncio.get_running_loop().time()
        if response is not None and response.HasField("UpdateStateSuccess"):
            operation.outcome, operation.revision = ACCEPTED, response.UpdateStateSuccess.revision
        elif response is not None and response.HasField("error"):
            operation.outcome, operation.text = REJECTED, response.error.message
            if UNKNOWN_TEXT in operation.text:
                operation.outcome = UNKNOWN
        return operation

    async def configure_devices(self, configurations: Mapping[str, Any]) -> bool:
        """Set the device configurations; return whether that was accepted."""
        desired = {"deviceConfigurations": configurations}
        response = await self.request(desired_state_request(desired, "desiredState.deviceConfigurations"))
        return response is not None and response.HasField("UpdateStateSuccess")

    async def read(self, *masks: str) -> Form | None:
        """Return the state, or None if no server answered."""
        request = base.CompleteStateRequest(fieldMask=masks)
        response = await self.request(base.Request(completeStateRequest=request))
        if response is None or not response.HasField("completeStateResponse"):
            return None
        return COMPLETE_STATE.to_form(response.completeStateResponse.completeState)

    async def request(self, request: base.Request) -> base.Response | None:
        """Return the response, or None if there was none in time."""
        self._number += 1
        request.requestId = f"r{self._number}"
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                async with connected(self._urls) as connection:
                    await connection.send(ToServer(request=request))
                    return await _response(connection, request.requestId)
        except (Unavailable, TimeoutError):
            return None


async def _response(connection: ServerConnection, request_id: str) -> base.Response:
    while True:
        message: FromServer = await connection.receive()
        if message.HasField("response") and message.response.requestId == request_id:
            return message.response


class StateCopy:
    """A copy of the state made from events alone, so that it can be compared with the state itself."""

    def __init__(self, changed: Callable[[list[Path]], None] = lambda _: None) -> None:
        """`changed` is called after each event with the paths of new and changed values."""
        self._report = changed
        self.copy: Form | None = None
        self.faults: list[str] = []
        # Since when there is a connection, and what the events have shown since then: workload and version.
        self.connected_since = float("inf")
        self.seen: set[tuple[str, str]] = set()

    def begin(self, response: base.Response) -> None:
        """Take the first response, which contains the whole state."""
        self.copy = COMPLETE_STATE.to_form(response.completeStateResponse.completeState)
        self.connected_since = asyncio.get_running_loop().time()

    def end(self) -> None:
        self.copy = None
        self.connected_since = float("inf")

    def apply(self, response: base.Response) -> None:
        """Take an event."""
        event = response.completeStateResponse
        state, altered = COMPLETE_STATE.to_form(event.completeState), event.alteredFields
        assert self.copy is not None
        for text in altered.removedFields:
            path = parse_path(text)
            if path is None or get_value(self.copy, path) is MISSING:
                self.faults.append(f"an event removes '{text}', which was not there")
            else:
                remove_value(self.copy, path)
        changed: list[Path] = []
        for text in (*altered.addedFields, *altered.updatedFields):
            path = parse_path(text)
            value = MISSING if path is None else get_value(state, path)
            if path is None or value is MISSING:
                self.faults.append(f"an event names '{text}' and does not contain it")
            elif get_value(self.copy, path) == value:
                self.faults.append(f"an event reports '{text}', which did not change")
            else:
                set_value(self.copy, path, value)
                changed.append(path)
        self._note_versions(state)
        self._report(changed)

    def _note_versions(self, state: Form) -> None:
        for name, form in state.get("desiredState", {}).get("workloads", {}).items():
            if version := form.get("runtimeConfig"):
                self.seen.add((name, version))

    def missed(self, operations: Sequence[OperatorChange], now: float) -> list[str]:
        """Accepted changes that no event has shown although there was a connection all the time."""
        return [
            f"no event has shown '{done.workload}' with version {done.value}"
            for done in operations
            if done.outcome == ACCEPTED
            and done.value is not None
            and self.connected_since < done.began
            and done.ended < now - EVENT_DELAY
            and (done.workload, done.value) not in self.seen
        ]


class Subscriber(StateCopy):
    """A subscriber with a connection to the server. Events are for a connection: a new one begins with the state."""

    def __init__(self, urls: str, changed: Callable[[list[Path]], None] = lambda _: None) -> None:
        super().__init__(changed)
        self._urls = urls

    async def run(self) -> None:
        while True:
            try:
                async with connected(self._urls) as connection:
                    await self._follow(connection)
            except Unavailable:
                self.end()
            await asyncio.sleep(1)

    async def _follow(self, connection: ServerConnection) -> None:
        await connection.send(ToServer(request=subscription("s")))
        self.begin(await _response(connection, "s"))
        while True:
            self.apply(await _response(connection, "s"))


def subscription(request_id: str) -> base.Request:
    """Request events for what subscribers copy."""
    subscribe = base.CompleteStateRequest(fieldMask=WATCHED, subscribeForEvents=True)
    return base.Request(requestId=request_id, completeStateRequest=subscribe)


def watched_part(state: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a state that a subscriber's copy has, without empty parts."""
    return {name: without_empty(state.get(name, {})) for name in WATCHED}


def without_empty(value: Any) -> Any:
    """Whether a map that lost its last entry is still shown does not matter to a subscriber."""
    if not isinstance(value, dict):
        return value
    parts = {name: without_empty(part) for name, part in value.items()}
    return {name: part for name, part in parts.items() if part != {}}
