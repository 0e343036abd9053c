"""Stores the known execution states of the workloads of this agent and of other agents.

Input: states of own workloads, and states of other agents' workloads from the server. Output: the states by workload
name, for dependencies. The module owns the states. Removed workloads are not stored.
"""

from collections.abc import Collection, Mapping

from ankaios.common.execution_state import REMOVED, ExecutionState, transition
from ankaios.common.workload import InstanceName


class ParameterStorage:
    """[impl->swdd~agent-manager-stores-all-workload-states~1]"""

    def __init__(self) -> None:
        self._states: dict[str, dict[InstanceName, ExecutionState]] = {}

    def instances(self) -> list[InstanceName]:
        return [name for instances in self._states.values() for name in instances]

    def states_of(self, workload: str) -> Collection[ExecutionState]:
        """Return the states of all known instances, with any id and agent."""
        return self._states.get(workload, {}).values()

    def instances_of(self, workload: str) -> Mapping[InstanceName, ExecutionState]:
        return self._states.get(workload, {})

    def state_of(self, name: InstanceName) -> ExecutionState | None:
        return self._states.get(name.workload, {}).get(name)

    def store(self, name: InstanceName, state: ExecutionState) -> None:
        if not state.is_same(REMOVED):
            self._states.setdefault(name.workload, {})[name] = state
        elif instances := self._states.get(name.workload):
            instances.pop(name, None)
            if not instances:
                del self._states[name.workload]

    def report(self, name: InstanceName, state: ExecutionState) -> ExecutionState:
        """Store a state of an own workload. Return the resulting state: a running stop is not overwritten."""
        known = self.state_of(name)
        accepted = transition(known, state) if known else state
        self.store(name, accepted)
        return accepted

    def forget_other_agents(self, own: str) -> set[str]:
        """Remove the states of other agents: the server sends them after each hello, without removed workloads.

        Return the workload names whose states changed.
        """
        foreign = [name for instances in self._states.values() for name in instances if name.agent != own]
        for name in foreign:
            self.store(name, REMOVED)
        return {name.workload for name in foreign}
