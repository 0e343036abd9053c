"""The startup manifest: from a YAML file to the state with which the server begins.

Input: a path. Output: the desired state in plain form, or `StartupFailed` with the failed step and the position of the
fault. Names, templates and dependencies are checked later, like those of every update.
"""

import logging
from pathlib import Path
from typing import Any

from ankaios.common.errors import Rejected, StartupFailed
from ankaios.common.model.state import API_VERSION, DEPRECATED_API_VERSION, STATE
from ankaios.common.state_manipulation import Form
from ankaios.common.yaml_text import MAX_YAML_BYTES, load_yaml
from ankaios.server.core.scalar_spelling import as_written

_log = logging.getLogger(__name__)

READ_CONTEXT = "Could not read the startup config"
TAGS_CONTEXT = "Invalid tags format in startup manifest"
PARSE_CONTEXT = "Parsing start config failed with error"


def load_startup_state(path: Path) -> Form:
    text = _read(path)
    try:
        return parse_startup_manifest(text)
    except StartupFailed as fault:
        import shlex  # not needed for a valid manifest

        advice = f"to see where: ank validate {shlex.quote(str(path))}"
        raise StartupFailed(fault.context, f"{fault.reason}; {advice}") from fault


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_YAML_BYTES + 1)
    except OSError as fault:
        raise StartupFailed(READ_CONTEXT, f"cannot read '{path}': {fault.strerror}") from fault


def parse_startup_manifest(text: bytes) -> Form:
    """[impl->swdd~stored-workload-spec-parses-yaml~1]
    [impl->swdd~stored-workload-spec-checks-unique-name~1]
    [impl->swdd~server-fails-on-invalid-startup-state~1]
    """
    try:
        manifest = load_yaml(text, "the startup manifest")
        if isinstance(manifest, dict):
            manifest = as_written(manifest, text.decode())
            if isinstance(manifest.get("workloads"), dict):
                manifest = _with_checked_tags(manifest)
        return STATE.read(manifest)
    except Rejected as fault:
        raise StartupFailed(PARSE_CONTEXT, str(fault)) from fault


def _with_checked_tags(manifest: Form) -> Form:
    """Tags are a map since `v1`; before, they were a list of keys and values."""
    match manifest.get("apiVersion"):
        case "v1":
            for name, tags in _tags(manifest):
                if not isinstance(tags, dict):
                    raise _wrong_tags(name, API_VERSION, "a mapping")
        case "v0.1":
            _log.warning(
                "The manifest API version '%s' is deprecated and support will be removed in future releases. "
                "Please update to the latest API version '%s'.",
                DEPRECATED_API_VERSION,
                API_VERSION,
            )
            return _with_tag_maps(manifest)
    return manifest


def _tags(manifest: Form) -> list[tuple[Any, Any]]:
    return [
        (name, workload["tags"])
        for name, workload in manifest["workloads"].items()
        if isinstance(workload, dict) and workload.get("tags") is not None
    ]


def _wrong_tags(name: Any, version: str, expected: str) -> StartupFailed:
    return StartupFailed(TAGS_CONTEXT, f"workload '{name}': in API version '{version}' tags must be {expected}")


def _with_tag_maps(manifest: Form) -> Form:
    workloads = dict(manifest["workloads"])
    for name, tags in _tags(manifest):
        if not isinstance(tags, list):
            raise _wrong_tags(name, DEPRECATED_API_VERSION, "a sequence of keys and values")
        workloads[name] = {**workloads[name], "tags": _tag_map(tags, name)}
    return {**manifest, "workloads": workloads}


def _tag_map(tags: list[Any], name: Any) -> Form:
    pairs: Form = {}
    for tag in tags:
        if not isinstance(tag, dict) or not isinstance(tag.get("key"), str) or "value" not in tag:
            raise _wrong_tags(name, DEPRECATED_API_VERSION, "a sequence of keys and values")
        pairs[tag["key"]] = tag["value"]
    return pairs
