"""The page about manifests: the JSON schema as tables, one for each kind of object, and what each runtime reads.

The keys of runtimeConfig are the fields of the classes that read it; only what they mean is written here.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ankaios.common.manifest import schema_text
from ankaios.common.names import MAX_NAME_LENGTH
from ankaios.runtimes.container_config import ContainerConfig
from ankaios.runtimes.kube_workload import KubeConfig
from ankaios.runtimes.native_order import NativeConfig
from tools.reference.markdown import code, fence, heading, link, page_of, plain, sentence, table, words

Schema = Mapping[str, Any]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/templated-config/manifest.yaml"
SCHEMA: Schema = json.loads(schema_text())
NAMES = ("name", "deviceConfigurationName")
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
            "limits": "Limits of resources by name, such as `openFiles: 1024` or `addressSpace: 64Mi`.",
        },
    ),
}


def page() -> str:
    return page_of(
        "Manifest",
        "src/ankaios/common/manifest.schema.json",
        f"{plain(SCHEMA['description'])} `ank schema` prints the schema for editors, `ank validate` checks manifests "
        "against it and against everything else that can be known without a server.",
        fence("yaml", EXAMPLE.read_text(encoding="utf-8")),
        "JSON is YAML, too. What a template may say is told in [Configs and files](../tutorials/configs-and-files.md).",
        *_sections(),
        *_names(),
        *_runtime_configs(),
    )


# --- objects of the schema --------------------------------------------------------------------------------------------


def _sections() -> Iterator[str]:
    """Objects, each followed by those it is made of, each once."""
    waiting: list[tuple[str, str, Schema]] = [("Top level", "top-level", SCHEMA)]
    met = {"top-level"}
    while waiting:
        title, anchor, schema = waiting.pop(0)
        yield heading(2, title, anchor)
        yield from _object(schema, anchor)
        new = {name: inner for name, inner in _nested(schema, anchor) if name not in met}
        met |= new.keys()
        waiting = [(words(name.replace("-", ": ")).capitalize(), name, inner) for name, inner in new.items()] + waiting


def _object(schema: Schema, anchor: str) -> Iterator[str]:
    if schema.get("description") and anchor != "top-level":
        yield plain(schema["description"])
    if "properties" not in schema:
        return
    yield _properties(schema, anchor)
    for part in schema.get("allOf", ()):
        ((key, wanted),) = part["if"]["properties"].items()
        yield f"With `{key}: {wanted['const']}` also:"
        yield _properties(part["then"], anchor)


def _properties(schema: Schema, anchor: str) -> str:
    required = schema.get("required", ())
    rows = [
        (code(name), _type(name, inner, anchor), "**yes**" if name in required else "", _meaning(inner))
        for name, inner in schema["properties"].items()
    ]
    return table(("key", "value", "required", "meaning"), rows)


def _meaning(schema: Schema) -> str:
    text = plain(schema.get("description", ""))
    if "default" in schema:
        text += f" Default: {code(str(schema['default']))}."
    return text


def _nested(schema: Schema, anchor: str) -> Iterator[tuple[str, Schema]]:
    """The objects that values of this one are made of, with their anchors."""
    parts = [*schema.get("properties", {}).items()]
    for conditional in schema.get("allOf", ()):
        parts += conditional["then"]["properties"].items()
    for name, inner in parts:
        for used in (inner, inner.get("items", {}), inner.get("additionalProperties", {})):
            target, place = _target(name, used, anchor)
            if place:
                yield place, target


def _target(name: str, schema: Schema, anchor: str) -> tuple[Schema, str]:
    """What the schema is in full, and the anchor of its section; without anchor it has none."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        target: Schema = SCHEMA["definitions"][name]
        return target, name if "properties" in target or name == "configItem" else ""
    if "properties" in schema:
        return schema, name if anchor == "top-level" else f"{anchor}-{name}"
    return schema, ""


def _type(name: str, schema: Schema, anchor: str) -> str:
    target, place = _target(name, schema, anchor)
    if place:
        return link(words(place.rpartition("-")[2]), place)
    if schema.get("$ref", "").rpartition("/")[2] in NAMES:
        return link("name", "names")
    if "enum" in target:
        return " or ".join(map(code, target["enum"]))
    kinds = target.get("type", "")
    if "array" in kinds:
        return f"list of {_plural(_type(name, target['items'], anchor))}"
    if "object" in kinds:
        inner = _type(name, target["additionalProperties"], anchor)
        return f"map to {inner}" if " or " in inner else f"map of {_plural(inner)}"
    least = target.get("minimum")
    return f"{kinds}, {least} or more" if least is not None else str(kinds)


def _plural(text: str) -> str:
    if text.startswith("["):
        return text.replace("]", "s]", 1)
    return text if " or " in text else f"{text}s"


# --- names and runtimes -----------------------------------------------------------------------------------------------


def _names() -> Iterator[str]:
    longest = SCHEMA["definitions"]["deviceConfigurationName"]["maxLength"]
    yield heading(2, "Names", "names")
    yield (
        "Names of workloads, configuration items, aliases and device configurations, and the keys of all maps, are "
        "made of the characters `a-z`, `A-Z`, `0-9`, `_` and `-`. A name has at most "
        f"{MAX_NAME_LENGTH} characters, that of a device configuration at most {longest}."
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
        yield table(("key", "value", "required", "meaning"), rows)


def _python_type(text: str) -> str:
    if "tuple[tuple" in text or "Mapping" in text:
        return "map"
    return "list of strings" if "tuple" in text else "string"
