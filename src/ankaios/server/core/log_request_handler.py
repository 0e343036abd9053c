"""Log requests: forwards them to agents and the entries back to requesters. Owns the log campaigns.

Input: requests, responses of agents, and disconnected agents, clients and deleted workloads. Output: effects.
"""

from collections.abc import Iterable

from ankaios.common.messages import BroadcastLogsCancel, Respond, ToAgent
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_from_pb, instance_name_to_pb
from ankaios.common.workload import DeletedWorkload, InstanceName
from ankaios.server.core.log_campaign_store import LogCampaignStore
from ankaios.server.core.replies import Effect, refuse_too_many
from ankaios.server.core.requester import Requester
from ankaios.server.core.server_state import ServerState


class LogRequestHandler:
    """Reads the existing workloads from the state."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._campaigns = LogCampaignStore()
        # Agent that is not connected -> request id -> the message for it.
        self._unsent: dict[str, dict[str, grpc.FromServer]] = {}

    def __len__(self) -> int:
        """The number of open requests."""
        return len(self._campaigns)

    def request(self, request_id: str, request: base.LogsRequest, requester: Requester) -> list[Effect]:
        """Only instances that are desired now can provide logs; the response names them.

        [impl->swdd~server-handles-logs-request-message~1]
        """
        if not self._campaigns.has_room(requester):
            return [refuse_too_many(request_id, "log requests")]
        asked = dict.fromkeys(map(instance_name_from_pb, request.workloadNames))
        names = [name for name in asked if self._state.is_desired(name)]
        effects: list[Effect] = []
        if names:
            self._campaigns.insert(request_id, requester, names)
            for agent in sorted({name.agent for name in names}):
                message = _request_for(agent, request_id, request, names)
                if agent not in self._state.agents:
                    self._unsent[agent] = {**self._open_unsent(agent), request_id: message}
                effects.append(ToAgent(agent, message))
        accepted = base.LogsRequestAccepted(workloadNames=map(instance_name_to_pb, names))
        return [*effects, Respond(base.Response(requestId=request_id, logsRequestAccepted=accepted))]

    def cancel(self, request_id: str) -> list[Effect]:
        """[impl->swdd~server-handles-logs-cancel-request-message~1]"""
        self._campaigns.remove(request_id)
        accepted = base.Response(requestId=request_id, logsCancelAccepted=base.LogsCancelAccepted())
        return [BroadcastLogsCancel(request_id), Respond(accepted)]

    def agent_greeted(self, agent: str) -> list[Effect]:
        """Send the requests that were made before the agent connected, such as after a failover."""
        waiting = self._open_unsent(agent)
        self._unsent.pop(agent, None)
        return [ToAgent(agent, message) for message in waiting.values()]

    def _open_unsent(self, agent: str) -> dict[str, grpc.FromServer]:
        """Without those whose requester has cancelled them or is gone."""
        messages = self._unsent.get(agent, {})
        return {request_id: message for request_id, message in messages.items() if request_id in self._campaigns}

    def entries(self, message: grpc.LogEntriesResponse) -> list[Effect]:
        """[impl->swdd~server-forwards-logs-entries-response-messages~1]"""
        response = base.Response(requestId=message.requestId, logEntriesResponse=message.logEntriesResponse)
        return [Respond(response)]

    def stopped(self, message: grpc.LogsStopResponse) -> list[Effect]:
        """[impl->swdd~server-forwards-logs-stop-response-messages~1]"""
        name = instance_name_from_pb(message.logsStopResponse.workloadName)
        self._campaigns.provider_stopped(message.requestId, name)
        return [Respond(base.Response(requestId=message.requestId, logsStopResponse=message.logsStopResponse))]

    def workloads_deleted(self, deleted: Iterable[DeletedWorkload]) -> list[Effect]:
        """Deleted workloads do not receive logs any more.

        [impl->swdd~server-cancels-log-campaign-for-deleted-workloads~1]
        """
        effects: list[Effect] = []
        for workload in deleted:
            name = workload.instance_name
            effects += _cancel(self._campaigns.remove_of_workload(name.agent, name.workload))
        return effects

    def client_gone(self, connection: str) -> list[Effect]:
        """[impl->swdd~server-cancels-log-campaign-for-disconnected-cli~1]"""
        return _cancel(self._campaigns.remove_of_peer(connection))

    def agent_gone(self, agent: str) -> list[Effect]:
        """Workloads of a disconnected agent neither receive nor provide logs.

        [impl->swdd~server-handles-log-campaign-for-disconnected-agent~1]
        """
        effects = _cancel(self._campaigns.remove_of_peer(agent))
        for request_id, name in self._campaigns.remove_provider_agent(agent):
            stop = base.LogsStopResponse(workloadName=instance_name_to_pb(name))
            effects.append(Respond(base.Response(requestId=request_id, logsStopResponse=stop)))
        return effects


def _cancel(request_ids: Iterable[str]) -> list[Effect]:
    return [BroadcastLogsCancel(request_id) for request_id in request_ids]


def _request_for(
    agent: str, request_id: str, request: base.LogsRequest, names: Iterable[InstanceName]
) -> grpc.FromServer:
    """The request with those instance names that belong to this agent."""
    message = grpc.LogsRequest(requestId=request_id, logsRequest=request)
    del message.logsRequest.workloadNames[:]
    message.logsRequest.workloadNames.extend(instance_name_to_pb(name) for name in names if name.agent == agent)
    return grpc.FromServer(logsRequest=message)
