"""Parses the output of podman: containers, pods and volumes. Pure.

Input: the text. Output: plain data. An invalid value affects only its container: an unreadable container is skipped, an
unreadable field gets a neutral default.
"""

import json
from typing import Any

from ankaios.runtimes.container_listing import Container, Listing, integer, text_labels
from ankaios.runtimes.podman.states import container_state
from ankaios.runtimes.runtime_connector import RuntimeFailed


def parse_listing(text: str) -> Listing:
    """Raises `RuntimeFailed` if the text is not a JSON array."""
    return Listing([container for entry in _parse_list(text, "containers") if (container := _container(entry))])


def _parse_list(text: str, what: str) -> list[Any]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise RuntimeFailed(f"cannot read the list of {what}: {fault}") from fault
    if entries is not None and not isinstance(entries, list):
        raise RuntimeFailed(f"cannot read the list of {what}: it is not a JSON array")
    return entries or []


def _container(entry: object) -> Container | None:
    if not isinstance(entry, dict):
        return None
    container_id = entry.get("Id")
    if not isinstance(container_id, str) or not container_id:
        return None
    exit_code = None if _was_interrupted(entry) else integer(entry.get("ExitCode"))
    return Container(
        id=container_id,
        state=container_state(_text(entry.get("State")), exit_code),
        pid=max(integer(entry.get("Pid")) or 0, 0),
        pod=_text(entry.get("Pod")),
        infra=entry.get("IsInfra") is True,
        labels=text_labels(entry.get("Labels")),
        names=tuple(name for name in _list(entry.get("Names")) if isinstance(name, str)),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _was_interrupted(entry: dict[str, Any]) -> bool:
    """Return whether it ran during a power loss: newer versions of podman report it as exited with code 0."""
    started, ended = entry.get("StartedAt"), entry.get("ExitedAt")
    return isinstance(started, int) and isinstance(ended, int) and ended < started


def parse_pods(text: str) -> list[str]:
    """Return the non-empty lines after each `Pod:` up to the next line that ends with a colon."""
    pods: list[str] = []
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.endswith(":"):
            inside = line == "Pod:"
        elif inside and line:
            pods.append(line)
    return pods


def parse_pod_names(text: str) -> dict[str, str]:
    found = {}
    for entry in _parse_list(text, "pods"):
        match entry:
            case {"Id": str(pod), "Name": str(name)}:
                found[pod] = name
    return found


def parse_volumes(text: str) -> dict[str, str | None]:
    """Return the data of each volume of a listing."""
    found: dict[str, str | None] = {}
    for entry in _parse_list(text, "volumes"):
        match entry:
            case {"Name": str(name), "Labels": {"data": str(data)}}:
                found[name] = decode_unpadded(data)
            case {"Name": str(name)}:
                found[name] = None
    return found


def decode_unpadded(data: str) -> str | None:
    """Decode base64 that must not have padding."""
    import base64

    if data.endswith("="):
        return None
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4), validate=True).decode()
    except ValueError:
        return None
