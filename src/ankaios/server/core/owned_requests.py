"""The open requests of one kind, by their id and by their requester. Their number is limited for each requester."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from ankaios.server.core.requester import Requester

MAX_OPEN_REQUESTS = 100

T = TypeVar("T")


class OwnedRequests(Generic[T]):
    """Holds a value of type `T` for each open request."""

    def __init__(self) -> None:
        self._values: dict[str, T] = {}
        self._owners: dict[str, Requester] = {}
        self._ids: dict[str, dict[str, set[str]]] = {}  # by peer and workload

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._values

    def get(self, request_id: str) -> T | None:
        return self._values.get(request_id)

    def items(self) -> Iterator[tuple[str, T]]:
        """The caller may remove requests meanwhile."""
        yield from list(self._values.items())

    def has_room(self, owner: Requester) -> bool:
        """Whether the requester may open another request."""
        return len(self._ids.get(owner.peer, {}).get(owner.workload, ())) < MAX_OPEN_REQUESTS

    def put(self, request_id: str, owner: Requester, value: T) -> None:
        """The same id again replaces the request."""
        self._forget_owner(request_id)
        self._values[request_id] = value
        self._owners[request_id] = owner
        self._ids.setdefault(owner.peer, {}).setdefault(owner.workload, set()).add(request_id)

    def remove(self, request_id: str) -> None:
        self._forget_owner(request_id)
        self._values.pop(request_id, None)

    def remove_of_peer(self, peer: str) -> list[str]:
        """Remove all requests of an agent's workloads or of a command connection; returns their ids."""
        return self._remove_all(sorted(request_id for ids in self._ids.get(peer, {}).values() for request_id in ids))

    def remove_of_workload(self, agent: str, workload: str) -> list[str]:
        """Remove all requests of this workload; returns their ids."""
        return self._remove_all(sorted(self._ids.get(agent, {}).get(workload, ())))

    def _remove_all(self, request_ids: list[str]) -> list[str]:
        for request_id in request_ids:
            self.remove(request_id)
        return request_ids

    def _forget_owner(self, request_id: str) -> None:
        owner = self._owners.pop(request_id, None)
        if owner is None:
            return
        workloads = self._ids[owner.peer]
        workloads[owner.workload].discard(request_id)
        if not workloads[owner.workload]:
            del workloads[owner.workload]
        if not workloads:
            del self._ids[owner.peer]
