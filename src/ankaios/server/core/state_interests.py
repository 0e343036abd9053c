"""Which workload states an agent receives if it wants only those of workloads that its own depend on.

Input: agents that connect and disconnect, and the effects of a decision. Output: the effects with the states that these
agents need, before the message that needs them. Owns the names that each of these agents depends on.

A few agents, the witnesses, receive all states nevertheless: after a restart of a server without a store, they report
where the workloads of agents were that have not reconnected.

Without this every agent receives every state, and the cost of a state grows with the number of agents. Agents of
Eclipse Ankaios do not announce this and continue to receive all states.
"""

from collections.abc import Iterable, Iterator

from ankaios.common.execution_state import ExecutionState
from ankaios.common.messages import BroadcastStates, StatesForAgents, ToAgent
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import InstanceName
from ankaios.server.core.replies import Effect, states_for_agent
from ankaios.server.core.workload_states_map import WorkloadStatesMap

MOST_WITNESSES = 8


class StateInterests:
    def __init__(self, states: WorkloadStatesMap, most_witnesses: int = MOST_WITNESSES) -> None:
        self._states = states
        self._most_witnesses = most_witnesses
        self._witnesses: set[str] = set()
        self._names: dict[str, set[str]] = {}
        self._agents: dict[str, set[str]] = {}

    def connect(self, agent: str) -> None:
        """The agent wants only the states that it needs."""
        self._names[agent] = set()
        if len(self._witnesses) < self._most_witnesses:
            self._witnesses.add(agent)

    def disconnect(self, agent: str) -> None:
        self._witnesses.discard(agent)
        for name in self._names.pop(agent, ()):
            self._agents[name].discard(agent)
            if not self._agents[name]:
                del self._agents[name]

    def initial_states(self, agent: str) -> list[tuple[InstanceName, ExecutionState]]:
        """The states for an agent that has just connected."""
        return [] if self._is_limited(agent) else self._states.all_except(agent)

    def _is_limited(self, agent: str) -> bool:
        return agent in self._names and agent not in self._witnesses

    def completed(self, effects: Iterable[Effect]) -> list[Effect]:
        """Return the effects, with the states that the receivers of workloads do not have yet."""
        if not self._names:
            return list(effects)
        return [more for effect in effects for more in self._complete(effect)]

    def _complete(self, effect: Effect) -> Iterator[Effect]:
        match effect:
            case ToAgent(agent, message) if self._is_limited(agent):
                yield from self._missing_states(agent, _needed_names(message))
                yield effect
            case BroadcastStates(states, _):
                yield BroadcastStates(states, tuple(self._selected(effect)))
            case _:
                yield effect

    def _missing_states(self, agent: str, names: set[str]) -> list[Effect]:
        missing = names - self._names[agent]
        self._names[agent] |= missing
        for name in missing:
            self._agents.setdefault(name, set()).add(agent)
        found = [entry for name in sorted(missing) for entry in self._states.of_workload(name)]
        return states_for_agent(agent, (entry for entry in found if entry[0].agent != agent))

    def _selected(self, broadcast: BroadcastStates) -> Iterator[StatesForAgents]:
        """Agents that need the same states share one message."""
        positions: dict[str, list[int]] = {}
        for position, state in enumerate(broadcast.states):
            name = state.instanceName
            for agent in (*self._witnesses, *self._agents.get(name.workloadName, ())):
                if agent != name.agentName:
                    positions.setdefault(agent, []).append(position)
        groups: dict[tuple[int, ...], list[str]] = {}
        for agent, found in positions.items():
            groups.setdefault(tuple(found), []).append(agent)
        for group, agents in groups.items():
            yield StatesForAgents(tuple(broadcast.states[position] for position in group), tuple(sorted(agents)))


def _needed_names(message: grpc.FromServer) -> set[str]:
    """The workloads whose states decide when the workloads in the message start and stop."""
    names: set[str] = set()
    for added in (*message.serverHello.addedWorkloads, *message.updateWorkload.addedWorkloads):
        names |= added.workload.dependencies.dependencies.keys()
    for deleted in message.updateWorkload.deletedWorkloads:
        names |= deleted.dependencies.keys()
    return names
