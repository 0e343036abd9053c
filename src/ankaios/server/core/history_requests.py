"""Requests about the history: which revisions there are, the change that restores one, and updates with a condition.

Input: the history, the desired state, and requests. Output: a response, a `DesiredChange`, or a rejection. Owns
nothing.
"""

from collections.abc import Callable, Collection, Mapping

import msgspec

from ankaios.common.errors import Rejected
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_manipulation import Form, Path
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.history import History
from ankaios.server.core.stored_entries import (
    AGENT_TAGS_KIND,
    API_VERSION_KEY,
    CONFIG_KIND,
    DEVICE_CONFIGURATION_KIND,
    SECTION_OF_KIND,
    WORKLOAD_KIND,
    entry_path,
)
from ankaios.server.core.update_rejected import UpdateRejected
from ankaios.storage.state_store import EntryChange, EntryKey, JsonValue, Revision

# Returns whether the requester may read a path of the state.
IsReadable = Callable[[Path], bool]
# Returns the tags that an entry means now; None if the agent is not connected.
TagsFor = Callable[[str, Form | None], Mapping[str, str] | None]

_MOST_REVISIONS = 1000


def history_response(history: History, request: base.HistoryRequest, is_readable: IsReadable) -> base.HistoryResponse:
    """Entries that the requester may not read are not part of the response, nor are revisions without others."""
    limit = min(request.limit or _MOST_REVISIONS, _MOST_REVISIONS)
    last = request.last if request.HasField("last") else None
    found = history.select(request.workloads, request.first, last, limit)
    infos = (_revision_info(revision, is_readable, with_values=request.values) for revision in found)
    return base.HistoryResponse(revisions=[info for info in infos if info.entries], current=history.current)


def _revision_info(revision: Revision, is_readable: IsReadable, *, with_values: bool) -> base.RevisionInfo:
    return base.RevisionInfo(
        number=revision.number,
        timeMs=round(revision.time * 1000),
        requester=revision.requester,
        updateMasks=revision.masks,
        entries=[_entry_change(entry, with_values) for entry in revision.entries if is_readable(entry_path(entry.key))],
        note=revision.note,
    )


def _entry_change(entry: EntryChange, with_values: bool) -> base.EntryChange:
    """Without values, an empty text stands for an existing value."""
    return base.EntryChange(
        kind=entry.kind,
        name=entry.name,
        before=_text(entry.before, with_values),
        after=_text(entry.after, with_values),
    )


def _text(value: JsonValue, with_values: bool) -> str | None:
    if value is None:
        return None
    return msgspec.json.encode(value).decode() if with_values else ""


def check_unchanged(history: History, since: int, keys: Collection[EntryKey]) -> None:
    """Reject an update of these entries if one of them was changed after the revision."""
    try:
        found = history.changed_since(since, keys)
    except Rejected as fault:
        raise UpdateRejected(str(fault)) from fault
    if found is not None:
        key, revision = found
        raise UpdateRejected(
            f"{key.kind} '{key.name}' was changed after revision {since}, in revision {revision.number} by "
            f"{revision.requester}; look at it with 'ank history show {revision.number}'"
        )


def change_by_rollback(
    history: History, desired: Form, request: base.RollbackRequest, tags_for: TagsFor
) -> DesiredChange:
    """The change that restores a revision, or some of its workloads."""
    try:
        values = history.values_at(request.revision)
    except Rejected as fault:
        raise UpdateRejected(f"cannot restore revision {request.revision}: {fault}") from fault
    if request.workloads:
        values = _only_workloads(values, request.workloads, desired, request.revision)
    return change_to_values(values, desired, tags_for)


def change_to_values(values: Mapping[EntryKey, JsonValue], desired: Form, tags_for: TagsFor) -> DesiredChange:
    """The change that gives entries these values; None removes an entry."""
    version = values.get(API_VERSION_KEY) or desired["apiVersion"]
    return DesiredChange(
        version,
        workloads=_changed(values, WORKLOAD_KIND, desired),
        configs=_changed(values, CONFIG_KIND, desired),
        device_configurations=_changed(values, DEVICE_CONFIGURATION_KIND, desired),
        agent_tags={
            key.name: dict(tags)
            for key, value in values.items()
            if key.kind == AGENT_TAGS_KIND and (tags := tags_for(key.name, value)) is not None
        },
    )


def _only_workloads(
    values: Mapping[EntryKey, JsonValue], names: Collection[str], desired: Form, revision: int
) -> dict[EntryKey, JsonValue]:
    keys = [EntryKey(WORKLOAD_KIND, name) for name in names]
    for key in keys:
        if key not in values and key.name not in desired["workloads"]:
            raise UpdateRejected(f"there is no workload '{key.name}', neither now nor in revision {revision}")
    return {key: values[key] for key in keys if key in values}


def _changed(values: Mapping[EntryKey, JsonValue], kind: str, desired: Form) -> dict[str, JsonValue]:
    current = desired.get(SECTION_OF_KIND[kind], {})
    found = {key.name: value for key, value in values.items() if key.kind == kind}
    return {name: value for name, value in found.items() if value != current.get(name)}
