"""The complete state as a plain form that follows the events of the server, and the entries of it for browsers.

Input: the first state and events of the server. Output: compact entries for browsers, and the names of those that an
event changes. Owns the form. No I/O.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from ankaios.common.errors import Rejected
from ankaios.common.execution_state import TRIGGERED_AT_RUNTIME
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_manipulation import MISSING, Form, Path, get_value, parse_path, remove_value, set_value

Entry = dict[str, Any]


class ChangedNames(Struct):
    """The names of the workloads, agents and devices that an event changes."""

    workloads: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)
    devices: set[str] = field(default_factory=set)

    def add(self, path: Path) -> None:
        match path:
            case ("workloadStates", _, workload, *_):
                self.workloads.add(workload)
            case ("desiredState" | "effectiveState", "workloads", workload, *_):
                self.workloads.add(workload)
            case ("agents", agent, *_):
                self.agents.add(agent)
            case ("deviceInstances", device, *_):
                self.devices.add(device)


class ClusterForm:
    def __init__(self, state: base.CompleteState) -> None:
        self.form: Form = COMPLETE_STATE.to_form(state)

    # --- events ---

    def names_changed_by(self, event: base.CompleteStateResponse) -> ChangedNames:
        """Call it before `apply`. A path above single entries changes all entries below it."""
        changed = COMPLETE_STATE.to_form(event.completeState)
        names = ChangedNames()
        altered = event.alteredFields
        for text in (*altered.addedFields, *altered.updatedFields, *altered.removedFields):
            if path := parse_path(text):
                names.add(path)
                for form in (changed, self.form):
                    for below in _entry_paths(get_value(form, path), path):
                        names.add(below)
        return names

    def apply(self, event: base.CompleteStateResponse) -> None:
        """Apply the event to the form."""
        changed = COMPLETE_STATE.to_form(event.completeState)
        altered = event.alteredFields
        for text in (*altered.addedFields, *altered.updatedFields):
            if path := parse_path(text):
                value = get_value(changed, path)
                set_value(self.form, path, {} if value is MISSING else value)
        for text in altered.removedFields:
            if path := parse_path(text):
                self._remove(path)

    def _remove(self, path: Path) -> None:
        try:
            remove_value(self.form, path)
        except Rejected:
            return  # the map above it is gone already

    # --- entries for browsers ---

    @property
    def _states(self) -> dict[str, dict[str, dict[str, Form]]]:
        states: dict[str, dict[str, dict[str, Form]]] = self.form.get("workloadStates", {})
        return states

    def workload_names(self) -> set[str]:
        names = set(self.form.get("desiredState", {}).get("workloads", {}))
        return names.union(*(workloads for workloads in self._states.values()))

    def workload(self, name: str) -> Entry | None:
        """None if it is neither desired nor has a state."""
        desired, rendered = self.definition(name)
        effective = rendered or desired or {}
        instances = [
            instance_entry(agent, instance_id, state)
            for agent, workloads in self._states.items()
            for instance_id, state in workloads.get(name, {}).items()
        ]
        if desired is None and not instances:
            return None
        return {
            "name": name,
            "desired": desired is not None,
            "agent": effective.get("agent", ""),
            "runtime": effective.get("runtime", ""),
            "restart": effective.get("restartPolicy", "NEVER"),
            "dependencies": effective.get("dependencies", {}),
            "tags": effective.get("tags", {}),
            "devices": [request.get("name", "") for request in effective.get("resources", [])],
            "checked": "health" in effective,
            "instances": sorted(instances, key=lambda one: (one["agent"], one["id"])),
        }

    def agent(self, name: str) -> Entry | None:
        attributes = self.form.get("agents", {}).get(name)
        if attributes is None:
            return None
        status = attributes.get("status", {})
        return {
            "name": name,
            "cpu": status.get("cpuUsage", 0),
            "free": status.get("freeMemory", 0),
            "tags": attributes.get("tags", {}),
            "resources": attributes.get("resources", []),
        }

    def device(self, name: str) -> Entry | None:
        instance = self.form.get("deviceInstances", {}).get(name)
        if instance is None:
            return None
        return {
            "name": name,
            "configuration": instance.get("configurationName", ""),
            "shared": instance.get("shared", False),
            "online": instance.get("attributes", {}).get("online", True),
            "nodes": instance.get("nodes", []),
            "capacity": instance.get("capacity", 0),
            "usage": instance.get("deviceUsage", {}),
            "owners": instance.get("slotOwners", {}),
            "properties": instance.get("brokerProperties", {}),
        }

    def definition(self, name: str) -> tuple[Form | None, Form | None]:
        """As written and as rendered."""
        desired = self.form.get("desiredState", {}).get("workloads", {}).get(name)
        return desired, self.form.get("effectiveState", {}).get("workloads", {}).get(name)

    def snapshot(self) -> Entry:
        return {
            "workloads": _present((name, self.workload(name)) for name in self.workload_names()),
            "agents": _present((name, self.agent(name)) for name in self.form.get("agents", {})),
            "devices": _present((name, self.device(name)) for name in self.form.get("deviceInstances", {})),
        }

    def patch(self, names: ChangedNames) -> Entry:
        """The entries of these names; None for a name that does not exist."""
        return {
            "workloads": {name: self.workload(name) for name in names.workloads},
            "agents": {name: self.agent(name) for name in names.agents},
            "devices": {name: self.device(name) for name in names.devices},
        }


def instance_entry(agent: str, instance_id: str, state: Form) -> Entry:
    return {
        "agent": agent,
        "id": instance_id,
        "state": state.get("state", "Unknown"),
        "sub": state.get("subState", ""),
        "info": info if (info := state.get("additionalInfo", "")) != TRIGGERED_AT_RUNTIME else "",
        "restarts": state.get("restarts", 0),
        "health": _health(state.get("health")),
    }


def _health(health: Form | None) -> Entry | None:
    """None if nothing is checked."""
    return None if health is None else {"status": health["status"].lower(), "text": health.get("text", "")}


def _present(entries: Iterable[tuple[str, Entry | None]]) -> Entry:
    return {name: entry for name, entry in entries if entry is not None}


def _entry_paths(value: Any, path: Path) -> Iterable[Path]:
    """The paths of single workloads, agents and devices below a path."""
    depth = {"workloadStates": 3, "desiredState": 3, "effectiveState": 3}.get(path[0], 2)
    if not isinstance(value, dict) or len(path) >= depth:
        return
    for key, below in value.items():
        yield (*path, key)
        yield from _entry_paths(below, (*path, key))
