"""Short methods to send messages to an `AnkaiosServer`, and its effects as lines of text.

`effects_as_lines` writes one line per effect: the receiver and the content.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ankaios.common.execution_state import ExecutionState
from ankaios.common.messages import (
    AgentGone,
    BroadcastLogsCancel,
    BroadcastStates,
    ClientGone,
    FromAgent,
    FromClient,
    Respond,
    ToAgent,
)
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_to_pb, workload_state_from_pb, workload_state_to_pb
from ankaios.common.workload import InstanceName
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.replies import DropAgent, Effect, NextChange, RunHooks, ServerMessage

Form = dict[str, Any]
CLI = "cli-conn-1"
H = "6b1bdc92fc2d9fafe5e422c4a8862abc63aad7095bd8de46c4aafc92388fabe2"
CONFIG = "image: alpine:3"


def a_form(agent: str = "n1", config: str = CONFIG, **more: Any) -> Form:
    return {"agent": agent, "runtime": "podman", "runtimeConfig": config, **more}


def a_state(workloads: Mapping[str, Form] | None = None, **more: Any) -> Form:
    return {"desiredState": {"apiVersion": "v1", "workloads": dict(workloads or {}), **more}}


def web(agent: str = "n1", config: str = CONFIG) -> InstanceName:
    return InstanceName.of("web", agent, config)


class Scenario:
    """One server, one command line; every method returns the effects."""

    def __init__(self, **options: Any) -> None:
        self.server = AnkaiosServer(**options)

    def handle(self, message: ServerMessage) -> list[Effect]:
        return self.server.handle(message)

    def hello(self, agent: str, tags: Mapping[str, str] | None = None) -> list[Effect]:
        hello = grpc.AgentHello(agentName=agent, protocolVersion="1.0.0", tags=base.Tags(tags=tags or {}))
        return self.from_agent(agent, agentHello=hello)

    def from_agent(self, agent: str, **content: Any) -> list[Effect]:
        return self.handle(FromAgent(agent, grpc.ToServer(**content)))

    def gone(self, agent: str) -> list[Effect]:
        return self.handle(AgentGone(agent))

    def goodbye(self, connection: str = CLI) -> list[Effect]:
        return self.handle(ClientGone(connection))

    def ask(self, request_id: str = "r", connection: str = CLI, **content: Any) -> list[Effect]:
        full_id = f"{connection}@{request_id}" if request_id else ""
        return self.handle(FromClient(connection, base.Request(requestId=full_id, **content)))

    def ask_through(self, agent: str, request_id: str, **content: Any) -> list[Effect]:
        """`request_id` is the whole id as it is inside the server."""
        return self.from_agent(agent, request=base.Request(requestId=request_id, **content))

    def update(self, state: Form, *masks: str, request_id: str = "u") -> list[Effect]:
        content = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form(state), updateMask=masks)
        return self.ask(request_id, updateStateRequest=content)

    def get(self, *masks: str) -> Form:
        effects = self.ask("g", completeStateRequest=base.CompleteStateRequest(fieldMask=masks))
        response = the_response(effects)
        assert not response.completeStateResponse.HasField("alteredFields")
        return COMPLETE_STATE.to_form(response.completeStateResponse.completeState)

    def subscribe(self, *masks: str, request_id: str = "s", connection: str = CLI) -> list[Effect]:
        content = base.CompleteStateRequest(fieldMask=masks, subscribeForEvents=True)
        return self.ask(request_id, connection, completeStateRequest=content)

    def report(self, agent: str, states: Mapping[InstanceName, ExecutionState]) -> list[Effect]:
        messages = [workload_state_to_pb(name, state) for name, state in states.items()]
        return self.from_agent(agent, updateWorkloadState=grpc.UpdateWorkloadState(workloadStates=messages))

    def load(self, agent: str, cpu: int, memory: int) -> list[Effect]:
        status = grpc.AgentLoadStatus(
            agent_name=agent,
            cpu_usage=base.CpuUsage(cpu_usage=cpu),
            free_memory=base.FreeMemory(free_memory=memory),
        )
        return self.from_agent(agent, AgentLoadStatus=status)

    def ask_logs(self, names: Iterable[InstanceName], request_id: str = "l", **more: Any) -> list[Effect]:
        content = base.LogsRequest(workloadNames=map(instance_name_to_pb, names), **more)
        return self.ask(request_id, logsRequest=content)


def responses(effects: Iterable[Effect]) -> list[base.Response]:
    return [effect.response for effect in effects if isinstance(effect, Respond)]


def the_response(effects: Iterable[Effect]) -> base.Response:
    (response,) = responses(effects)
    return response


def error_of(effects: Iterable[Effect]) -> str:
    response = the_response(effects)
    assert response.WhichOneof("ResponseContent") == "error", response
    return response.error.message


def success_of(effects: Iterable[Effect]) -> tuple[list[str], list[str]]:
    """Added and deleted instance names, sorted."""
    for response in responses(effects):
        if response.WhichOneof("ResponseContent") == "UpdateStateSuccess":
            success = response.UpdateStateSuccess
            return sorted(success.addedWorkloads), sorted(success.deletedWorkloads)
    raise AssertionError(f"no success in {list(effects)}")


def events_of(effects: Iterable[Effect]) -> list[tuple[list[str], list[str], list[str], Form]]:
    """Added, updated and removed fields and the complete state of each event."""
    found = []
    for response in responses(effects):
        content = response.completeStateResponse
        if response.HasField("completeStateResponse") and content.HasField("alteredFields"):
            fields = content.alteredFields
            lists = list(fields.addedFields), list(fields.updatedFields), list(fields.removedFields)
            found.append((*lists, COMPLETE_STATE.to_form(content.completeState)))
    return found


def altered(effects: Iterable[Effect]) -> tuple[list[str], list[str], list[str]] | None:
    """Of the only event: added, updated and removed fields; None if there is no event."""
    events = events_of(effects)
    assert len(events) <= 1, events
    return events[0][:3] if events else None


def effects_as_lines(effects: Iterable[Effect]) -> list[str]:
    return [_line(effect) for effect in effects]


def _line(effect: Effect) -> str:
    match effect:
        case Respond(response):
            return f"{response.requestId}: {_response_text(response)}"
        case ToAgent(agent, message):
            return f"{agent}: {_from_server_text(message)}"
        case BroadcastStates(states):
            return f"all: {_states_text(states)}"
        case BroadcastLogsCancel(request_id):
            return f"all: cancel logs {request_id}"
        case RunHooks(update):
            return f"hooks: {_update_text(update)}"
        case NextChange():
            return "next change"
        case DropAgent(agent, why):
            return f"drop {agent}: {why}"


def _response_text(response: base.Response) -> str:
    match response.WhichOneof("ResponseContent"):
        case "error":
            return f"error {response.error.message}"
        case "UpdateStateSuccess":
            success = response.UpdateStateSuccess
            return f"success +{_short(success.addedWorkloads)} -{_short(success.deletedWorkloads)}"
        case "completeStateResponse" if response.completeStateResponse.HasField("alteredFields"):
            fields = response.completeStateResponse.alteredFields
            added, updated, removed = map(_listed, (fields.addedFields, fields.updatedFields, fields.removedFields))
            return f"event +{added} ~{updated} -{removed}"
        case "logEntriesResponse":
            return f"log {_listed(entry.message for entry in response.logEntriesResponse.logEntries)}"
        case "logsStopResponse":
            return f"log of {response.logsStopResponse.workloadName.workloadName} ends"
        case "logsRequestAccepted":
            return f"logs accepted {_listed(name.workloadName for name in response.logsRequestAccepted.workloadNames)}"
        case other:
            return str(other)


def _from_server_text(message: grpc.FromServer) -> str:
    match message.WhichOneof("FromServerEnum"):
        case "updateWorkload":
            return f"update {_update_text(message.updateWorkload)}"
        case "serverHello":
            return f"hello +{_listed(added.instanceName.workloadName for added in message.serverHello.addedWorkloads)}"
        case "updateWorkloadState":
            return _states_text(message.updateWorkloadState.workloadStates)
        case "logsRequest":
            names = message.logsRequest.logsRequest.workloadNames
            return f"logs {message.logsRequest.requestId} of {_listed(name.workloadName for name in names)}"
        case other:
            return str(other)


def _update_text(update: grpc.UpdateWorkload) -> str:
    added = _listed(added.instanceName.workloadName for added in update.addedWorkloads)
    deleted = _listed(
        f"{deleted.instanceName.workloadName}{sorted(deleted.dependencies) or ''}"
        for deleted in update.deletedWorkloads
    )
    return f"+{added} -{deleted}"


def _states_text(states: Iterable[base.WorkloadState]) -> str:
    return "states " + _listed(
        f"{name.workload}.{name.agent}={state}" for name, state in map(workload_state_from_pb, states)
    )


def _listed(texts: Iterable[str]) -> str:
    return "[" + ", ".join(sorted(texts)) + "]"


def _short(names: Iterable[str]) -> str:
    return _listed(f"{name.split('.')[0]}.{name.split('.')[2]}" for name in names)
