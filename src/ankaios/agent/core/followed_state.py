"""The part of the state that a workload has received through a subscription.

Input: the first response of a subscription, its events, and the first response of the repeated subscription after a
reconnection. Output: one event with everything that changed while there was no connection. Owns the received values.
"""

from collections.abc import Iterable
from typing import Any

from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_events import altered_paths, selected_state, state_event
from ankaios.common.state_manipulation import (
    MISSING,
    differences,
    get_value,
    parse_path,
    remove_value,
    set_value,
)


class FollowedState:
    def __init__(self, masks: Iterable[str], first: base.CompleteState) -> None:
        given = list(masks)
        paths = tuple(path for mask in given if (path := parse_path(mask)) is not None)
        self._masks = paths if given else None
        self._form = COMPLETE_STATE.to_form(first)

    def apply(self, event: base.CompleteStateResponse) -> None:
        """Record an event that is forwarded to the workload."""
        state = COMPLETE_STATE.to_form(event.completeState)
        for removed in filter(None, map(parse_path, event.alteredFields.removedFields)):
            remove_value(self._form, removed)
        for text in (*event.alteredFields.addedFields, *event.alteredFields.updatedFields):
            path = parse_path(text)
            if path is not None and (value := get_value(state, path)) is not MISSING:
                set_value(self._form, path, value)

    def catch_up(self, request_id: str, state: base.CompleteState) -> base.Response | None:
        """The event that leads from the received values to this state; None if they are the same."""
        before, self._form = self._form, COMPLETE_STATE.to_form(state)
        altered = altered_paths(self._masks, differences(_without_empty(before), _without_empty(self._form)))
        return state_event(request_id, altered, selected_state(self._form, altered)) if altered else None


def _without_empty(value: Any) -> Any:
    """A map without entries is set in some responses and unset in others; both mean the same."""
    if not isinstance(value, dict):
        return value
    parts = {name: _without_empty(part) for name, part in value.items()}
    return {name: part for name, part in parts.items() if part != {}}
