"""Request ids and sender tables, without I/O: which message goes to which receiver.

Input: messages of connections, messages of the server. Output: what to deliver, reject or ignore; for each receiver the
encoded message. Owns the sender tables.

A request id gets the sender's name as a prefix when it arrives (`<agent>@<workload>@<id>`, `cli-conn-<uuid>@<id>`). For
a response, the text before the first `@` selects the receiver and is removed.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from msgspec import Struct

from ankaios.common.messages import (
    REQUEST_ID_SEPARATOR,
    UNKNOWN_CLIENT,
    BroadcastLogsCancel,
    BroadcastStates,
    ClientIdentity,
    FromAgent,
    FromClient,
    FromServerMessage,
    Respond,
    StatesForAgents,
    ToAgent,
    ToServerMessage,
    error_response,
)
from ankaios.common.pb.ank_base_pb2 import Request, Response, WorkloadState
from ankaios.common.pb.grpc_api_pb2 import FromServer, LogsCancelRequest, ToServer, UpdateWorkloadState
from ankaios.middleware.methods import Method

S = TypeVar("S")


class Deliver(Struct, frozen=True):
    """Send the message to the server."""

    message: ToServerMessage


class RejectRequest(Struct, frozen=True):
    """Send the response back to the sender: the request is not valid."""

    response: Response


class Ignore(Struct, frozen=True):
    """Drop the message and log the reason."""

    reason: str


class Disconnect(Struct, frozen=True):
    """End the call: the sender has sent a goodbye."""


Incoming = Deliver | RejectRequest | Ignore | Disconnect


def interpret_agent_message(agent: str, message: ToServer) -> Incoming:
    """Decide what to do with a message of an agent; an agent may report only about itself."""
    match message.WhichOneof("ToServerEnum"):
        case "request":
            rejection = _request_fault(message.request) or _agent_request_fault(message.request)
            if rejection is not None:
                return rejection
            message.request.requestId = with_sender(agent, message.request.requestId)
        case "AgentLoadStatus" if message.AgentLoadStatus.agent_name != agent:
            return Ignore(f"the load of agent '{message.AgentLoadStatus.agent_name}', reported by another")
        case "updateWorkloadState":
            foreign = _drop_foreign_states(agent, message.updateWorkloadState)
            if foreign and not message.updateWorkloadState.workloadStates:
                return Ignore(f"{foreign} workload states of other agents")
        case other if common := _common_case(other):
            return common
    return Deliver(FromAgent(agent, message))


def interpret_client_message(connection: str, message: ToServer, sender: ClientIdentity = UNKNOWN_CLIENT) -> Incoming:
    """Decide what to do with a message of a CLI or commander: only requests and goodbyes are allowed.

    `sender` describes the client for people.
    """
    kind = message.WhichOneof("ToServerEnum")
    if kind != "request":
        return _common_case(kind) or Ignore(f"'{kind}', which only agents may send")
    if rejection := _request_fault(message.request):
        return rejection
    message.request.requestId = with_sender(connection, message.request.requestId)
    return Deliver(FromClient(connection, message.request, sender))


def _common_case(kind: str | None) -> Incoming | None:
    match kind:
        case None:
            return Ignore("a message without content")
        case "agentHello" | "commanderHello":
            return Ignore("a second hello")
        case "goodbye":
            return Disconnect()
        case _:
            return None


def _request_fault(request: Request) -> Incoming | None:
    if not request.requestId:
        return Ignore("a request without id, which cannot be answered")
    kind = request.WhichOneof("RequestContent")
    if kind is None:
        return RejectRequest(error_response(request.requestId, "The request has no content."))
    if kind == "updateStateRequest" and not request.updateStateRequest.HasField("newState"):
        return RejectRequest(error_response(request.requestId, "The update request has no new state."))
    return None


def _agent_request_fault(request: Request) -> Incoming | None:
    """Requests that are answered later or more than once are stored by workload, so their id must contain one."""
    kind = request.WhichOneof("RequestContent")
    once = kind == "updateStateRequest" or (
        kind == "completeStateRequest" and not request.completeStateRequest.subscribeForEvents
    )
    if once or REQUEST_ID_SEPARATOR in request.requestId:
        return None
    return RejectRequest(error_response(request.requestId, "The request id of an agent must be '<workload>@<id>'."))


def _drop_foreign_states(agent: str, update: UpdateWorkloadState) -> int:
    own = [state for state in update.workloadStates if state.instanceName.agentName == agent]
    foreign = len(update.workloadStates) - len(own)
    if foreign:
        update.CopyFrom(UpdateWorkloadState(workloadStates=own))
    return foreign


def with_sender(sender: str, request_id: str) -> str:
    return f"{sender}{REQUEST_ID_SEPARATOR}{request_id}"


def split_receiver(request_id: str) -> tuple[str, str]:
    """Return the receiver and the remaining id; the receiver is empty if the id contains none."""
    receiver, separator, rest = request_id.partition(REQUEST_ID_SEPARATOR)
    return (receiver, rest) if separator else ("", request_id)


class SenderTables(Generic[S]):
    """The senders to agents, CLIs and commanders; `S` is the type that takes the encoded messages.

    An agent receives workloads only after its `serverHello`, which contains everything that the server decided before
    it processed the connection.
    """

    def __init__(self) -> None:
        self._agents: dict[str, S] = {}
        self._with_all_states: dict[str, S] = {}
        self._greeted: set[str] = set()
        self.clients: dict[str, S] = {}
        self._observers: dict[str, S] = {}

    def add_agent(self, agent: str, sender: S, *, all_states: bool = True) -> None:
        """Without `all_states` the agent receives only the states that are selected for it."""
        self._agents[agent] = sender
        if all_states:
            self._with_all_states[agent] = sender
        self._greeted.discard(agent)

    def remove_agent(self, agent: str) -> None:
        del self._agents[agent]
        self._with_all_states.pop(agent, None)
        self._greeted.discard(agent)

    def add_client(self, connection: str, method: Method, sender: S) -> None:
        self.clients[connection] = sender
        if method is Method.CLI:
            self._observers[connection] = sender

    def remove_client(self, connection: str) -> None:
        del self.clients[connection]
        self._observers.pop(connection, None)

    def deliveries(self, message: FromServerMessage) -> tuple[list[tuple[S, bytes]], str | None]:
        """Return each receiver with its encoded message, and a warning if a response has no receiver.

        A missing agent is normal: it receives the complete state when it connects.
        """
        match message:
            case Respond(response):
                return self._response(response)
            case ToAgent(agent, content):
                return self._to_agent(agent, content)
            case BroadcastStates(states, selected):
                return [*self._states(states), *self._selected_states(selected)], None
            case BroadcastLogsCancel(request_id):
                cancel = FromServer(logsCancelRequest=LogsCancelRequest(requestId=request_id)).SerializeToString()
                return [(sender, cancel) for sender in (*self._agents.values(), *self._observers.values())], None

    def _response(self, response: Response) -> tuple[list[tuple[S, bytes]], str | None]:
        receiver, request_id = split_receiver(response.requestId)
        sender = self.clients.get(receiver) or self._agents.get(receiver)
        if sender is None:
            return [], f"the response to '{response.requestId}' has no receiver"
        return [(sender, encode_response(response, request_id))], None

    def _to_agent(self, agent: str, message: FromServer) -> tuple[list[tuple[S, bytes]], str | None]:
        sender = self._agents.get(agent)
        if sender is None:
            return [], None
        kind = message.WhichOneof("FromServerEnum")
        if kind == "serverHello":
            self._greeted.add(agent)
        elif kind in ("updateWorkload", "logsRequest") and agent not in self._greeted:
            return [], None
        return [(sender, message.SerializeToString())], None

    def _states(self, states: tuple[WorkloadState, ...]) -> Iterable[tuple[S, bytes]]:
        if not states:
            return
        everything = _encode_states(states)
        for sender in self._observers.values():
            yield sender, everything
        reported = {state.instanceName.agentName for state in states}
        for agent, sender in self._with_all_states.items():
            if agent not in reported:
                yield sender, everything
            elif others := [state for state in states if state.instanceName.agentName != agent]:
                yield sender, _encode_states(others)

    def _selected_states(self, selected: tuple[StatesForAgents, ...]) -> Iterable[tuple[S, bytes]]:
        for group in selected:
            encoded = _encode_states(group.states)
            for agent in group.agents:
                if (sender := self._agents.get(agent)) is not None:
                    yield sender, encoded


def _encode_states(states: Iterable[WorkloadState]) -> bytes:
    return FromServer(updateWorkloadState=UpdateWorkloadState(workloadStates=states)).SerializeToString()


_RESPONSE_TAG = bytes([FromServer.RESPONSE_FIELD_NUMBER << 3 | 2])


def encode_response(response: Response, request_id: str) -> bytes:
    """Encode `FromServer(response=…)` with another id, without a copy of a state of many megabytes."""
    original = response.requestId
    response.requestId = request_id
    try:
        payload = response.SerializeToString()
    finally:
        response.requestId = original
    return _RESPONSE_TAG + _varint(len(payload)) + payload


def _varint(number: int) -> bytes:
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)
