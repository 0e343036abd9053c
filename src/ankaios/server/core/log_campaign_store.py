"""Open logs requests. A campaign is one logs request: its requester and the workloads that still provide logs.

[impl->swdd~server-log-campaign-store-holds-log-campaign-metadata~1]
"""

from collections.abc import Iterable

from ankaios.common.workload import InstanceName
from ankaios.server.core.owned_requests import OwnedRequests
from ankaios.server.core.requester import Requester


class LogCampaignStore(OwnedRequests[dict[str, set[InstanceName]]]):
    """The providers of each campaign, by their agent."""

    def insert(self, request_id: str, owner: Requester, providers: Iterable[InstanceName]) -> None:
        """The same id again is a new campaign."""
        of_agent: dict[str, set[InstanceName]] = {}
        for name in providers:
            of_agent.setdefault(name.agent, set()).add(name)
        self.put(request_id, owner, of_agent)

    def provider_stopped(self, request_id: str, name: InstanceName) -> None:
        """The provider sends no more entries; a campaign ends with its last provider."""
        providers = self.get(request_id) or {}
        of_agent = providers.get(name.agent, set())
        of_agent.discard(name)
        if not of_agent:
            providers.pop(name.agent, None)
        if not providers:
            self.remove(request_id)

    def remove_provider_agent(self, agent: str) -> list[tuple[str, InstanceName]]:
        """The agent has disconnected: return the requests that wait for logs of its workloads."""
        stopped = [
            (request_id, name)
            for request_id, providers in sorted(self.items())
            if agent in providers
            for name in sorted(providers[agent])
        ]
        for request_id, name in stopped:
            self.provider_stopped(request_id, name)
        return stopped
