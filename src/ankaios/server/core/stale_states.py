"""Finds states `AgentDisconnected` of workloads that exist nowhere any more.

Input: the states, the workloads that shall run, agents that connect, what agents list, and the passing of seconds.
Output: instances whose states have to be removed. Owns how long agents that list nothing have been connected.

A workload that was deleted while its agent was disconnected keeps its state, because the agent may still have it. When
the agent is back, it reports what it has. Agents of Eclipse Ankaios have no list; they get some seconds to report.
"""

from collections.abc import Collection, Mapping

from ankaios.common.execution_state import AGENT_DISCONNECTED
from ankaios.common.workload import InstanceName
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.workload_states_map import WorkloadStatesMap

SECONDS_TO_REPORT = 10


class StaleStates:
    def __init__(self, states: WorkloadStatesMap, effective: Mapping[str, RenderedWorkload]) -> None:
        self._states, self._effective = states, effective
        self._seconds: dict[str, int] = {}

    def connect(self, agent: str, *, lists_workloads: bool) -> bool:
        """Return whether the agent has to list its workloads."""
        self._seconds.pop(agent, None)
        if not self._candidates(agent):
            return False
        if not lists_workloads:
            self._seconds[agent] = SECONDS_TO_REPORT
        return lists_workloads

    def disconnect(self, agent: str) -> None:
        self._seconds.pop(agent, None)

    def listed(self, agent: str, known: Collection[InstanceName]) -> list[InstanceName]:
        """The agent has listed its workloads. Return the instances that do not exist."""
        return [name for name in self._candidates(agent) if name not in known]

    def second_passed(self) -> list[InstanceName]:
        """Return the instances that their agents have not reported in time."""
        overdue = [agent for agent, left in self._seconds.items() if left <= 1]
        self._seconds = {agent: left - 1 for agent, left in self._seconds.items() if left > 1}
        return [name for agent in overdue for name in self._candidates(agent)]

    def _candidates(self, agent: str) -> list[InstanceName]:
        return [
            name
            for name, state in self._states.of_agent(agent)
            if state.is_same(AGENT_DISCONNECTED) and not self._shall_run(name)
        ]

    def _shall_run(self, name: InstanceName) -> bool:
        workload = self._effective.get(name.workload)
        return workload is not None and workload.instance_name == name
