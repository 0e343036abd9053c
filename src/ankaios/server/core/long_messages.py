"""Which messages take so long that other requests must be answered meanwhile, and which messages only read the state.

Input: a message and the state. Output: an estimate of the number of entries that handling the message examines. The
estimate is cheap: it does not examine the content of entries, and of a long message only the beginning.
"""

from collections.abc import Sequence
from typing import TypeGuard

from ankaios.common.messages import AgentGone, FromAgent, FromClient
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.state_manipulation import WILDCARD, parse_path
from ankaios.server.core.replies import ServerMessage
from ankaios.server.core.requester import requested_update
from ankaios.server.core.server_state import ServerState

# One entry takes about 0.05 ms, so that handling a message of this size takes about 10 ms.
LONG_SIZE = 200
_USUAL_MASK = 100  # characters
_USUAL_ENTRY = 1000  # bytes

_UPDATES = ("updateStateRequest", "planRequest")
_ABOUT_EVERYTHING = ("rollbackRequest", "historyRequest", "recordsRequest")


def request_in(message: ServerMessage) -> base.Request | None:
    """The request of a client, or of a workload through its agent."""
    match message:
        case FromClient(_, request, _):
            return request
        case FromAgent(_, content) if content.HasField("request"):
            return content.request
        case _:
            return None


def mask_count(request: base.Request) -> int:
    if request.HasField("completeStateRequest"):
        return len(request.completeStateRequest.fieldMask)
    return len(requested_update(request).updateMask) if request.WhichOneof("RequestContent") in _UPDATES else 0


def only_reads(message: ServerMessage) -> TypeGuard[FromAgent | FromClient]:
    """Whether the message can be answered from an earlier state without changing anything."""
    request = request_in(message)
    return request is not None and (
        request.HasField("serversRequest")
        or (request.HasField("completeStateRequest") and not request.completeStateRequest.subscribeForEvents)
    )


def message_size(message: ServerMessage, state: ServerState) -> int:
    """The number of entries that handling the message examines, estimated."""
    match message:
        case FromClient(_, request, _):
            return request_size(request, state)
        case FromAgent(_, content) if content.HasField("request"):
            return request_size(content.request, state)
        case FromAgent(agent, content):
            return _report_size(agent, content, state)
        case AgentGone(agent):
            return state.workload_count(agent)
        case _:
            return 0


def request_size(request: base.Request, state: ServerState) -> int:
    content = request.WhichOneof("RequestContent")
    if content in _UPDATES:
        return _update_size(requested_update(request), state)
    if content == "completeStateRequest":
        return _selected_size(request.completeStateRequest.fieldMask, state)
    return _state_size(state) if content in _ABOUT_EVERYTHING else 0


def _report_size(agent: str, content: grpc.ToServer, state: ServerState) -> int:
    if content.HasField("agentHello"):
        needs_all = not content.agentHello.dependencyStatesOnly
        return state.workload_count(agent) + (_state_size(state) if needs_all else 0)
    return len(content.updateWorkloadState.workloadStates)


def _state_size(state: ServerState) -> int:
    return len(state.desired["workloads"]) + len(state.desired.get("configs", ())) + len(state.agents.form)


def _update_size(update: base.UpdateStateRequest, state: ServerState) -> int:
    new = update.newState.desiredState
    size = len(new.workloads.workloads) + len(new.configs.configs)
    if size > LONG_SIZE:
        return size
    size += sum(len(state.users_of_config(key)) for key in new.configs.configs) + update.ByteSize() // _USUAL_ENTRY
    return size + _selected_size(update.updateMask, state)


def _selected_size(masks: Sequence[str], state: ServerState) -> int:
    """No masks select everything. Many masks, or long ones, are not examined."""
    length = sum(map(len, masks[:LONG_SIZE]))
    if not masks or length > LONG_SIZE * _USUAL_MASK:
        return _state_size(state) + length // _USUAL_MASK
    if len(masks) > LONG_SIZE:
        return len(masks)
    return len(masks) + max(_path_size(parse_path(mask) or (), state) for mask in masks)


def _path_size(path: Sequence[str], state: ServerState) -> int:
    match path:
        case ("agents",):
            return len(state.agents.form)
        case ("agents", name, *_) if name != WILDCARD:
            return 1
        case ("desiredState" | "effectiveState", "apiVersion"):
            return 1
        case ("desiredState" | "effectiveState", _, name, *_) if name != WILDCARD:
            return 1
        case ("workloadStates", agent, *_) if agent != WILDCARD:
            return state.workload_count(agent)
        case _:
            return _state_size(state)
