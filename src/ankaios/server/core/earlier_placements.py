"""Where workloads were before this server started, so that they stay there.

Input: stored placements, the instances that agents report, and the devices that these use. Output: placements that
leave nothing to choose, and whether an agent can be greeted. Owns the learning phase: until agents had the time to
reconnect, what they report counts. Then it is used once more and dropped.
"""

from collections.abc import Mapping

from ankaios.common.messages import ToAgent
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_from_pb
from ankaios.common.state_manipulation import Form
from ankaios.common.workload import InstanceName
from ankaios.server.core.device_directory import NOT_SETTLED, DeviceDirectory
from ankaios.server.core.known_placements import KnownPlacements
from ankaios.server.core.placement import NO_AGENT, PlacementDecision, PlacementRequest, Placements
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.stored_placements import StoredPlacements


class EarlierPlacements:
    """`is_learning`: agents may still reconnect. `is_finished`: what was known only while learning is dropped."""

    def __init__(self, state: ServerState, directory: DeviceDirectory, current: Placements) -> None:
        self._state = state
        self._directory = directory
        self._current = current
        self._stored = StoredPlacements()
        self._known = KnownPlacements()
        self._holders: dict[str, InstanceName] = {}  # workloads that use devices
        self.is_learning = True
        self.is_finished = False

    def restore(self, placements: Mapping[str, Form]) -> None:
        """Continue with stored placements."""
        self._stored.restore(placements)

    # --- learning ---

    def question(self, agent: str, hello: grpc.AgentHello) -> list[ToAgent]:
        """The first message to a new agent: its answer must not depend on what it receives later."""
        self._known.forget(agent)
        if not hello.devices or not self._matters():
            return []
        return [ToAgent(agent, grpc.FromServer(tellWorkloads=grpc.TellWorkloads()))]

    def report(self, agent: str, message: grpc.KnownWorkloads) -> bool:
        """The answer; it is ignored if it was not asked for or is late. Returns whether it counts."""
        if not self.is_learning or not self._directory.offers_devices(agent):
            return False
        self._known.report(agent, map(instance_name_from_pb, message.instanceNames))
        return True

    def learn(self) -> bool:
        """Before each plan. Returns whether the learning phase ends with it, so that workloads wait no longer."""
        if not self.is_learning:
            self.is_finished = True
            self._holders.clear()
            self._known.clear()
            self._state.entries.note_all(self._stored.drop_unused(self._current))
            return False
        self._holders = self._directory.holders()
        self.is_learning = not self._directory.is_settled
        return not self.is_learning

    def _matters(self) -> bool:
        return self.is_learning and bool(self._current.waiting() or self._directory.configurations)

    def may_greet(self, agent: str) -> bool:
        """Whether all workloads that were on the agent belong there; else they would be deleted."""
        if not self._matters() or not self._directory.offers_devices(agent):
            return True
        held = (name for name in self._holders.values() if name.agent == agent)
        return (
            self._directory.has_reported(agent)
            and self._known.has_reported(agent)
            and all(map(self._state.is_desired, (*held, *self._known.instances_on(agent))))
        )

    # --- placements ---

    def fixed_placement(self, name: InstanceName, request: PlacementRequest) -> PlacementDecision | None:
        """An instance that exists stays on its agent. After a start of the server agents need time to report it.

        An instance on an agent that has not reconnected by then waits for the agent.
        """
        holder = self._holders.get(name.workload)
        if holder is not None and holder.id == name.id and self._directory.may_run(holder.agent, request.accepts):
            return PlacementDecision(request, holder.agent, f"it uses devices of agent '{holder.agent}' already")
        agent = self._known.agent_of(name.workload, name.id)
        if agent is not None and self._directory.may_run(agent, request.accepts):
            return PlacementDecision(request, agent, f"it is on agent '{agent}' already")
        before = self._stored.agent_of(name.workload, name.id)
        if before is not None and self._directory.may_run(before, request.accepts):
            return PlacementDecision(request, before, f"it was on agent '{before}' before the server started")
        if self.is_learning:
            return PlacementDecision(request, "", NOT_SETTLED if self._directory.candidates(False) else NO_AGENT)
        absent = self._known.reported_agent_of(name.workload, name.id)
        if absent is not None and self._directory.may_run(absent, request.accepts):
            return PlacementDecision(request, absent, f"it was on agent '{absent}' according to another agent")
        return None

    def applied(self, planned: Mapping[str, PlacementDecision | None]) -> None:
        """Placements have changed, and are stored."""
        self._state.entries.note_all(self._stored.apply(planned, self._state.effective))

    def agent_lost(self, agent: str) -> None:
        self._state.entries.note_all(self._stored.agent_lost(agent))
