"""Checks a rendered workload as its runtime would: runtimeConfig, files, and targets in pods.

The configuration classes of the runtimes read the runtimeConfig.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from ankaios.agent.workload_files import content_of, relative_mount_point
from ankaios.cli.validation.findings import HINT, Form, Path, Problem, path_of, problems_of
from ankaios.cli.validation.unknown_keys import check_key
from ankaios.cli.validation.yaml_positions import find_positions
from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Rejected
from ankaios.common.suggestions import suggestion
from ankaios.common.workload import File
from ankaios.common.yaml_text import load_yaml
from ankaios.runtimes.container_config import ContainerConfig
from ankaios.runtimes.native.order import NativeConfig
from ankaios.runtimes.podman.kube_manifest import Target, add_control_interface, add_grants, load_documents
from ankaios.runtimes.podman.kube_workload import KubeConfig
from ankaios.runtimes.registry import RUNTIME_NAMES

_PREFIX = "cannot read the runtimeConfig: "
_CONFIG_PATH: Path = ("runtimeConfig",)
_INNER_PATH = re.compile(r"([A-Za-z]+(?:\.\w+|\[\d+\])*): ")
_LINE = re.compile(r"at line (\d+)")
_UNDERSCORE = re.compile(r"_([a-z])")
_CONFIG_CLASSES: Mapping[str, Any] = {
    "podman": ContainerConfig,
    "containerd": ContainerConfig,
    "podman-kube": KubeConfig,
    "native": NativeConfig,
}
"""The fields of a class are the known keys of the runtimeConfig, in snake case."""


def check_runtime_name(form: Form) -> Iterator[Problem]:
    """The name of the runtime is never a template, so it is checked before rendering."""
    runtime = form["runtime"]
    if runtime not in RUNTIME_NAMES:
        hint = suggestion(runtime, RUNTIME_NAMES, f"; known: {', '.join(RUNTIME_NAMES)}")
        yield Problem(("runtime",), f"unknown runtime '{runtime}'{hint}")


def check_runtime(form: Form) -> Iterator[Problem]:
    """`form` is a rendered workload. An unknown runtime has no further problems."""
    runtime = form["runtime"]
    if runtime not in RUNTIME_NAMES:
        return
    yield from _check_config(form["runtimeConfig"], _CONFIG_CLASSES[runtime])
    if runtime == "native":
        yield from _check_native_user(form["runtimeConfig"])
    if runtime == "podman-kube":
        yield from _check_pods(form)
    else:
        yield from _check_files(form.get("files", ()))


# --- runtimeConfig ----------------------------------------------------------------------------------------------------


def _check_config(text: str, config_class: Any) -> Iterator[Problem]:
    try:
        config_class.parse(text)
    except Rejected as error:
        reason = str(error).removeprefix(_PREFIX)
        yield Problem(_CONFIG_PATH, reason, text_line=_error_line(text, reason))
    yield from _check_config_keys(text, config_class)


def _error_line(text: str, reason: str) -> int:
    inner_path, line = _INNER_PATH.match(reason), _LINE.search(reason)
    if line and not inner_path:
        return int(line[1])
    return find_positions(text).line([str(part) for part in path_of(inner_path[1])] if inner_path else ())


def _check_config_keys(text: str, config_class: Any) -> Iterator[Problem]:
    try:
        config = load_yaml(text, "")
    except Rejected:
        return
    known = [_UNDERSCORE.sub(lambda found: found[1].upper(), name) for name in config_class.__struct_fields__]
    for key in config if isinstance(config, dict) else ():
        for problem in check_key((), key, known):
            yield problem._replace(path=_CONFIG_PATH, text_line=find_positions(text).line([str(key)]))


# --- native -----------------------------------------------------------------------------------------------------------


def _check_native_user(text: str) -> Iterator[Problem]:
    try:
        config = NativeConfig.parse(text)
    except Rejected:
        return
    if config.user is None:
        why = "runs as the user of the agent, usually root; set 'user' to run it with fewer rights"
        yield Problem(_CONFIG_PATH, why, HINT, text_line=1)


# --- pods -------------------------------------------------------------------------------------------------------------


def _check_pods(form: Form) -> Iterator[Problem]:
    if "files" in form:
        text = "Workload files are not supported for podman-kube runtime. Use ConfigMaps instead."
        yield Problem(("files",), text)
    try:
        config = KubeConfig.parse(form["runtimeConfig"])
    except Rejected:
        return
    try:
        documents = load_documents(config.manifest)
    except Rejected as error:
        yield Problem(_CONFIG_PATH, f"manifest: {error}")
        return
    if documents and all(isinstance(document, dict) and document.get("kind") for document in documents):
        yield from _check_pod_targets(form, config)
    else:
        yield Problem(_CONFIG_PATH, "manifest: expected Kubernetes documents, each with a 'kind'")


def _check_pod_targets(form: Form, config: KubeConfig) -> Iterator[Problem]:
    """The containers that get the control interface and the devices must exist."""
    if form.get("controlInterfaceAccess", {}).get("allowRules"):
        yield from problems_of(_CONFIG_PATH, _check_control_interface_target, config)
    for index, request in enumerate(form.get("resources", ())):
        grants = [DeviceGrant(container=request.get("container"))]
        yield from problems_of(("resources", index), add_grants, config.manifest, grants)


def _check_control_interface_target(config: KubeConfig) -> None:
    add_control_interface(config.manifest, Target.parse(config.control_interface_target), FilePath("/"))


# --- files ------------------------------------------------------------------------------------------------------------


def _check_files(files: list[Form]) -> Iterator[Problem]:
    for index, given in enumerate(files):
        file = File(given["mountPoint"], given.get("data"), given.get("binaryData"))
        yield from problems_of(("files", index, "mountPoint"), relative_mount_point, file.mount_point)
        yield from problems_of(("files", index, "binaryData"), content_of, file)
