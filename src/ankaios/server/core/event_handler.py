"""Subscriptions for changes of the complete state, and the part of a change that each subscriber receives.

Input: subscriptions, and the differences of a change. Output: one response for each subscriber whose masks match a
difference. Owns the subscriptions.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from ankaios.common.messages import Respond
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_events import altered_paths, state_event
from ankaios.common.state_manipulation import Differences, Path, parse_path
from ankaios.server.core.requester import Requester, RequestsByOwner

# Makes the complete state that holds just the parts at these paths.
Select = Callable[[Iterable[Path]], base.CompleteState]


class Subscription(Struct, frozen=True):
    """`masks` is None if everything is of interest."""

    masks: tuple[Path, ...] | None


class EventHandler:
    """[impl->swdd~provides-functionality-to-handle-event-subscriptions~1]"""

    def __init__(self) -> None:
        self._subscriptions: dict[str, Subscription] = {}
        self._by_owner = RequestsByOwner()

    def __bool__(self) -> bool:
        """Whether there are subscribers: without them, differences need not be recorded."""
        return bool(self._subscriptions)

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, request_id: str, owner: Requester, masks: Iterable[str]) -> None:
        """The same id again replaces the masks."""
        given = list(masks)
        paths = tuple(path for mask in given if (path := parse_path(mask)) is not None)
        self._subscriptions[request_id] = Subscription(paths if given else None)
        self._by_owner.add(request_id, owner)

    def remove(self, request_id: str) -> None:
        self._subscriptions.pop(request_id, None)
        self._by_owner.discard(request_id)

    def remove_of_peer(self, peer: str) -> None:
        """All subscriptions of an agent's workloads or of a command connection."""
        for request_id in self._by_owner.of_peer(peer):
            self.remove(request_id)

    def remove_of_workload(self, agent: str, workload: str) -> None:
        for request_id in self._by_owner.of_workload(Requester(agent, workload)):
            self.remove(request_id)

    def count(self, owner: Requester) -> int:
        return self._by_owner.count(owner)

    def events(self, found: Differences, select: Select) -> list[Respond]:
        """One event for each subscriber that is concerned.

        [impl->swdd~event-handler-sends-complete-state-differences-including-altered-fields~1]
        [impl->swdd~server-sends-state-differences-as-events~1]
        """
        if not found:
            return []
        return [
            Respond(state_event(request_id, altered, select(altered)))
            for request_id, subscription in self._subscriptions.items()
            if (altered := altered_paths(subscription.masks, found))
        ]
