"""The effects of the server, and the messages that they contain."""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from ankaios.common.execution_state import ExecutionState
from ankaios.common.messages import (
    BroadcastStates,
    FromServerMessage,
    Respond,
    ToAgent,
    ToServerMessage,
    error_response,
)
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import deleted_workload_to_pb, workload_state_to_pb
from ankaios.common.workload import InstanceName
from ankaios.server.core.owned_requests import MAX_OPEN_REQUESTS
from ankaios.server.core.state_update import CommittedUpdate, added_message
from ankaios.server.core.update_rejected import UpdateRejected
from ankaios.storage.state_store import JsonValue, StateChange

# How much one subscription may watch.
MAX_EVENT_MASKS = 1000
# In one request; each costs a few microseconds.
MAX_MASKS = 100_000


class RunHooks(Struct, frozen=True):
    """Run the mutating hooks with the update; the result is the message `HooksFinished`."""

    update: grpc.UpdateWorkload


class HooksFinished(Struct, frozen=True):
    """The update as the hooks changed it, None if they left it unchanged, or why they reject it."""

    outcome: grpc.UpdateWorkload | UpdateRejected | None


class NextChange(Struct, frozen=True):
    """An update that waits or a rollout to restore, to be handled as a separate message after the effects before it."""


class DropAgent(Struct, frozen=True):
    """End the connection of the agent, which then connects again and begins a new session."""

    agent: str
    why: str


class SecondPassed(Struct, frozen=True):
    """One second has passed."""


ServerMessage = ToServerMessage | HooksFinished | NextChange | SecondPassed
Effect = FromServerMessage | RunHooks | NextChange | DropAgent


class Decision(Struct, frozen=True):
    """What follows from one message: effects in order, and the change that must be durable before they leave.

    `records` are the records of workloads that have changed, None for removed ones. Effects do not wait for them.
    """

    effects: list[Effect]
    change: StateChange | None = None
    records: Mapping[str, JsonValue] = field(default_factory=dict)


def refuse(request_id: str, reason: str) -> Respond:
    return Respond(error_response(request_id, reason))


def refuse_too_many(request_id: str, what: str) -> Respond:
    text = f"cannot accept the request: {MAX_OPEN_REQUESTS} {what} of this requester are open, cancel some first"
    return refuse(request_id, text)


def broadcast_states(states: Iterable[tuple[InstanceName, ExecutionState]]) -> list[Effect]:
    messages = tuple(workload_state_to_pb(name, state) for name, state in states)
    return [BroadcastStates(messages)] if messages else []


def states_for_agent(agent: str, states: Iterable[tuple[InstanceName, ExecutionState]]) -> list[Effect]:
    """The states for one agent; no message if there are none."""
    message = grpc.UpdateWorkloadState(workloadStates=[workload_state_to_pb(*entry) for entry in states])
    return [ToAgent(agent, grpc.FromServer(updateWorkloadState=message))] if message.workloadStates else []


def update_success(
    request_id: str, committed: CommittedUpdate, revision: int | None = None, rollout: str | None = None
) -> Respond:
    """[impl->swdd~server-update-state-success-response~1]"""
    success = base.UpdateStateSuccess(
        addedWorkloads=[str(workload.instance_name) for workload in committed.added],
        deletedWorkloads=[str(deleted.instance_name) for deleted in committed.deleted],
        revision=revision,
        rollout=rollout,
    )
    return Respond(base.Response(requestId=request_id, UpdateStateSuccess=success))


def plan_response(request_id: str, plan: base.PlanResponse) -> Respond:
    return Respond(base.Response(requestId=request_id, planResponse=plan))


def updates_for_agents(committed: CommittedUpdate, connected: Collection[str]) -> list[Effect]:
    """One message for each connected agent that has something to do."""
    updates: dict[str, grpc.UpdateWorkload] = {}
    for workload in committed.sent_added:
        if (agent := workload.instance_name.agent) in connected:
            update = updates.setdefault(agent, grpc.UpdateWorkload())
            update.addedWorkloads.append(added_message(workload))
    for deleted in committed.sent_deleted:
        if (agent := deleted.instance_name.agent) in connected:
            update = updates.setdefault(agent, grpc.UpdateWorkload())
            update.deletedWorkloads.append(deleted_workload_to_pb(deleted))
    return [
        ToAgent(agent, grpc.FromServer(updateWorkload=update)) for agent, update in sorted(updates.items()) if agent
    ]
