"""Reads and extends the Kubernetes manifests of podman-kube workloads. Pure.

Input: the text of a manifest, and mounts, devices and variables for one of its containers. Output: the extended text.
Podman reads YAML 1.1, but this module reads YAML 1.2. Therefore values are quoted in the output such that podman reads
each value with its original meaning.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Rejected
from ankaios.common.yaml_text import check_depth
from ankaios.runtimes.container_config import CONTROL_INTERFACE_TARGET
from ankaios.runtimes.runtime_connector import Unsupported

CONTROL_INTERFACE_VOLUME = "control-interface-volume"
_POD_SPEC = {"Pod": ("spec",), "Deployment": ("spec", "template", "spec")}
_POD_SUFFIX = {"Pod": "", "Deployment": "-pod"}
_MERGE_KEY = "<<"
_NOT_FINITE = {"Infinity": ".inf", "-Infinity": "-.inf", "NaN": ".nan"}
_WITHOUT_PODS = {"ConfigMap", "Secret", "PersistentVolumeClaim", "Service"}

# Words that are strings in YAML 1.2 but booleans, numbers or dates in YAML 1.1.
_AMBIGUOUS = re.compile(
    r"(?:[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"
    r"|[-+]?0[0-7_]+|[-+]?0b[01_]+|[-+]?[0-9][0-9_]*|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
    r"|[-+]?[0-9][0-9_]*\.[0-9_]*|\d{4}-\d\d?-\d\d?)"
)


class Target(Struct, frozen=True):
    pod: str
    container: str

    @classmethod
    def parse(cls, text: str | None) -> "Target":
        if text is None:
            raise Unsupported("Control interface target not specified in runtime config.")
        pod, slash, container = text.partition("/")
        if not slash or not pod or not container or "/" in container:
            raise Unsupported(
                f"Invalid control interface target format: '{text}'. Expected format: '<pod_name>/<container_name>'"
            )
        return cls(pod, container)


def load_documents(manifest: str) -> list[Any]:
    """Parse the documents of a manifest, without empty ones."""
    import ryaml

    try:
        check_depth(manifest, "the manifest")
        return [_merged(document) for document in ryaml.loads_all(manifest) or [] if document is not None]
    except Rejected as fault:
        raise Unsupported(str(fault)) from fault
    except ValueError as fault:
        raise Unsupported(f"cannot read the manifest: {fault}") from fault


def _merged(value: Any) -> Any:
    """Apply the merge keys of YAML 1.1, as podman does: a list of the anchor would be lost if an item were added."""
    if isinstance(value, list):
        return [_merged(item) for item in value]
    if not isinstance(value, dict):
        return value
    merged = {key: _merged(item) for key, item in value.items()}
    sources = merged.pop(_MERGE_KEY, [])
    for source in sources if isinstance(sources, list) else [sources]:
        if not isinstance(source, dict):
            raise Unsupported(f"cannot read the manifest: '{_MERGE_KEY}' requires a mapping or a list of mappings")
        merged = {**source, **merged}
    return merged


def add_control_interface(manifest: str, target: Target, folder: Path) -> str:
    """Mount the folder into the target container of the first pod with the target's name, and into no other."""
    documents = load_documents(manifest)
    place = _control_interface_place(documents, target)
    _add_volume(place, CONTROL_INTERFACE_VOLUME, _Volume(str(folder), CONTROL_INTERFACE_TARGET, kind="Directory"))
    return dump_documents(documents, manifest)


class _Place(Struct, frozen=True):
    document: dict[str, Any]
    pod_spec: dict[str, Any]
    container: dict[str, Any]


class _Volume(Struct, frozen=True):
    host_path: str
    container_path: str
    read_only: bool = False
    kind: str | None = None


def _add_volume(place: _Place, name: str, volume: _Volume) -> None:
    source = {"path": volume.host_path} | ({"type": volume.kind} if volume.kind else {})
    mount = {"name": name, "mountPath": volume.container_path} | ({"readOnly": True} if volume.read_only else {})
    _extend(place.pod_spec, "volumes", {"name": name, "hostPath": source})
    _extend(place.container, "volumeMounts", mount)


def _control_interface_place(documents: list[Any], target: Target) -> _Place:
    for document in documents:
        if pod_name(document) == target.pod:
            pod_spec = _mapping_at(document, *_POD_SPEC[document["kind"]])
            for container in _containers(pod_spec):
                if container.get("name") == target.container:
                    return _Place(document, pod_spec, container)
            raise Unsupported(f"Cannot add Control Interface. Target container '{target.container}' not found.")
    raise Unsupported(f"Cannot add Control Interface. Target pod not found '{target.pod}'")


def _containers(pod_spec: dict[str, Any]) -> list[dict[str, Any]]:
    containers = pod_spec.get("containers")
    if not isinstance(containers, list):
        raise Unsupported("cannot read the manifest: expected a list at 'spec.containers'")
    return [container for container in containers if isinstance(container, dict)]


def _value_at(document: Any, *path: str) -> Any:
    found = document
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _mapping_at(document: Any, *path: str) -> dict[str, Any]:
    found = _value_at(document, *path)
    if not isinstance(found, dict):
        raise Unsupported(f"cannot read the manifest: expected a mapping at '{'.'.join(path)}'")
    return found


def _text_at(document: Any, *path: str) -> str:
    found = _value_at(document, *path)
    if not isinstance(found, str):
        raise Unsupported(f"cannot read the manifest: each document needs a text at '{'.'.join(path)}'")
    return found


def _extend(owner: dict[str, Any], key: str, item: dict[str, Any]) -> None:
    items = owner.get(key)
    if items is None:
        items = owner[key] = []
    if not isinstance(items, list):
        raise Unsupported(f"cannot read the manifest: expected a list at '{key}'")
    items.append(item)


# -- devices


def add_grants(manifest: str, grants: Iterable[DeviceGrant], block_devices: frozenset[str] = frozenset()) -> str:
    """Add each grant to the container of its request, named `<pod>/<container>` or `<container>`.

    Without a name, the manifest must have exactly one container. `block_devices` are the host paths of block devices.
    """
    documents = load_documents(manifest)
    for number, grant in enumerate(grants):
        place = _grant_target(documents, grant.container)
        for index, volume in enumerate(_grant_volumes(grant, block_devices)):
            _add_volume(place, f"device-{number}-{index}", volume)
        for key, value in grant.envs.items():
            _extend(place.container, "env", {"name": key, "value": value})
        for key, value in grant.annotations.items():
            _annotations(place.document)[key] = value
    return dump_documents(documents, manifest)


def _grant_volumes(grant: DeviceGrant, block_devices: frozenset[str]) -> list[_Volume]:
    """Podman adds a device to a container if its node is mounted as a host path of a device type."""
    if grant.cdi_devices:
        raise Unsupported(f"Cannot add devices. podman-kube has no CDI devices, such as '{grant.cdi_devices[0]}'.")
    volumes = [_Volume(mount.host_path, mount.container_path, mount.read_only) for mount in grant.mounts]
    for node in grant.devices:
        kind = "BlockDevice" if node.host_path in block_devices else "CharDevice"
        volumes.append(_Volume(node.host_path, node.container_path, kind=kind))
    return volumes


def _grant_target(documents: list[Any], wanted: str | None) -> _Place:
    pod, _, name = (wanted or "").rpartition("/")
    found = [
        _Place(document, pod_spec, container)
        for document, pod_spec in _pod_specs(documents)
        if not pod or pod_name(document) == pod
        for container in _containers(pod_spec)
        if not name or container.get("name") == name
    ]
    if len(found) != 1:
        which = f"container '{wanted}'" if wanted else "container, as the device request names none"
        raise Unsupported(f"Cannot add devices. Expected exactly one {which}, found {len(found)}.")
    return found[0]


def _pod_specs(documents: list[Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [
        (document, _mapping_at(document, *_POD_SPEC[document["kind"]]))
        for document in documents
        if isinstance(document, dict) and isinstance(kind := document.get("kind"), str) and kind in _POD_SPEC
    ]


def pod_name(document: Any) -> str | None:
    """Return the name of the pod of this document in targets; None: the document has no pod."""
    kind, name = _text_at(document, "kind"), _text_at(document, "metadata", "name")
    return name + _POD_SUFFIX[kind] if kind in _POD_SPEC else None


def _annotations(document: Any) -> dict[str, Any]:
    owner = document if document["kind"] == "Pod" else _mapping_at(document, "spec", "template")
    metadata = owner.setdefault("metadata", {})
    if not isinstance(metadata, dict) or not isinstance(metadata.setdefault("annotations", {}), dict):
        raise Unsupported("cannot read the manifest: expected a mapping at 'metadata.annotations'")
    annotations: dict[str, Any] = metadata["annotations"]
    return annotations


# -- queries


def exits_are_final(manifest: str) -> bool:
    """Return whether podman does not restart ended containers: the restart policy of all pods is `Never`."""
    try:
        documents = load_documents(manifest)
        specs = [spec for _, spec in _pod_specs(documents)]
        others = {_text_at(document, "kind") for document in documents} - _POD_SPEC.keys() - _WITHOUT_PODS
    except Unsupported:
        return False
    return bool(specs) and not others and all(spec.get("restartPolicy") == "Never" for spec in specs)


def is_pod_of(name: str, manifest: str) -> bool:
    """Return whether podman gives this name to a pod of the manifest. Podman can add a number for a Deployment."""
    try:
        wanted = {pod_name(document) for document, _ in _pod_specs(load_documents(manifest))}
    except Unsupported:
        return False
    return name in wanted or re.sub(r"-\d+$", "", name) in wanted


# -- writing


def dump_documents(documents: list[Any], original: str) -> str:
    """Write the documents in flow style.

    All strings are quoted except words that the original has without quotes and that YAML 1.1 reads as another type.
    """
    bare = _bare_words(original)
    return "---\n".join(_flow(document, bare) + "\n" for document in documents)


def _bare_words(text: str) -> set[str]:
    """Return the ambiguous words that the manifest contains only without quotes."""
    words = set(re.findall(r"[-+0-9A-Za-z_.:]+", text))
    ambiguous = {word for word in words if _AMBIGUOUS.fullmatch(word)}
    return {word for word in ambiguous if f'"{word}"' not in text and f"'{word}'" not in text}


def _flow(value: Any, bare: set[str]) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{_flow(key, set())}: {_flow(item, bare)}" for key, item in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flow(item, bare) for item in value)}]"
    if isinstance(value, str) and value in bare:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_FINITE.get(text, text)
