"""From an update request to the entries of the desired state that would change. Nothing is changed here.

Input: the stored desired state, the new state and the update masks. Output: a `DesiredChange` with the entries that
differ, already read strictly; or `UpdateRejected`. The cost depends on the masks, not on the size of the state.

[impl->swdd~server-provides-update-desired-state-interface~1]
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from ankaios.common.errors import Rejected
from ankaios.common.model.kind import Kind
from ankaios.common.model.state import COMPLETE_STATE, DEPRECATED_API_VERSION, EMPTY_STATE, SECTIONS, WORKLOAD
from ankaios.common.model.values import Malformed
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_manipulation import (
    MISSING,
    FieldNotFound,
    Form,
    Path,
    copy_form,
    get_value,
    parse_path,
    remove_value,
    set_value,
)
from ankaios.server.core.update_rejected import UnreadableState, UpdateRejected

_log = logging.getLogger(__name__)


class DesiredChange(Struct, frozen=True):
    """Entries that differ, by name; None is a removed entry."""

    api_version: str
    workloads: dict[str, Form | None] = field(default_factory=dict)
    configs: dict[str, Any] = field(default_factory=dict)
    device_configurations: dict[str, Form | None] = field(default_factory=dict)
    agent_tags: dict[str, dict[str, str]] = field(default_factory=dict)

    def sections(self) -> dict[str, dict[str, Any]]:
        """The entries by the map of the desired state that contains them."""
        return {
            "workloads": self.workloads,
            "configs": self.configs,
            "deviceConfigurations": self.device_configurations,
        }


def change_by_request(desired: Form, request: base.UpdateStateRequest) -> DesiredChange:
    """The change that the request describes."""
    if not request.HasField("newState"):
        raise UnreadableState("Missing field 'new_state'")
    try:
        if request.updateMask:
            change = _change_by_masks(desired, COMPLETE_STATE.to_form(request.newState), request.updateMask)
        else:
            _check_presence(request.newState)
            change = change_by_replacement(desired, COMPLETE_STATE.to_form(request.newState))
    except Malformed as fault:
        raise UnreadableState(fault.reason) from fault
    except FieldNotFound as fault:
        raise UpdateRejected(str(fault)) from fault
    except UpdateRejected:
        raise
    except Rejected as fault:
        raise UnreadableState(str(fault)) from fault
    if change.api_version == DEPRECATED_API_VERSION != desired["apiVersion"]:
        _log.warning("The state is updated to the deprecated API version '%s'.", DEPRECATED_API_VERSION)
    return change


def change_by_replacement(desired: Form, new_state: Form) -> DesiredChange:
    """The new desired state replaces the stored one.

    [impl->swdd~update-desired-state-empty-update-mask~1]
    """
    draft = _Draft(desired)
    draft.replace(new_state["desiredState"])
    draft.set(("agents",), new_state.get("agents", {}))
    return draft.change()


def change_by_addition(desired: Form, new_state: Form) -> DesiredChange:
    """The entries of the new desired state are added or replaced; all others stay."""
    draft = _Draft(desired)
    state = new_state["desiredState"]
    draft.set(("desiredState", "apiVersion"), state["apiVersion"])
    for section in SECTIONS:
        for name, value in state.get(section, {}).items():
            draft.set(("desiredState", section, name), value)
    return draft.change()


def _check_presence(new_state: base.CompleteState) -> None:
    """A replacement must be complete, so that no field is lost by mistake."""
    if not new_state.HasField("desiredState"):
        raise UnreadableState("Missing field 'desired_state'")
    if not new_state.desiredState.HasField("workloads"):
        raise UnreadableState("Missing field 'workloads'")
    for workload in new_state.desiredState.workloads.workloads.values():
        for name in WORKLOAD.required:
            if not workload.HasField(name):
                raise UnreadableState(f"Missing field '{_snake_case(name)}'")
    if not all(agent.HasField("tags") for agent in new_state.agents.agents.values()):
        raise UnreadableState("Missing field 'tags'")


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _change_by_masks(desired: Form, new_state: Form, masks: Iterable[str]) -> DesiredChange:
    """Each field named by a mask is taken from the new state, or removed if it is not there.

    [impl->swdd~update-desired-state-with-update-mask~1]
    """
    draft = _Draft(desired)
    for mask in masks:
        path = parse_path(mask)
        if path is None:
            raise UpdateRejected(f"Could not find field {mask}")
        value = get_value(new_state, path)
        if value is MISSING:
            draft.remove(path)
        else:
            draft.set(path, value)
    return draft.change()


class _Collection:
    """The entries of one map of the desired state: those stored, and the changes to them."""

    def __init__(self, stored: Mapping[str, Any], kind: Kind) -> None:
        self._stored = stored
        self._base = stored
        self._kind = kind
        self._changes: dict[str, Any] = {}
        # Entries that are copies, made for this draft: many masks may change them one after the other.
        self._own: set[str] = set()

    def replace(self, entries: Mapping[str, Any]) -> None:
        self._base, self._changes, self._own = entries, {}, set()

    def set(self, path: Path, below: Path, value: Any) -> None:
        """`below` is the part of the path that begins with the name of the entry."""
        name = below[0]
        if len(below) > 1:
            _within(path, lambda: set_value(self._to_change(name, {}, path), below[1:], value))
            return
        self._changes[name] = value
        self._own.discard(name)

    def remove(self, path: Path, below: Path) -> None:
        name = below[0]
        if len(below) > 1:
            _within(path, lambda: remove_value(self._to_change(name, MISSING, path), below[1:]))
            return
        self._changes[name] = MISSING
        self._own.discard(name)

    def _entry(self, name: str) -> Any:
        return self._changes.get(name, self._base.get(name, MISSING))

    def _to_change(self, name: str, otherwise: Any, path: Path) -> Form:
        if name not in self._own:
            entry = self._entry(name)
            entry = copy_form(otherwise if entry is MISSING else entry)
            if not isinstance(entry, dict):
                raise FieldNotFound(path)
            # Fields that are not stored while they are empty exist nevertheless.
            self._changes[name] = {**self._kind.empty_parts(), **entry}
            self._own.add(name)
        changing: Form = self._changes[name]
        return changing

    def changes(self, path: str) -> dict[str, Any]:
        """The entries that differ from the stored ones."""
        names: Iterable[str] = self._changes
        if self._base is not self._stored:
            names = {**self._stored, **self._base, **self._changes}
        changed: dict[str, Any] = {}
        for name in names:
            value = self._entry(name)
            parsed = None if value is MISSING else self._kind.read_at(value, f"{path}.{name}")
            if parsed != self._stored.get(name):
                changed[name] = parsed
        return changed


def _within(path: Path, change: Callable[[], None]) -> None:
    """An error names the whole path, not just the part inside the entry."""
    try:
        change()
    except FieldNotFound as fault:
        raise FieldNotFound(path) from fault


class _Draft:
    """The desired state with the changes of one request."""

    def __init__(self, desired: Form) -> None:
        # Agents begin empty: only those that the new state names are changed.
        self._tree: Form = {"desiredState": {}, "agents": {}}
        self._api_version: Any = desired["apiVersion"]
        self._collections = {name: _Collection(desired.get(name, {}), kind) for name, kind in SECTIONS.items()}

    def replace(self, state: Form) -> None:
        self._api_version = state["apiVersion"]
        for name, collection in self._collections.items():
            collection.replace(state.get(name, {}))

    def set(self, path: Path, value: Any) -> None:
        match path:
            case ("desiredState",):
                self.replace(value)
            case ("desiredState", "apiVersion"):
                self._api_version = value
            case ("desiredState", name):
                self._collections[name].replace(value)
            case ("desiredState", name, *below):
                self._collections[name].set(path, tuple(below), value)
            case ("agents", _, "status" | "resources", *_):
                pass  # reported by agents
            case ("agents", *_):
                set_value(self._tree, path, value)

    def remove(self, path: Path) -> None:
        match path:
            case ("desiredState",):
                self.replace(EMPTY_STATE)
            case ("desiredState", "apiVersion"):
                self._api_version = MISSING
            case ("desiredState", name) if name in self._collections:
                self._collections[name].replace({})
            case ("desiredState", name, *below) if name in self._collections:
                self._collections[name].remove(path, tuple(below))
            case ("workloadStates" | "effectiveState" | "deviceInstances", *_):
                pass  # computed by the server
            case ("agents",):
                self._tree["agents"] = {}
            case _:
                remove_value(self._tree, path)

    def change(self) -> DesiredChange:
        if self._api_version is MISSING:
            raise Malformed("missing field `apiVersion`", "desiredState")
        changes = {name: entries.changes(name) for name, entries in self._collections.items()}
        return DesiredChange(
            api_version=self._api_version,
            workloads=changes["workloads"],
            configs=changes["configs"],
            device_configurations=changes["deviceConfigurations"],
            agent_tags={name: dict(agent.get("tags", {})) for name, agent in self._tree["agents"].items()},
        )
