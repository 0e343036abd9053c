"""Where workloads were before this server started, as agents tell it.

In: what each agent says it has, and what it heard of others. Out: the agent of a workload whose place is not known.
Owned: what was told. An agent knows best what it has itself; what others heard of it counts only until it speaks.
"""

from collections.abc import Iterable

from ankaios.common.workload import InstanceName


class Whereabouts:
    def __init__(self) -> None:
        self._had: dict[str, dict[InstanceName, None]] = {}
        self._heard: dict[str, dict[InstanceName, None]] = {}

    def tell(self, agent: str, names: Iterable[InstanceName]) -> None:
        known = dict.fromkeys(names)
        self._had[agent] = {name: None for name in known if name.agent == agent}
        self._heard[agent] = {name: None for name in known if name.agent not in ("", agent)}

    def forget(self, agent: str) -> None:
        """It begins anew, and will be asked again."""
        self._had.pop(agent, None)
        self._heard.pop(agent, None)

    def clear(self) -> None:
        self._had.clear()
        self._heard.clear()

    def has_told(self, agent: str) -> bool:
        return agent in self._had

    def had_by(self, agent: str) -> Iterable[InstanceName]:
        return self._had.get(agent, ())

    def having(self, workload: str, instance_id: str) -> str | None:
        """Who says to have it; of several the one who told first."""
        return next((agent for agent in self._had if self._has(agent, workload, instance_id)), None)

    def _has(self, agent: str, workload: str, instance_id: str) -> bool:
        return InstanceName(workload, instance_id, agent) in self._had[agent]

    def said_to_have(self, workload: str, instance_id: str) -> str | None:
        """Who is said to have it by others, and has not told itself; of several the one with the smallest name."""
        names = (name for heard in self._heard.values() for name in heard)
        agents = {name.agent for name in names if (name.workload, name.id) == (workload, instance_id)}
        return min(agents - self._had.keys(), default=None)
