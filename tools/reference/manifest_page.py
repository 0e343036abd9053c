"""The page about manifests: the declared fields as tables, one for each kind of object, and what each runtime reads.

The keys of runtimeConfig are the fields of the classes that read it; only their meaning is written here.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ankaios.common.model.schema import DESCRIPTION
from ankaios.common.model.state import STATE
from ankaios.common.names import MAX_DEVICE_CONFIGURATION_NAME_LENGTH, MAX_NAME_LENGTH
from ankaios.runtimes.container_config import ContainerConfig
from ankaios.runtimes.native.order import NativeConfig
from ankaios.runtimes.podman.kube_workload import KubeConfig
from tools.reference.markdown import code, fence, heading, page_of, plain, sentence, table
from tools.reference.object_tables import HEADER, sections

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/templated-config/manifest.yaml"
_UNDERSCORE = re.compile(r"_([a-z])")

RUNTIMES: Mapping[str, tuple[str, type[msgspec.Struct], Mapping[str, str]]] = {
    "podman": (
        "Containers. The same keys are read by the runtime `containerd`, which runs them with `nerdctl`.",
        ContainerConfig,
        {
            "image": "The image to run.",
            "generalOptions": "Options of `podman` itself, before the word `run`.",
            "commandOptions": 'Options of `podman run`, such as `["-p", "8080:80"]`.',
            "commandArgs": "The command inside the container and its arguments.",
        },
    ),
    "podman-kube": (
        "Kubernetes manifests, run with `podman kube play`.",
        KubeConfig,
        {
            "manifest": "Kubernetes YAML as text; several documents are allowed.",
            "generalOptions": "Options of `podman` itself.",
            "playOptions": "Options of `podman kube play`.",
            "downOptions": "Options of `podman kube down`.",
            "controlInterfaceTarget": "`<pod>/<container>` that gets the control interface.",
        },
    ),
    "native": (
        "Plain processes, without container or image.",
        NativeConfig,
        {
            "command": "The program and its arguments.",
            "workingDir": "Where it starts, an absolute path. By default `/`.",
            "env": "Environment variables by name. Values are strings.",
            "user": "Who runs it. By default the user of the agent.",
            "limits": (
                "Limits of resources by name, such as `openFiles: 1024`. `memory: 64Mi` and `pids: 100` limit all "
                "processes of the workload together and need cgroups; the state shows it if they cannot be set."
            ),
            "capabilities": (
                "The capabilities that it may have, such as `NET_BIND_SERVICE`. By default all for root, none for "
                "other users."
            ),
            "noNewPrivileges": (
                "Whether programs with more rights, such as `sudo`, gain none. By default `true` for other users than "
                "root."
            ),
        },
    ),
}


def page() -> str:
    return page_of(
        "Manifest",
        "src/ankaios/common/model/state.py",
        f"{plain(DESCRIPTION)} `ank schema` prints the schema for editors, `ank validate` checks manifests "
        "against it and against everything else that can be known without a server.",
        fence("yaml", EXAMPLE.read_text(encoding="utf-8")),
        "JSON is YAML, too. Templates are described in [Configs and files](../tutorials/configs-and-files.md).",
        *sections(STATE),
        *_names(),
        *_runtime_configs(),
    )


# --- names and runtimes -----------------------------------------------------------------------------------------------


def _names() -> Iterator[str]:
    yield heading(2, "Names", "names")
    yield (
        "Names of workloads, configuration items, aliases and device configurations, and the keys of all maps, are "
        "made of the characters `a-z`, `A-Z`, `0-9`, `_` and `-`. A name has at most "
        f"{MAX_NAME_LENGTH} characters, that of a device configuration at most {MAX_DEVICE_CONFIGURATION_NAME_LENGTH}."
    )


def _runtime_configs() -> Iterator[str]:
    yield heading(2, "runtimeConfig by runtime", "runtime-config")
    yield "`runtimeConfig` is text, which the runtime reads as YAML."
    for runtime, (text, reader, meanings) in RUNTIMES.items():
        yield heading(3, f"`{runtime}`", f"runtime-{runtime}")
        yield text
        rows = []
        for field in msgspec.structs.fields(reader):
            key = _UNDERSCORE.sub(lambda found: found[1].upper(), field.name)
            kind = _python_type(str(field.type))
            is_optional = not field.required or (runtime == "native" and field.name != "command")
            required = "" if is_optional else "**yes**"
            rows.append((code(key), kind, required, sentence(meanings[key])))
        yield table(HEADER, rows)


def _python_type(text: str) -> str:
    if "tuple[tuple" in text or "Mapping" in text:
        return "map"
    return "list of strings" if "tuple" in text else "string"
