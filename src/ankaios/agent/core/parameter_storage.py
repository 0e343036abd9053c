"""What this agent knows of the states of all workloads, its own and those of other agents.

Comes in: own reports and what the server tells of other agents. Goes out: the states behind a workload name, which is
all that dependencies ask for. Owned here: the states; a removed workload is one that is not stored.
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
        """Of every known instance, whatever its id and agent."""
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
        """Store a state of an own workload and answer what it now counts as: a stop under way is not talked over."""
        known = self.state_of(name)
        accepted = transition(known, state) if known else state
        self.store(name, accepted)
        return accepted

    def forget_other_agents(self, own: str) -> set[str]:
        """The server sends them anew after each hello; what was removed meanwhile must not linger.

        Answers the workload names whose states changed.
        """
        foreign = [name for instances in self._states.values() for name in instances if name.agent != own]
        for name in foreign:
            self.store(name, REMOVED)
        return {name.workload for name in foreign}
