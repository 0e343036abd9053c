"""Resource usage of workloads: who requested it, which agents still have to report, and how long they measure.

Input: requests of clients, reports of agents, passed seconds. Output: effects. The values are stored in the execution
states and removed when they are not requested any more. Owns the open requests and the ages of the last reports.

A request is answered as soon as every agent that can measure has reported since, or reported so recently that its
values are still valid. After `MAX_WAIT` seconds it is answered with the values of the others.
"""

from msgspec import Struct

from ankaios.common.messages import Respond, ToAgent
from ankaios.common.model.state import RESOURCE_USAGE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_from_pb, instance_name_to_pb
from ankaios.common.workload import InstanceName
from ankaios.server.core.owned_requests import OwnedRequests
from ankaios.server.core.replies import Effect, refuse_too_many
from ankaios.server.core.requester import Requester
from ankaios.server.core.server_state import ServerState

DEFAULT_SECONDS = 5
MAX_SECONDS = 60
MAX_WAIT = 2
VALID_SECONDS = 2


class _OpenRequest(Struct):
    missing: set[str]
    age: int = 0


class UsageCollector:
    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._ages: dict[str, int | None] = {}  # seconds since the last report of each agent that can measure
        self._reported: dict[str, set[InstanceName]] = {}
        self._seconds_left = 0
        self._open: OwnedRequests[_OpenRequest] = OwnedRequests()

    def agent_connected(self, agent: str, hello: grpc.AgentHello) -> list[Effect]:
        """An agent that does not announce usage is not sent this message, because it does not support it."""
        if not hello.usage:
            return []
        self._ages[agent] = None
        return [_measure(agent, self._seconds_left)] if self._seconds_left else []

    def agent_gone(self, agent: str) -> list[Effect]:
        self._forget_values(agent)
        self._ages.pop(agent, None)
        return self._satisfied(agent)

    def client_gone(self, connection: str) -> None:
        self._open.remove_of_peer(connection)

    def request(self, request_id: str, request: base.UsageRequest, requester: Requester) -> list[Effect]:
        if not self._open.has_room(requester):
            return [refuse_too_many(request_id, "usage requests")]
        seconds = min(request.seconds or DEFAULT_SECONDS, MAX_SECONDS)
        self._seconds_left = max(self._seconds_left, seconds)
        effects: list[Effect] = [_measure(agent, seconds) for agent in self._ages]
        missing = {agent for agent, age in self._ages.items() if age is None or age >= VALID_SECONDS}
        if not missing:
            return [*effects, self._answer(request_id, missing)]
        self._open.put(request_id, requester, _OpenRequest(missing))
        return effects

    def report(self, agent: str, report: grpc.UsageReport) -> list[Effect]:
        """Values that were not requested are ignored, as are those of workloads of other agents."""
        if agent not in self._ages or not self._seconds_left:
            return []
        values = {
            name: RESOURCE_USAGE.to_form(entry.usage)
            for entry in report.workloads
            if (name := instance_name_from_pb(entry.instanceName)).agent == agent
        }
        for name in self._reported.get(agent, set()) - values.keys():
            self._state.workload_states.set_usage(name, None)
        for name, usage in values.items():
            self._state.workload_states.set_usage(name, usage)
        self._reported[agent] = set(values)
        self._ages[agent] = 0
        return self._satisfied(agent)

    def tick(self) -> list[Effect]:
        """One second has passed."""
        if not self._seconds_left:
            return []
        self._seconds_left -= 1
        self._ages = {agent: None if age is None else age + 1 for agent, age in self._ages.items()}
        effects: list[Effect] = []
        for request_id, request in self._open.items():
            request.age += 1
            if request.age > MAX_WAIT:
                effects.append(self._answer(request_id, request.missing))
                self._open.remove(request_id)
        if not self._seconds_left:
            self._forget_all()
        return effects

    def _forget_all(self) -> None:
        for agent in list(self._reported):
            self._forget_values(agent)
        self._ages = dict.fromkeys(self._ages)

    def _forget_values(self, agent: str) -> None:
        for name in self._reported.pop(agent, set()):
            self._state.workload_states.set_usage(name, None)

    def _satisfied(self, agent: str) -> list[Effect]:
        """Nothing more is expected of this agent: answer the requests that waited only for it."""
        effects: list[Effect] = []
        for request_id, request in self._open.items():
            request.missing.discard(agent)
            if not request.missing:
                effects.append(self._answer(request_id, set()))
                self._open.remove(request_id)
        return effects

    def _answer(self, request_id: str, missing: set[str]) -> Respond:
        unable = self._state.agents.form.keys() - self._ages.keys()
        states = self._state.workload_states.form
        workloads = [
            base.WorkloadUsage(instanceName=instance_name_to_pb(name), usage=RESOURCE_USAGE.from_form(form["usage"]))
            for agent, names in sorted(self._reported.items())
            for name in sorted(names)
            if "usage" in (form := states.get(agent, {}).get(name.workload, {}).get(name.id, {}))
        ]
        response = base.UsageResponse(workloads=workloads, missingAgents=sorted(missing | unable))
        return Respond(base.Response(requestId=request_id, usageResponse=response))


def _measure(agent: str, seconds: int) -> ToAgent:
    return ToAgent(agent, grpc.FromServer(measureUsage=grpc.MeasureUsage(seconds=seconds)))
