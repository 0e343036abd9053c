"""What the runtime would say of a rendered workload: its runtimeConfig, its files, and what it asks for beside them.

The readers of the runtimes themselves are asked; they are loaded only for runtimes that occur.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from ankaios.agent.workload_files import FilesFailed, content_of, relative_mount_point
from ankaios.cli.suggestions import nearest
from ankaios.cli.validation.findings import Complaint, Form, Path, path_of
from ankaios.cli.validation.locate import locate
from ankaios.cli.validation.spelling import unknown_key
from ankaios.common.errors import Rejected
from ankaios.common.workload import File
from ankaios.common.yaml_text import load_yaml
from ankaios.runtimes.registry import RUNTIME_NAMES

_PREFIX = "cannot read the runtimeConfig: "
_WHERE = re.compile(r"([A-Za-z]+(?:\.\w+|\[\d+\])*): ")
_LINE = re.compile(r"at line (\d+)")
_CAPITAL = re.compile(r"_([a-z])")


def unknown_runtime(form: Form) -> Iterator[Complaint]:
    """Known before anything is rendered: the name is never a template."""
    runtime = form["runtime"]
    if runtime not in RUNTIME_NAMES:
        guess = nearest(runtime, RUNTIME_NAMES)
        hint = f", did you mean '{guess}'?" if guess else f", there are {', '.join(RUNTIME_NAMES)}"
        yield Complaint(("runtime",), f"unknown runtime '{runtime}'{hint}")


def runtime_faults(form: Form) -> Iterator[Complaint]:
    """`form` is a rendered workload. An unknown runtime says nothing."""
    runtime = form["runtime"]
    if runtime not in RUNTIME_NAMES:
        return
    yield from _config_faults(form["runtimeConfig"], _READERS[runtime]())
    if runtime == "podman-kube":
        yield from _pod_faults(form)
    else:
        yield from _file_faults(form.get("files", ()))


# --- runtimeConfig ----------------------------------------------------------------------------------------------------


def _container_config() -> Any:
    from ankaios.runtimes.container_config import ContainerConfig

    return ContainerConfig


def _kube_config() -> Any:
    from ankaios.runtimes.kube_workload import KubeConfig

    return KubeConfig


def _native_config() -> Any:
    from ankaios.runtimes.native_order import NativeConfig

    return NativeConfig


_READERS: Mapping[str, Callable[[], Any]] = {
    "podman": _container_config,
    "containerd": _container_config,
    "podman-kube": _kube_config,
    "native": _native_config,
}
"""What reads the runtimeConfig: a data class whose fields are the known keys, in another spelling."""


def _config_faults(text: str, reader: Any) -> Iterator[Complaint]:
    try:
        reader.parse(text)
    except Rejected as fault:
        yield _config_fault(text, str(fault).removeprefix(_PREFIX))
    yield from _unknown_config_keys(text, reader)


def _config_fault(text: str, reason: str) -> Complaint:
    where, line = _WHERE.match(reason), _LINE.search(reason)
    if line and not where:
        return Complaint(("runtimeConfig",), reason, text_line=int(line[1]))
    inner = path_of(where[1]) if where else ()
    return Complaint(("runtimeConfig",), reason, text_line=locate(text).line([str(part) for part in inner]))


def _unknown_config_keys(text: str, reader: Any) -> Iterator[Complaint]:
    try:
        config = load_yaml(text, "")
    except Rejected:
        return
    known = [_CAPITAL.sub(lambda found: found[1].upper(), name) for name in reader.__struct_fields__]
    for key in config if isinstance(config, dict) else ():
        for found in unknown_key((), key, known):
            line = locate(text).line([str(key)])
            yield found._replace(path=("runtimeConfig",), text_line=line)


# --- pods -------------------------------------------------------------------------------------------------------------


def _pod_faults(form: Form) -> Iterator[Complaint]:
    from ankaios.runtimes.kube_manifest import load_documents
    from ankaios.runtimes.kube_workload import KubeConfig

    if "files" in form:
        text = "Workload files are not supported for podman-kube runtime. Use ConfigMaps instead."
        yield Complaint(("files",), text)
    try:
        config = KubeConfig.parse(form["runtimeConfig"])
    except Rejected:
        return
    path: Path = ("runtimeConfig",)
    try:
        documents = load_documents(config.manifest)
        if not documents or not all(isinstance(one, dict) and one.get("kind") for one in documents):
            yield Complaint(path, "manifest: expected Kubernetes documents, each with a 'kind'")
            return
    except Rejected as fault:
        yield Complaint(path, f"manifest: {fault}")
        return
    yield from _pod_target_faults(form, config)


def _pod_target_faults(form: Form, config: Any) -> Iterator[Complaint]:
    """Whether the containers are there that get the control interface and the devices."""
    from ankaios.common.device_grant import DeviceGrant
    from ankaios.runtimes.kube_manifest import Target, add_control_interface, add_grants

    if form.get("controlInterfaceAccess", {}).get("allowRules"):
        try:
            target = Target.parse(config.control_interface_target)
            add_control_interface(config.manifest, target, FilePath("/"))
        except Rejected as fault:
            yield Complaint(("runtimeConfig",), str(fault))
    for index, request in enumerate(form.get("resources", ())):
        try:
            add_grants(config.manifest, [DeviceGrant(container=request.get("container"))])
        except Rejected as fault:
            yield Complaint(("resources", index), str(fault))


# --- files ------------------------------------------------------------------------------------------------------------


def _file_faults(files: list[Form]) -> Iterator[Complaint]:
    for index, file in enumerate(files):
        checked = File(file["mountPoint"], file.get("data"), file.get("binaryData"))
        for key, check in (
            ("mountPoint", lambda one: relative_mount_point(one.mount_point)),
            ("binaryData", content_of),
        ):
            try:
                check(checked)
            except FilesFailed as fault:
                yield Complaint(("files", index, key), str(fault))
