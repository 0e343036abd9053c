"""A user of the simulated cluster: changes and reads the state, and follows events, through the real client.

Input: changes to make. Output: what was requested and what the server answered, for the invariants. An operator asks
again only after a rejected connection; an answer that never came is recorded as unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ankaios.common.errors import Unavailable
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import CommanderHello, FromServer, ToServer
from ankaios.common.state_manipulation import MISSING, Form, Path, get_value, parse_path, remove_value, set_value
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.middleware.client import ServerConnection, connect
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method

ANSWER_LIMIT = 10.0
WATCHED = ("desiredState", "workloadStates")

ACCEPTED, REJECTED, UNKNOWN = "accepted", "rejected", "unknown"


class OperatorChange(Struct):
    """One requested change of one workload. `value` is its version, None if it was deleted."""

    workload: str
    value: str | None
    began: float
    ended: float = float("inf")
    outcome: str = UNKNOWN
    text: str = ""


def hello() -> ToServer:
    return ToServer(commanderHello=CommanderHello(protocolVersion=PROTOCOL_VERSION))


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
        state: Form = {"desiredState": {"apiVersion": "v1", "workloads": {} if form is None else {workload: form}}}
        request = base.UpdateStateRequest(
            newState=COMPLETE_STATE.from_form(state), updateMask=[f"desiredState.workloads.{workload}"]
        )
        response = await self.request(base.Request(updateStateRequest=request))
        operation.ended = asyncio.get_running_loop().time()
        if response is not None and response.HasField("UpdateStateSuccess"):
            operation.outcome = ACCEPTED
        elif response is not None and response.HasField("error"):
            operation.outcome, operation.text = REJECTED, response.error.message
        return operation

    async def configure_devices(self, configurations: Mapping[str, Any]) -> bool:
        """Set the device configurations; return whether that was accepted."""
        state: Form = {"desiredState": {"apiVersion": "v1", "workloads": {}, "deviceConfigurations": configurations}}
        request = base.UpdateStateRequest(
            newState=COMPLETE_STATE.from_form(state), updateMask=["desiredState.deviceConfigurations"]
        )
        response = await self.request(base.Request(updateStateRequest=request))
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
                async with connect(ConnectionSettings(self._urls), Method.COMMAND, hello()) as connection:
                    await connection.send(ToServer(request=request))
                    return await _response(connection, request.requestId)
        except (Unavailable, TimeoutError):
            return None


async def _response(connection: ServerConnection, request_id: str) -> base.Response:
    while True:
        message: FromServer = await connection.receive()
        if message.HasField("response") and message.response.requestId == request_id:
            return message.response


class Subscriber:
    """Keeps a copy of the state from events alone, so that it can be compared with the state itself."""

    def __init__(self, urls: str, changed: Callable[[list[Path]], None] = lambda _: None) -> None:
        """`changed` is called after each event with the paths of new and changed values."""
        self._urls = urls
        self._report = changed
        self.copy: Form | None = None
        self.faults: list[str] = []

    async def run(self) -> None:
        while True:
            try:
                async with connect(ConnectionSettings(self._urls), Method.COMMAND, hello()) as connection:
                    await self._follow(connection)
            except Unavailable:
                self.copy = None
            await asyncio.sleep(1)

    async def _follow(self, connection: ServerConnection) -> None:
        subscribe = base.CompleteStateRequest(fieldMask=WATCHED, subscribeForEvents=True)
        await connection.send(ToServer(request=base.Request(requestId="s", completeStateRequest=subscribe)))
        first = await _response(connection, "s")
        self.copy = COMPLETE_STATE.to_form(first.completeStateResponse.completeState)
        while True:
            event = (await _response(connection, "s")).completeStateResponse
            self._apply(COMPLETE_STATE.to_form(event.completeState), event.alteredFields)

    def _apply(self, state: Form, altered: base.AlteredFields) -> None:
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
        self._report(changed)


def watched_part(state: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a state that a subscriber's copy has, without empty parts."""
    return {name: without_empty(state.get(name, {})) for name in WATCHED}


def without_empty(value: Any) -> Any:
    """Whether a map that lost its last entry is still shown does not matter to a subscriber."""
    if not isinstance(value, dict):
        return value
    parts = {name: without_empty(part) for name, part in value.items()}
    return {name: part for name, part in parts.items() if part != {}}
