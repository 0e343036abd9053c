"""Which workloads can be updated with the new instance first: two instances have to be able to run at the same time.

Input: a rendered workload and the device configurations. Output: `UnsuitableStrategy` with what they would both need.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ankaios.common.errors import Rejected
from ankaios.common.model.state import DEVICE_CONFIGURATION
from ankaios.common.state_manipulation import Form
from ankaios.common.workload import DEFAULT_RESOURCE_PREFIX
from ankaios.common.yaml_text import load_yaml
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.update_rejected import UnsuitableStrategy

_NAME_OPTIONS = ("--name",)
_PORT_OPTIONS = ("-p", "--publish")


def check_update_strategy(workload: RenderedWorkload, device_configurations: Mapping[str, Any]) -> None:
    """Raises `UnsuitableStrategy`."""
    if not workload.form.get("updateStrategy", {}).get("startNewFirst"):
        return
    for reason in _obstacles(workload.form, device_configurations):
        name = workload.instance_name.workload
        raise UnsuitableStrategy(f"workload '{name}' cannot have the updateStrategy startNewFirst: {reason}")


def _obstacles(form: Form, device_configurations: Mapping[str, Any]) -> Iterator[str]:
    for request in form.get("resources", ()):
        resource = request["name"]
        configuration = device_configurations.get(resource.removeprefix(DEFAULT_RESOURCE_PREFIX))
        if configuration is None or DEVICE_CONFIGURATION.value_in(configuration, "capacity") <= 1:
            yield f"its devices '{resource}' can be used by one instance only"
    if form["runtime"] == "podman-kube":
        yield "the pods of both instances would have the same names"
    if form["runtime"] in ("podman", "containerd"):
        yield from _container_obstacles(form["runtimeConfig"])


def _container_obstacles(runtime_config: str) -> Iterator[str]:
    """Agents report a runtimeConfig that cannot be read; it is not an obstacle here."""
    try:
        config = load_yaml(runtime_config, "the runtimeConfig")
    except Rejected:
        return
    options = config.get("commandOptions") if isinstance(config, dict) else None
    for option, value in _option_values(options if isinstance(options, list) else []):
        if option in _NAME_OPTIONS:
            yield f"both containers would have the name '{value}'"
        if option in _PORT_OPTIONS and (port := _host_port(value)):
            yield f"both containers would use port {port} of the node"


def _option_values(options: list[Any]) -> Iterator[tuple[str, str]]:
    """Options with their values, written as one word or as two."""
    words = [str(option) for option in options]
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif word.startswith("-p") and len(word) > 2 and not word.startswith("--"):
            yield "-p", word[2:]
        else:
            yield word, following


def _host_port(mapping: str) -> str:
    """The port of the node in `[[ip:]host:]container[/protocol]`; empty if podman chooses one."""
    parts = mapping.rpartition("]")[2].split(":")
    return parts[-2] if len(parts) >= 2 and parts[-2] else ""
