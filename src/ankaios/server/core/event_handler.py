"""Subscriptions for changes of the complete state, and the part of a change that each subscriber receives.

Input: subscriptions, and the differences of a change. Output: one response for each subscriber whose masks match a
difference. Owns the subscriptions.
"""

from collections.abc import Callable, Iterable

from ankaios.common.messages import Respond
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_events import altered_paths, state_event
from ankaios.common.state_manipulation import Differences, Path, parse_path
from ankaios.server.core.change_recorder import ChangeRecorder
from ankaios.server.core.owned_requests import OwnedRequests
from ankaios.server.core.replies import Effect
from ankaios.server.core.requester import Requester

# Makes the complete state that holds just the parts at these paths.
Select = Callable[[Iterable[Path]], base.CompleteState]


class EventHandler(OwnedRequests[tuple[Path, ...] | None]):
    """The masks of each subscription, None if everything is of interest.

    [impl->swdd~provides-functionality-to-handle-event-subscriptions~1]
    """

    def __init__(self, recorder: ChangeRecorder, select: Select) -> None:
        super().__init__()
        self._recorder = recorder
        self._select = select

    def add(self, request_id: str, owner: Requester, masks: Iterable[str]) -> None:
        """The same id again replaces the masks."""
        given = list(masks)
        paths = tuple(path for mask in given if (path := parse_path(mask)) is not None)
        self.put(request_id, owner, paths if given else None)

    def watch(self) -> None:
        """Record changes of the state from now on; without subscribers they are not recorded."""
        if self:
            self._recorder.start()

    def take_events(self) -> list[Effect]:
        """The events about what has changed since `watch`."""
        return [*self.events(self._recorder.finish())] if self else []

    def events(self, found: Differences) -> list[Respond]:
        """One event for each subscriber that is concerned.

        [impl->swdd~event-handler-sends-complete-state-differences-including-altered-fields~1]
        [impl->swdd~server-sends-state-differences-as-events~1]
        """
        if not found:
            return []
        return [
            Respond(state_event(request_id, altered, self._select(altered)))
            for request_id, masks in self.items()
            if (altered := altered_paths(masks, found))
        ]
