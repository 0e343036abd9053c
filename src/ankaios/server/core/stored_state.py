"""What is stored beside the desired state, and how a server continues with stored entries.

Input: stored entries; tags and results of mutating hooks that change. Output: an update that restores the state, and
changes of entries. Owns the agent tags that were set by requests, and the workloads that hooks have changed.
"""

from collections.abc import Mapping

from msgspec import Struct

from ankaios.common.errors import Rejected
from ankaios.common.model.state import API_VERSION, SECTIONS
from ankaios.common.state_manipulation import MISSING, Form
from ankaios.common.workload import InstanceName
from ankaios.server.core.config_renderer import RenderedWorkload, render_workload
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.replicas import is_replicated, replica_instances
from ankaios.server.core.state_update import PreparedUpdate
from ankaios.server.core.stored_entries import (
    AGENT_TAGS_KIND,
    API_VERSION_KEY,
    HOOKED_KIND,
    PLACEMENT_KIND,
    ROLLOUT_KIND,
    SECTION_OF_KIND,
)
from ankaios.server.core.workload_plan import WorkloadChanges
from ankaios.storage.state_store import EntryChange, EntryKey, JsonValue


class TagOverrides:
    """Agent tags that were set by requests. They replace those of the hello as long as the agent sends the same ones.

    An agent whose own tags have changed was configured anew: its tags count. `is_durable` is False for a server without
    a store: tags of requests then end with the session of the agent, as with Eclipse Ankaios.
    """

    def __init__(self, is_durable: bool) -> None:
        self._is_durable = is_durable
        self._overrides: dict[str, Form] = {}
        self._reported: dict[str, dict[str, str]] = {}

    def restore(self, overrides: Mapping[str, Form]) -> None:
        self._overrides = dict(overrides)

    def hello(self, agent: str, tags: Mapping[str, str]) -> tuple[Mapping[str, str], list[EntryChange]]:
        """The tags that count for the agent."""
        self._reported[agent] = dict(tags)
        override = self._overrides.get(agent)
        if override is None:
            return tags, []
        if self._is_durable and override["reported"] == self._reported[agent]:
            return override["tags"], []
        del self._overrides[agent]
        return tags, [EntryChange(AGENT_TAGS_KIND, agent, override, None)]

    def gone(self, agent: str) -> None:
        self._reported.pop(agent, None)

    def set(self, changed: Mapping[str, Mapping[str, str]]) -> list[EntryChange]:
        """A request sets tags of agents; those that are not connected have none."""
        entries: list[EntryChange] = []
        for agent, tags in changed.items():
            if (reported := self._reported.get(agent)) is None:
                continue
            before = self._overrides.get(agent)
            after = None if tags == reported else {"tags": dict(tags), "reported": reported}
            if before != after:
                entries.append(EntryChange(AGENT_TAGS_KIND, agent, before, after))
                self._put(agent, after)
        return entries

    def _put(self, agent: str, override: Form | None) -> None:
        if override is None:
            self._overrides.pop(agent, None)
        else:
            self._overrides[agent] = override

    def tags_for(self, agent: str, override: Form | None) -> Mapping[str, str] | None:
        """The tags that an earlier entry means now; None if the agent is not connected."""
        return self._reported.get(agent) if override is None else override["tags"]


class HookedWorkloads:
    """Workloads that differ from the rendered ones because of mutating hooks. They are stored, so that a server that
    starts again sends agents what they have, without the hooks.
    """

    def __init__(self) -> None:
        self._values: dict[str, JsonValue] = {}

    def restore(self, values: Mapping[str, JsonValue]) -> None:
        self._values = dict(values)

    def set(
        self, effective: Mapping[str, RenderedWorkload], prepared: PreparedUpdate, hooked: WorkloadChanges
    ) -> list[EntryChange]:
        """Before the update is applied: `hooked` is what the hooks made of the prepared changes."""
        if hooked is prepared.changes and not self._values:
            return []
        entries: list[EntryChange] = []
        for name in {**prepared.rendered, **hooked.deleted, **hooked.added}:
            kept = None if name in hooked.deleted else effective.get(name)
            actual = hooked.added.get(name, kept)
            after = None if actual == prepared.changes.added.get(name) else encode_hooked(actual)
            before = self._values.pop(name, None)
            if after is not None:
                self._values[name] = after
            if before != after:
                entries.append(EntryChange(HOOKED_KIND, name, before, after))
        return entries


def encode_hooked(workload: RenderedWorkload | None) -> Form:
    """An empty value means that the hooks removed the workload."""
    if workload is None:
        return {}
    return {"agent": workload.instance_name.agent, "id": workload.instance_name.id, "form": workload.form}


def with_previous(changes: WorkloadChanges, previous: Mapping[str, JsonValue]) -> WorkloadChanges:
    """The changes with workloads as agents had them before, where that is known."""
    faults: list[str] = []
    known = {name: value for name, value in previous.items() if name in changes.added}
    return WorkloadChanges(_with_hooked(changes.added, known, faults), changes.deleted)


class RestoredState(Struct, frozen=True):
    """`faults` are texts about entries that cannot be used."""

    update: PreparedUpdate
    tags: dict[str, Form]
    hooked: dict[str, JsonValue]
    placements: dict[str, Form]
    rollouts: dict[str, Form]
    faults: list[str]


def restored_state(entries: Mapping[EntryKey, JsonValue]) -> RestoredState:
    """The state was accepted before, so it is read but not checked again: a later version may have stricter checks."""
    faults: list[str] = []
    sections: dict[str, Form] = {section: {} for section in SECTION_OF_KIND.values()}
    others: dict[str, Form] = {AGENT_TAGS_KIND: {}, HOOKED_KIND: {}, PLACEMENT_KIND: {}, ROLLOUT_KIND: {}}
    for key, value in entries.items():
        if section := SECTION_OF_KIND.get(key.kind):
            try:
                sections[section][key.name] = SECTIONS[section].read_at(value, f"{section}.{key.name}")
            except Rejected as fault:
                faults.append(f"{key.kind} '{key.name}': {fault}")
        elif key.kind in others:
            others[key.kind][key.name] = value
    desired = DesiredChange(
        str(entries.get(API_VERSION_KEY, API_VERSION)),
        sections["workloads"],
        sections["configs"],
        sections["deviceConfigurations"],
    )
    rendered = _render(desired, faults)
    added = _with_hooked(rendered, others[HOOKED_KIND], faults)
    update = PreparedUpdate(desired, rendered, WorkloadChanges(added))
    return RestoredState(
        update,
        others[AGENT_TAGS_KIND],
        others[HOOKED_KIND],
        others[PLACEMENT_KIND],
        others[ROLLOUT_KIND],
        faults,
    )


def _render(desired: DesiredChange, faults: list[str]) -> dict[str, RenderedWorkload]:
    rendered: dict[str, RenderedWorkload] = {}
    for name in sorted(desired.workloads):
        form = desired.workloads[name]
        assert form is not None
        try:
            rendered[name] = render_workload(name, form, lambda key: desired.configs.get(key, MISSING))
        except Rejected as fault:
            faults.append(f"workload '{name}': {fault}")
    instances = {name: it for workload in rendered.values() for name, it in replica_instances(workload, {}).items()}
    return {**instances, **rendered}


def _with_hooked(
    rendered: Mapping[str, RenderedWorkload], hooked: Mapping[str, JsonValue], faults: list[str]
) -> dict[str, RenderedWorkload]:
    added = {name: workload for name, workload in rendered.items() if not is_replicated(workload.form)}
    for name, value in hooked.items():
        added.pop(name, None)
        if not value:
            continue
        try:
            form = SECTIONS["workloads"].read_at(value["form"], name)
            added[name] = RenderedWorkload(InstanceName(name, str(value["id"]), str(value["agent"])), form)
        except (Rejected, KeyError, TypeError) as fault:
            faults.append(f"workload '{name}' as changed by mutating hooks: {fault}")
    return added
