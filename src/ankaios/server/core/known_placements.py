"""Where workloads were before this server started, as agents report it.

Input: the instances that each agent has, and those of other agents that it received states of. Output: the agent of a
workload whose placement is not known. Owns these reports. What an agent reports about itself takes precedence over the
reports of others.
"""

from collections.abc import Iterable

from ankaios.common.workload import InstanceName


class KnownPlacements:
    def __init__(self) -> None:
        self._own: dict[str, dict[InstanceName, None]] = {}
        self._others: dict[str, dict[InstanceName, None]] = {}

    def report(self, agent: str, names: Iterable[InstanceName]) -> None:
        known = dict.fromkeys(names)
        self._own[agent] = {name: None for name in known if name.agent == agent}
        self._others[agent] = {name: None for name in known if name.agent not in ("", agent)}

    def forget(self, agent: str) -> None:
        """The agent connects again and will report again."""
        self._own.pop(agent, None)
        self._others.pop(agent, None)

    def clear(self) -> None:
        self._own.clear()
        self._others.clear()

    def has_reported(self, agent: str) -> bool:
        return agent in self._own

    def instances_on(self, agent: str) -> Iterable[InstanceName]:
        return self._own.get(agent, ())

    def agent_of(self, workload: str, instance_id: str) -> str | None:
        """The agent that has the instance; the first one that reported it."""
        return next((it for it in self._own if InstanceName(workload, instance_id, it) in self._own[it]), None)

    def reported_agent_of(self, workload: str, instance_id: str) -> str | None:
        """The agent that has the instance according to others and has not reported itself; the first by name."""
        names = (name for others in self._others.values() for name in others)
        agents = {name.agent for name in names if (name.workload, name.id) == (workload, instance_id)}
        return min(agents - self._own.keys(), default=None)
