"""Open logs requests. A campaign is one logs request: its requester and the workloads that still provide logs.

[impl->swdd~server-log-campaign-store-holds-log-campaign-metadata~1]
"""

from collections.abc import Iterable

from ankaios.common.workload import InstanceName
from ankaios.server.core.requester import Requester, RequestsByOwner


class LogCampaignStore:
    """Campaigns by request id, found also by requester and by the agent of a provider."""

    def __init__(self) -> None:
        self._providers: dict[str, set[InstanceName]] = {}
        self._by_owner = RequestsByOwner()
        self._by_provider_agent: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._providers)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._providers

    def insert(self, request_id: str, owner: Requester, providers: Iterable[InstanceName]) -> None:
        """The same id again is a new campaign."""
        self.remove(request_id)
        self._providers[request_id] = set(providers)
        self._by_owner.add(request_id, owner)
        for name in self._providers[request_id]:
            self._by_provider_agent.setdefault(name.agent, set()).add(request_id)

    def remove(self, request_id: str) -> None:
        self._by_owner.discard(request_id)
        for agent in {name.agent for name in self._providers.pop(request_id, ())}:
            self._forget_agent(agent, request_id)

    def remove_of_peer(self, peer: str) -> list[str]:
        """All campaigns of an agent's workloads or of a command connection; returns their ids."""
        return self._remove_all(self._by_owner.of_peer(peer))

    def remove_of_workload(self, agent: str, workload: str) -> list[str]:
        """Remove all campaigns that this workload requested; returns their ids."""
        return self._remove_all(self._by_owner.of_workload(Requester(agent, workload)))

    def provider_stopped(self, request_id: str, name: InstanceName) -> None:
        """The provider sends no more entries; a campaign ends with its last provider."""
        providers = self._providers.get(request_id, set())
        providers.discard(name)
        if all(other.agent != name.agent for other in providers):
            self._forget_agent(name.agent, request_id)
        if not providers:
            self.remove(request_id)

    def remove_provider_agent(self, agent: str) -> list[tuple[str, InstanceName]]:
        """The agent has disconnected: return the requests that wait for logs of its workloads."""
        stopped = [
            (request_id, name)
            for request_id in sorted(self._by_provider_agent.get(agent, ()))
            for name in sorted(self._providers[request_id])
            if name.agent == agent
        ]
        for request_id, name in stopped:
            self.provider_stopped(request_id, name)
        return stopped

    def count(self, owner: Requester) -> int:
        return self._by_owner.count(owner)

    def _remove_all(self, request_ids: list[str]) -> list[str]:
        for request_id in request_ids:
            self.remove(request_id)
        return request_ids

    def _forget_agent(self, agent: str, request_id: str) -> None:
        ids = self._by_provider_agent.get(agent, set())
        ids.discard(request_id)
        if not ids:
            self._by_provider_agent.pop(agent, None)
