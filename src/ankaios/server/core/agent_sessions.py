"""The sessions of connected agents: their runtimes, which were greeted, and which workloads were not sent.

Input: agents that connect, are greeted and disconnect, and committed updates. Output: what an agent may be sent. Owns
these facts. A workload is not sent before its agent is greeted, because the greeting contains it; nor if it needs
devices and its agent offers none.
"""

from collections.abc import Collection, Iterable

from ankaios.common.workload import InstanceName

_MOST_GONE = 1000


class AgentSessions:
    def __init__(self) -> None:
        self._ungreeted: set[str] = set()
        self._unsent: set[InstanceName] = set()
        self._runtimes: dict[str, frozenset[str]] = {}
        self._gone_since: dict[str, int] = {}

    def connect(self, agent: str, workloads: Iterable[InstanceName], runtimes: Iterable[str] = ()) -> None:
        """If a workload is deleted before the greeting, the agent has nothing to delete."""
        self._ungreeted.add(agent)
        self._runtimes[agent] = frozenset(runtimes)
        self._gone_since.pop(agent, None)
        self._unsent.update(workloads)

    def disconnect(self, agent: str, now_ms: int = 0) -> None:
        self._ungreeted.discard(agent)
        self._gone_since.pop(agent, None)
        self._gone_since[agent] = now_ms
        while len(self._gone_since) > _MOST_GONE:
            del self._gone_since[next(iter(self._gone_since))]
        self._runtimes.pop(agent, None)

    def runtimes_of(self, agent: str) -> Collection[str] | None:
        """The runtimes that the agent enables; None if it has not reported them."""
        return self._runtimes.get(agent) or None

    def gone_since(self, agent: str) -> int:
        """When the agent disconnected, in milliseconds since 1970; 0 if it was not connected before."""
        return self._gone_since.get(agent, 0)

    def greet(self, agent: str, sent: Iterable[InstanceName]) -> None:
        """The agent receives these workloads with its greeting."""
        self._ungreeted.discard(agent)
        self._unsent.difference_update(sent)

    def ungreeted(self) -> list[str]:
        return sorted(self._ungreeted)

    def is_ungreeted(self, agent: str) -> bool:
        return agent in self._ungreeted

    def is_unsent(self, name: InstanceName) -> bool:
        return name in self._unsent

    def commit(self, deleted: Iterable[InstanceName], unsent: Iterable[InstanceName]) -> None:
        """An update was committed; `unsent` are those added workloads that are not sent."""
        self._unsent.difference_update(deleted)
        self._unsent.update(unsent)
