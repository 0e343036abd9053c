"""Events of the complete state: which paths of a change a subscriber receives, and the message for it.

Input: masks and differences. Output: paths, responses. Pure. The server creates events from its changes, an agent from
the changes that a workload has missed.
"""

from collections.abc import Iterable
from typing import Any

from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_manipulation import (
    MISSING,
    WILDCARD,
    Added,
    AlteredPaths,
    Change,
    Differences,
    Form,
    Path,
    Removed,
    Selection,
    all_paths,
    format_path,
    note_paths,
)

_STATES = ("desiredState", "effectiveState")
_PAIR = {"state": "subState", "subState": "state"}


def selected_state(tree: Form, paths: Iterable[Path]) -> base.CompleteState:
    """The parts of a complete state at the paths, with the fields that are needed to interpret them."""
    selection = Selection()
    for path in paths:
        selection.add(path)
        for more in _needed_with(path):
            selection.add(more)
    picked = selection.pick(tree)
    return base.CompleteState() if picked is MISSING else COMPLETE_STATE.from_form(picked)


def _needed_with(path: Path) -> Iterable[Path]:
    """A state is incomplete without its version, and an execution state without its substate."""
    for state in _STATES:
        if path[0].startswith(state) or (path[0] == WILDCARD and len(path) > 1):
            yield (state, "apiVersion")
    if len(path) == 5 and path[0] == "workloadStates" and path[4] in _PAIR:
        yield (*path[:4], _PAIR[path[4]])


def state_event(request_id: str, altered: AlteredPaths, state: base.CompleteState) -> base.Response:
    """The event for a subscriber; `state` contains the new values."""
    fields = base.AlteredFields(
        addedFields=sorted(map(format_path, altered.added)),
        updatedFields=sorted(map(format_path, altered.updated)),
        removedFields=sorted(map(format_path, altered.removed)),
    )
    content = base.CompleteStateResponse(completeState=state, alteredFields=fields)
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
