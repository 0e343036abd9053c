"""The entries that the store keeps: their kinds, and the changes of one message.

Input: what changes while one message is handled. Output: one atomic `StateChange`, or nothing. Owns the changes until
they are taken. The kinds of the desired state are part of the history; the others are decisions of the server itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ankaios.common.state_manipulation import Form, Path
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.storage.state_store import EntryChange, EntryKey, Revision, StateChange

WORKLOAD_KIND, CONFIG_KIND, DEVICE_CONFIGURATION_KIND = "workload", "config", "deviceConfiguration"
AGENT_TAGS_KIND, API_VERSION_KIND = "agentTags", "apiVersion"
# What mutating hooks made of a workload; without such an entry, the rendered workload is what agents have.
HOOKED_KIND = "hooked"
PLACEMENT_KIND = "placement"
ROLLOUT_KIND = "rollout"

# The entries of these kinds are the maps of the desired state.
SECTION_OF_KIND = {
    WORKLOAD_KIND: "workloads",
    CONFIG_KIND: "configs",
    DEVICE_CONFIGURATION_KIND: "deviceConfigurations",
}
API_VERSION_KEY = EntryKey(API_VERSION_KIND, "desiredState")


class EntryCollector:
    """Collects changes of entries; the first value before and the last value after count."""

    def __init__(self) -> None:
        self._entries: dict[EntryKey, EntryChange] = {}
        self._revision: Revision | None = None
        self._dropped: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._entries or self._revision or self._dropped)

    def note_all(self, changes: Iterable[EntryChange]) -> None:
        """Note that entries have other values now."""
        for change in changes:
            earlier = self._entries.pop(change.key, None)
            merged = change if earlier is None else replace(change, before=earlier.before)
            if merged.before != merged.after:
                self._entries[change.key] = merged

    def note_revision(self, revision: Revision, dropped: tuple[int, ...] = ()) -> None:
        assert self._revision is None, "one message makes one revision at most"
        self._revision = revision
        self._dropped += dropped

    def note_dropped_revisions(self, numbers: tuple[int, ...]) -> None:
        self._dropped += numbers

    def take(self) -> StateChange | None:
        """Return everything noted since the last call."""
        change = StateChange(tuple(self._entries.values()), self._revision, self._dropped) if self else None
        self._entries, self._revision, self._dropped = {}, None, ()
        return change


def desired_entries(desired: Form, change: DesiredChange) -> list[EntryChange]:
    """The entries of the desired state that the change replaces, before it is applied."""
    entries: list[EntryChange] = []
    if desired["apiVersion"] != change.api_version:
        key = API_VERSION_KEY
        entries.append(EntryChange(key.kind, key.name, desired["apiVersion"], change.api_version))
    changed = change.sections()
    for kind, section in SECTION_OF_KIND.items():
        stored: Mapping[str, Any] = desired.get(section, {})
        entries += [EntryChange(kind, name, stored.get(name), value) for name, value in changed[section].items()]
    return entries


def changed_keys(desired: Form, change: DesiredChange) -> set[EntryKey]:
    """The entries of the desired state that the change replaces, and those of agents whose tags it sets."""
    tags = {EntryKey(AGENT_TAGS_KIND, agent) for agent in change.agent_tags}
    return tags.union(entry.key for entry in desired_entries(desired, change))


def entry_path(key: EntryKey) -> Path:
    """Where the entry is in the complete state, for access rules."""
    if key.kind == AGENT_TAGS_KIND:
        return ("agents", key.name, "tags")
    section = SECTION_OF_KIND.get(key.kind)
    return ("desiredState", "apiVersion") if section is None else ("desiredState", section, key.name)
