"""Converts the runtimeConfig of `podman` and `containerd` workloads into command lines. Pure.

Input: the text of the runtimeConfig. Output: the parsed configuration and the arguments of commands. Users and tools
rely on the order of arguments, the labels and the container name, so these must not change.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Rejected
from ankaios.common.workload import InstanceName
from ankaios.common.yaml_text import load_yaml
from ankaios.runtimes.runtime_connector import Extras, LogOptions, Unsupported, WorkloadId

CONTROL_INTERFACE_TARGET = "/run/ankaios/control_interface"
_KINDS = {type(None): "null", bool: "boolean", int: "number", float: "number", str: "string", list: "list"}


def unreadable_config(why: str) -> Unsupported:
    return Unsupported(f"cannot read the runtimeConfig: {why}")


def config_mapping(text: str) -> dict[str, Any]:
    """Parse the runtimeConfig as a mapping."""
    try:
        found = load_yaml(text, "the runtimeConfig")
    except Rejected as fault:
        raise Unsupported(str(fault)) from fault
    if not isinstance(found, dict):
        raise unreadable_config("expected a mapping of keys to values")
    return found


def required_text(config: dict[str, Any], key: str) -> str:
    if key not in config:
        raise unreadable_config(f"missing field `{key}`")
    return _text(config[key], key)


def optional_text(config: dict[str, Any], key: str) -> str | None:
    return None if config.get(key) is None else _text(config[key], key)


def text_list(config: dict[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of strings, empty if absent. Unquoted numbers are rejected: YAML does not keep their spelling."""
    items = config.get(key, [])
    if not isinstance(items, list):
        raise unreadable_config(f"{key}: expected a list of strings, found {_KINDS.get(type(items), 'mapping')}")
    return tuple(_text(item, f"{key}[{index}]") for index, item in enumerate(items))


def _text(value: object, where: str) -> str:
    if isinstance(value, str):
        return value
    shown = "" if value is None or isinstance(value, (dict, list)) else f" `{value}`; write it in quotes"
    raise unreadable_config(f"{where}: expected a string, found {_KINDS.get(type(value), 'mapping')}{shown}")


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "mapping")


class ContainerConfig(Struct, frozen=True):
    image: str
    general_options: tuple[str, ...] = ()
    command_options: tuple[str, ...] = ()
    command_args: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ContainerConfig":
        config = config_mapping(text)
        return cls(
            image=required_text(config, "image"),
            general_options=text_list(config, "generalOptions"),
            command_options=text_list(config, "commandOptions"),
            command_args=text_list(config, "commandArgs"),
        )


def is_restarted_by_runtime(runtime_config: str) -> bool:
    """Return whether the runtime restarts the container, so that its exit is not the end of the workload.

    False if the configuration is unknown, as that of a container that is about to be replaced.
    """
    if "--restart" not in runtime_config:  # a restarted agent reports states earlier if it need not load the parser
        return False
    try:
        options = ContainerConfig.parse(runtime_config).command_options
    except Unsupported:
        return False
    values = [option.partition("=")[2] for option in options if option.startswith("--restart=")]
    values += [options[at + 1] for at, option in enumerate(options[:-1]) if option == "--restart"]
    return bool(values) and values[-1] not in ("no", "")


def create_arguments(config: ContainerConfig, name: InstanceName, extras: Extras) -> list[str]:
    """Return the arguments that start the workload, in a new container or in the container to be reused.

    [impl->swdd~podman-workload-starts-container~1]
    """
    if extras.reuse:
        return [*config.general_options, "start", extras.reuse]
    return run_arguments(config, name, extras)


def run_arguments(config: ContainerConfig, name: InstanceName, extras: Extras) -> list[str]:
    """Return the arguments that create and start a container, and pull its image if needed.

    The options of the user follow the default name, so that a `--name` of the user takes precedence.
    [impl->swdd~podman-create-workload-runs-workload~1]
    [impl->swdd~podman-create-workload-creates-labels~1]
    [impl->swdd~podman-create-workload-sets-optionally-container-name~1]
    [impl->swdd~podman-workload-pulls-container~2]
    [impl->swdd~podman-workload-creates-container~1]
    """
    return [
        *config.general_options,
        *("run", "--detach", "--name", name.short),
        *config.command_options,
        *_mounts(extras),
        *_grant_options(extras.grants),
        f"--label=name={name}",
        f"--label=agent={name.agent}",
        config.image,
        *config.command_args,
    ]


def log_arguments(container: WorkloadId, options: LogOptions) -> list[str]:
    arguments = ["logs"]
    if options.follow:
        arguments.append("-f")
    if options.since is not None:
        arguments += ["--since", options.since]
    if options.until is not None:
        arguments += ["--until", options.until]
    if options.tail is not None:
        arguments += ["--tail", str(options.tail)]
    return [*arguments, container]


def _mounts(extras: Extras) -> list[str]:
    """[impl->swdd~podman-create-workload-mounts-fifo-files~1]
    [impl->swdd~podman-adapt-mount-interface-pipes-into-workload~2]
    """
    mounts = [_bind(extras.control_interface, CONTROL_INTERFACE_TARGET)] if extras.control_interface else []
    return mounts + [_bind(host, target) + ",readonly=true" for host, target in extras.files.items()]


def _bind(source: Path, target: str) -> str:
    return f"--mount=type=bind,source={source},destination={target}"


def _grant_options(grants: Iterable[DeviceGrant]) -> list[str]:
    options: list[str] = []
    for grant in grants:
        for key, value in grant.envs.items():
            options += ["--env", f"{key}={value}"]
        for mount in grant.mounts:
            options += ["--volume", _pair(mount.host_path, mount.container_path) + (":ro" if mount.read_only else "")]
        for node in grant.devices:
            options += ["--device", f"{_pair(node.host_path, node.container_path)}:{node.permissions}"]
        for key, value in grant.annotations.items():
            options += ["--annotation", f"{key}={value}"]
        for device in grant.cdi_devices:
            options += ["--device", device]
    return options


def _pair(host_path: str, container_path: str) -> str:
    """A path with a colon cannot be passed: the runtimes would split it."""
    for path in (host_path, container_path):
        if ":" in path:
            advice = "use a path without colon, such as the target of a symbolic link"
            raise Unsupported(f"Cannot add devices. The path '{path}' contains a colon, {advice}.")
    return f"{host_path}:{container_path}"
