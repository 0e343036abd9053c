"""Subscriptions for changes of the complete state, and the part of a change that each subscriber receives.

Input: subscriptions, and the differences of a change. Output: one response for each subscriber whose masks match a
difference. Owns the subscriptions.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from ankaios.common.messages import Respond
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_manipulation import (
    WILDCARD,
    Added,
    AlteredPaths,
    Change,
    Differences,
    Path,
    Removed,
    all_paths,
    format_path,
    note_paths,
    parse_path,
)
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
            Respond(_event(request_id, altered, select))
            for request_id, subscription in self._subscriptions.items()
            if (altered := altered_paths(subscription.masks, found))
        ]


def _event(request_id: str, altered: AlteredPaths, select: Select) -> base.Response:
    fields = base.AlteredFields(
        addedFields=sorted(map(format_path, altered.added)),
        updatedFields=sorted(map(format_path, altered.updated)),
        removedFields=sorted(map(format_path, altered.removed)),
    )
    content = base.CompleteStateResponse(completeState=select(altered), alteredFields=fields)
    return base.Response(requestId=request_id, completeStateResponse=content)


def altered_paths(masks: Iterable[Path] | None, found: Differences) -> AlteredPaths:
    """The part of the differences that a subscriber with these masks receives.

    [impl->swdd~event-handler-creates-altered-fields-and-filter-masks~1]
    """
    if masks is None:
        return all_paths(found)
    altered = AlteredPaths()
    for mask in masks:
        _match(found, mask, (), altered)
    return altered


def _match(found: Change | Differences, mask: Path, prefix: Path, altered: AlteredPaths) -> None:
    """Follow the mask through the differences; where it ends, everything below is reported."""
    if not mask:
        note_paths(found, prefix, altered)
    elif isinstance(found, dict):
        for key in _keys(found, mask[0]):
            _match(found[key], mask[1:], (*prefix, key), altered)
    elif isinstance(found, Added | Removed):
        _match_within(found.value, found, mask, prefix, altered)


def _match_within(value: Any, change: Change, mask: Path, prefix: Path, altered: AlteredPaths) -> None:
    """Continue the mask in an entry that was added or removed as a whole: it matches the names there.

    A map is reported only where the mask does not name it: a new map as such is seen by masks that end above it.
    [impl->swdd~event-handler-expands-subscriber-field-mask-using-altered-field-masks~1]
    """
    if not isinstance(value, dict):
        return
    for key in _keys(value, mask[0]):
        below, path = value[key], (*prefix, key)
        if len(mask) > 1:
            _match_within(below, change, mask[1:], path, altered)
        elif mask[0] == WILDCARD or not isinstance(below, dict) or not below:
            altered.note(path, change)


def _keys(form: dict[str, Any], part: str) -> Iterable[str]:
    if part == WILDCARD:
        return form
    return (part,) if part in form else ()
