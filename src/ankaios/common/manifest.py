"""Manifests: from text to the change of the desired state that they ask for.

In comes YAML text written by people; out goes `ManifestChange` (what is to be set, and the update masks), or `Rejected`
saying what is wrong and where. Pure but for reading our own schema. Owns the manifest formats `v1` and `v0.1`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from ankaios.common.errors import Rejected
from ankaios.common.json_schema import Validator
from ankaios.common.names import CHARACTERS_TEXT, has_allowed_characters
from ankaios.common.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ankaios.common.json_schema import Violation

    Form = dict[str, Any]

API_VERSION = "v1"
DEPRECATED_API_VERSION = "v0.1"
_SCHEMA_FILE = os.path.join(os.path.dirname(__file__), "manifest.schema.json")  # noqa: PTH118, PTH120
DEPRECATED_WARNING = (
    f"The manifest API version '{DEPRECATED_API_VERSION}' is deprecated and support will be removed in future "
    f"releases. Please update to the latest API version '{API_VERSION}'."
)
SECTIONS = ("workloads", "configs", "deviceConfigurations")
"""The maps whose entries a manifest names; an applied entry replaces the one of the same name as a whole."""

_FILE_FIELDS = ("mountPoint", "data", "binaryData")
_RESOURCE_FIELDS = ("name", "quantity", "container")


def _is_name(text: str) -> bool:
    return bool(text) and has_allowed_characters(text)


_SHORTCUTS = {
    "^v1$": API_VERSION.__eq__,
    "^[a-zA-Z0-9_-]+$": _is_name,
    r"^(?:[a-zA-Z0-9_-]|\{\{[a-zA-Z0-9_-]+(?:\.[a-zA-Z0-9_-]+)*\}\})*$": has_allowed_characters,
}
"""How to tell without regular expressions that a text of a usual manifest matches a pattern of the schema."""


class ManifestChange(Struct, frozen=True):
    """`desired_state` has the form of the state; `masks` are sorted and name every entry."""

    desired_state: Form
    masks: tuple[str, ...]


def schema_text() -> str:
    with open(_SCHEMA_FILE, encoding="utf-8") as opened:  # noqa: PTH123
        return opened.read()


_validators: list[Validator] = []  # at most one, made when it is first needed


def violations(manifest: Any) -> list[Violation]:
    """Everything that the schema of `v1` manifests forbids, in the order of the schema."""
    if not _validators:
        # JSON is YAML, and that parser is there anyway.
        _validators.append(Validator(load_yaml(schema_text(), "the schema"), _SHORTCUTS))
    return _validators[0].violations(manifest)


def is_deprecated(manifest: Any) -> bool:
    return isinstance(manifest, dict) and manifest.get("apiVersion") == DEPRECATED_API_VERSION


def load_manifest(text: str | bytes, what: str) -> Form:
    """Parse and check one manifest. Whatever its `apiVersion` says, its form is that of `v1`."""
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
    """YAML knows numbers as keys, paths do not."""
    for section in SECTIONS:
        for name in manifest.get(section) or {}:
            if not isinstance(name, str):
                raise Rejected(f"The provided path does not exist! '{section}.{name}': put the name in quotes.")


def _from_deprecated(manifest: Form) -> Form:
    """Tags were a list of keys and values, and no schema was checked. Device configurations came later."""
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
    for key in ("files", "resources"):
        entries = workload.get(key, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise Rejected(f"Invalid manifest data provided: '{key}' of workload '{name}' must be a list of maps")
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
    """Merge checked manifests into one change. `agent`, if given, overwrites that of every workload."""
    desired: Form = {"apiVersion": API_VERSION}
    masks = []
    for manifest in manifests:
        for section in SECTIONS:
            for name, entry in (manifest.get(section) or {}).items():
                entries = desired.setdefault(section, {})
                if name in entries:
                    raise Rejected(f"Multiple workloads with the same name '{name}' found!")
                entries[name] = _completed(section, entry, agent, need_agent)
                masks.append(f"desiredState.{section}.{name}")
    return ManifestChange(desired, tuple(sorted(masks)))


def _completed(section: str, entry: Any, agent: str | None, need_agent: bool) -> Any:
    if section == "workloads":
        return _with_agent(entry, agent, need_agent)
    if section == "deviceConfigurations" and "broker" in entry:
        broker = entry["broker"]
        return entry | {"broker": broker | {"workload": _normalized(broker["workload"])}}
    return entry


def _with_agent(workload: Form, agent: str | None, need_agent: bool) -> Form:
    workload = _normalized(workload)
    if agent is not None:
        return workload | {"agent": agent}
    if "agent" in workload:
        return workload
    if "placement" in workload:
        return workload | {"agent": ""}  # the server finds one
    if need_agent:
        raise Rejected("No agent name specified -> use '--agent' option to specify!")
    return workload


def _normalized(workload: Form) -> Form:
    """Unknown keys are allowed and mean nothing; a resource without quantity is one."""
    changed: Form = {}
    if "files" in workload:
        changed["files"] = [_only(_FILE_FIELDS, file) for file in workload["files"]]
    if "resources" in workload:
        changed["resources"] = [{"quantity": 1} | _only(_RESOURCE_FIELDS, one) for one in workload["resources"]]
    return workload | changed


def _only(fields: tuple[str, ...], entry: Form) -> Form:
    return {name: value for name, value in entry.items() if name in fields}
