"""Converts manifests to changes of the desired state.

Input: YAML text. Output: `ManifestChange` (the values to set, and the update masks), or `Rejected` with the fault and
its place. Owns the manifest formats `v1` and `v0.1`; the fields are declared in `model.state`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ankaios.common.errors import Rejected
from ankaios.common.model.state import API_VERSION, DEPRECATED_API_VERSION, SECTIONS, STATE
from ankaios.common.names import CHARACTERS_TEXT, has_allowed_characters
from ankaios.common.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ankaios.common.model.values import Form, Violation

DEPRECATED_WARNING = (
    f"The manifest API version '{DEPRECATED_API_VERSION}' is deprecated and support will be removed in future "
    f"releases. Please update to the latest API version '{API_VERSION}'."
)


class ManifestChange(Struct, frozen=True):
    """`desired_state` is a plain form; `masks` are sorted and name every entry."""

    desired_state: Form
    masks: tuple[str, ...]


def violations(manifest: Any) -> list[Violation]:
    """Return all violations of the schema of `v1` manifests, in the order of the schema."""
    return list(STATE.violations(manifest, ""))


def is_deprecated(manifest: Any) -> bool:
    return isinstance(manifest, dict) and manifest.get("apiVersion") == DEPRECATED_API_VERSION


def load_manifest(text: str | bytes, what: str) -> Form:
    """Parse and check one manifest. The result has the format of `v1`, also for a manifest of `v0.1`."""
    try:
        manifest = load_yaml(text, what)
    except Rejected as fault:
        raise Rejected(f"Invalid manifest data provided: {fault}") from fault
    checked = _from_deprecated(manifest) if is_deprecated(manifest) else _checked_by_schema(manifest)
    for key in _keys(checked):
        _check_key(key, what)
    return checked


def _checked_by_schema(manifest: Any) -> Form:
    if found := violations(manifest):
        raise _schema_violated(found)
    checked: Form = manifest
    _check_entry_names(checked)
    return checked


def _schema_violated(found: Iterable[Violation]) -> Rejected:
    listed = "\n".join(f"'{pointer}': {reason}" for pointer, reason in found)
    return Rejected(f"Manifest schema validation failed:\n{listed}")


def _check_entry_names(manifest: Form) -> None:
    """Reject names that are not text: keys of YAML can be numbers, but parts of paths are text."""
    for section in SECTIONS:
        for name in manifest.get(section) or {}:
            if not isinstance(name, str):
                raise Rejected(f"The provided path does not exist! '{section}.{name}': put the name in quotes.")


def _from_deprecated(manifest: Form) -> Form:
    """Convert `v0.1`: tags are a list of keys and values, and only device configurations are checked by the schema."""
    for section in SECTIONS:
        if not isinstance(manifest.get(section) or {}, dict):
            raise Rejected(f"Invalid manifest data provided: '{section}' must be a map")
    devices = {"apiVersion": API_VERSION, "deviceConfigurations": manifest.get("deviceConfigurations")}
    if found := violations(devices):
        raise _schema_violated(found)
    _check_entry_names(manifest)
    workloads = manifest.get("workloads") or {}
    return manifest | {"workloads": {name: _workload_from_deprecated(name, w) for name, w in workloads.items()}}


def _workload_from_deprecated(name: str, workload: Any) -> Form:
    if not isinstance(workload, dict):
        raise Rejected(f"Invalid manifest data provided: workload '{name}' must be a map")
    if "tags" not in workload:
        return workload
    tags = workload["tags"]
    if not isinstance(tags, list) or not all(_is_deprecated_tag(tag) for tag in tags):
        raise Rejected(
            f"Invalid tags of workload '{name}': with apiVersion '{DEPRECATED_API_VERSION}' tags must be a list of "
            "entries with 'key' and 'value'"
        )
    return workload | {"tags": {tag["key"]: tag["value"] for tag in tags}}


def _is_deprecated_tag(tag: Any) -> bool:
    return isinstance(tag, dict) and isinstance(tag.get("key"), str) and isinstance(tag.get("value"), str)


def _keys(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def _check_key(key: Any, what: str) -> None:
    if not isinstance(key, str):
        raise Rejected(
            f"Invalid manifest data provided: {what}: the mapping key '{key}' must be text, put it in quotes"
        )
    if not has_allowed_characters(key):
        raise Rejected(f"Invalid mapping key '{key}': {CHARACTERS_TEXT}")


def change_of(manifests: Iterable[Form], agent: str | None = None, *, need_agent: bool = True) -> ManifestChange:
    """Merge checked manifests into one change. `agent`, if given, replaces the agent of every workload."""
    desired: Form = {"apiVersion": API_VERSION}
    masks = []
    for manifest in manifests:
        for section in SECTIONS:
            for name, entry in (manifest.get(section) or {}).items():
                entries = desired.setdefault(section, {})
                if name in entries:
                    raise Rejected(f"Multiple workloads with the same name '{name}' found!")
                entries[name] = _with_agent(entry, agent, need_agent) if section == "workloads" else entry
                masks.append(f"desiredState.{section}.{name}")
    return ManifestChange(desired, tuple(sorted(masks)))


def _with_agent(workload: Form, agent: str | None, need_agent: bool) -> Form:
    if agent is not None:
        return workload | {"agent": agent}
    if "agent" in workload:
        return workload
    if "placement" in workload:
        return workload | {"agent": ""}  # the server chooses one
    if need_agent:
        raise Rejected("No agent name specified -> use '--agent' option to specify!")
    return workload
