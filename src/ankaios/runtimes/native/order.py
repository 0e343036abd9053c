"""Converts the runtimeConfig of `native` workloads into the order for the keeper process. Pure.

Input: the configuration and the prepared files, mounts and grants. Output: a dict of plain values for `shim.py`.
"""

import os
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from ankaios.runtimes.container_config import (
    CONTROL_INTERFACE_TARGET,
    config_mapping,
    optional_text,
    text_list,
    unreadable_config,
)
from ankaios.runtimes.native.exec import DEFAULT_PATH
from ankaios.runtimes.runtime_connector import Extras, Unsupported

LOG_SIZE = 8 * 1024 * 1024
ORPHAN_CHECK = 10_000  # milliseconds
INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
CONTROL_INTERFACE_VARIABLE = "ANKAIOS_CONTROL_INTERFACE"
FILES_VARIABLE = "ANKAIOS_FILES"

_LIMITS = {
    "addressSpace": "RLIMIT_AS",
    "coreSize": "RLIMIT_CORE",
    "cpuSeconds": "RLIMIT_CPU",
    "dataSize": "RLIMIT_DATA",
    "fileSize": "RLIMIT_FSIZE",
    "lockedMemory": "RLIMIT_MEMLOCK",
    "memory": "memory",
    "openFiles": "RLIMIT_NOFILE",
    "pids": "pids",
    "processes": "RLIMIT_NPROC",
    "stackSize": "RLIMIT_STACK",
}
"""Maps the key of a limit to the constant of a process limit or to the controller of a cgroup limit."""
_CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
"""The position of a name is the number of the capability in the kernel."""
MAX_LIMIT = 2**63 - 1
MAX_ID = 2**32 - 2  # 2**32 - 1 means "no change" in system calls
_SIZE = re.compile(r"([0-9]{1,19})([KMG]i?)?")
_FACTOR = {"K": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


class NativeConfig(Struct, frozen=True):
    """`capabilities` and `no_new_privileges` are None if the configuration does not contain them."""

    command: tuple[str, ...]
    working_dir: str
    env: Mapping[str, str]
    user: str | None
    limits: tuple[tuple[str, int], ...]
    capabilities: tuple[int, ...] | None = None
    no_new_privileges: bool | None = None

    @classmethod
    def parse(cls, text: str) -> "NativeConfig":
        config = config_mapping(text)
        command = text_list(config, "command")
        if not command or not command[0]:
            raise unreadable_config("command: expected a list with at least the program")
        if any("\0" in part for part in command):
            raise unreadable_config("command: a NUL character cannot be passed on")
        return cls(
            command=command,
            working_dir=_working_dir(optional_text(config, "workingDir") or "/"),
            env=_env(config),
            user=_user(optional_text(config, "user")),
            limits=tuple(_limit(key, size) for key, size in _mapping(config, "limits", "limits to numbers").items()),
            capabilities=_capabilities(config),
            no_new_privileges=_flag(config, "noNewPrivileges"),
        )


def _working_dir(path: str) -> str:
    if not path.startswith("/"):
        raise unreadable_config(f"workingDir: '{path}' is relative, expected absolute path")
    if "\0" in path:
        raise unreadable_config("workingDir: a NUL character cannot be part of a path")
    return path


def _user(text: str | None) -> str | None:
    """Check the form `<user>[:<group>]`. Whether the user exists is checked when the workload starts."""
    for part in (text or "").split(":", 1):
        fault = None
        if "\0" in part:
            fault = "a NUL character cannot be part of a name"
        elif is_id(part) and (len(part) > 10 or int(part) > MAX_ID):
            fault = f"'{part:.40}' is too large, the largest id is {MAX_ID}"
        elif part.isdigit() and not part.isascii():
            fault = f"'{part:.40}' is neither a name nor a number with the digits 0 to 9"
        if fault:
            raise unreadable_config(f"user: {fault}")
    return text


def is_id(text: str) -> bool:
    """Return whether the text is the number of a user or group, not a name."""
    return text.isascii() and text.isdigit()


def _mapping(config: dict[str, Any], key: str, content: str) -> dict[Any, Any]:
    """Return an empty mapping if absent."""
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise unreadable_config(f"{key}: expected a mapping of {content}")
    return value


def _env(config: dict[str, Any]) -> Mapping[str, str]:
    env = _mapping(config, "env", "names to values")
    for key, text in env.items():
        if not isinstance(key, str) or not key or "=" in key or "\0" in key:
            raise unreadable_config(f"env: '{key}' is no name of a variable")
        if not isinstance(text, str) or "\0" in text:
            raise unreadable_config(f"env.{key}: expected a string, write it in quotes")
    return env


def _limit(key: object, value: object) -> tuple[str, int]:
    if key not in _LIMITS:
        raise unreadable_config(f"limits: unknown limit '{key}', known: {', '.join(_LIMITS)}")
    found = _SIZE.fullmatch(str(value)) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
    size = int(found[1]) * _FACTOR.get(found[2], 1) if found else MAX_LIMIT + 1
    if size > MAX_LIMIT:
        raise unreadable_config(f"limits.{key}: expected a number such as 1024 or '64Mi', at most {MAX_LIMIT}")
    return _LIMITS[str(key)], size


def _capabilities(config: dict[str, Any]) -> tuple[int, ...] | None:
    """Return the numbers of the capabilities, which are given by name, with or without the prefix `CAP_`."""
    if config.get("capabilities") is None:
        return None
    names = [name.upper().removeprefix("CAP_") for name in text_list(config, "capabilities")]
    for name in names:
        if name not in _CAPABILITIES:
            raise unreadable_config(
                f"capabilities: '{name:.40}' is no capability, expected names such as NET_BIND_SERVICE"
            )
    return tuple(sorted({_CAPABILITIES.index(name) for name in names}))


def _flag(config: dict[str, Any], key: str) -> bool | None:
    value = config.get(key)
    if value is not None and not isinstance(value, bool):
        raise unreadable_config(f"{key}: expected true or false")
    return value


def cgroup_limits(config: NativeConfig) -> dict[str, int]:
    """Return the cgroup limits by controller."""
    return {name: value for name, value in config.limits if not name.startswith("RLIMIT_")}


class User(Struct, frozen=True):
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    name: str


NO_CGROUPS: Mapping[str, Any] = {"processes": None, "folders": [], "controllers": [], "limits": [], "unsupported": []}


def make_order(
    config: NativeConfig,
    extras: Extras,
    folder: str,
    user: User | None,
    inherited: Mapping[str, str],
    cgroups: Mapping[str, Any] = NO_CGROUPS,
    token: str = "",
) -> dict[str, Any]:
    """`inherited` is the environment of the agent, of which only the variables `INHERITED` are passed on.

    `cgroups` is a plan of `cgroup_places.py`. A start continues only if its `token` is the one in the folder.
    """
    for name in (name for grant in extras.grants for name in grant.cdi_devices):
        raise Unsupported(f"Cannot add devices. The native runtime has no CDI devices, such as '{name}'.")
    env = {"PATH": DEFAULT_PATH} | {key: inherited[key] for key in INHERITED if key in inherited}
    if user:
        env |= {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
    env |= extras.environment
    for grant in extras.grants:
        env |= grant.envs
    env |= _places(extras)
    return {
        "folder": folder,
        "command": list(config.command),
        "env": {**env, **config.env},
        "env_without_mounts": _places_without_mounts(extras),
        "working_dir": config.working_dir,
        "user": (user.uid, user.gid, list(user.groups)) if user else None,
        "control_interface": str(extras.control_interface) if extras.control_interface else None,
        "files": _files_folder(extras),
        "limits": [(name, value) for name, value in config.limits if name.startswith("RLIMIT_")],
        "capabilities": _bounding_set(config, user),
        "no_new_privileges": _no_new_privileges(config, user),
        "cgroups": dict(cgroups),
        "token": token,
        "mounts": _mounts(extras),
        "log_size": LOG_SIZE,
        "orphan_check": ORPHAN_CHECK,
    }


def _bounding_set(config: NativeConfig, user: User | None) -> list[int] | None:
    """Return the permitted capabilities; None: all. By default root keeps all, and other users have none."""
    if config.capabilities is not None:
        return list(config.capabilities)
    return [] if user is not None and user.uid != 0 else None


def _no_new_privileges(config: NativeConfig, user: User | None) -> bool:
    """The default is true for all users except root, which has all privileges anyway."""
    uid = os.geteuid() if user is None else user.uid
    return uid != 0 if config.no_new_privileges is None else config.no_new_privileges


def _places(extras: Extras) -> dict[str, str]:
    """Return the variables with the paths of control interface and files in the mount namespace of the workload."""
    places = {CONTROL_INTERFACE_VARIABLE: CONTROL_INTERFACE_TARGET} if extras.control_interface else {}
    return places | ({FILES_VARIABLE: "/"} if extras.files else {})


def _places_without_mounts(extras: Extras) -> dict[str, str]:
    places = {CONTROL_INTERFACE_VARIABLE: str(extras.control_interface)} if extras.control_interface else {}
    if folder := _files_folder(extras):
        places[FILES_VARIABLE] = folder
    return places


def _files_folder(extras: Extras) -> str | None:
    """Return the folder below which the files of the workload have the paths of their mount points."""
    for host, target in extras.files.items():
        parts = PurePosixPath(target).parts[1:]
        if host.parts[-len(parts) :] == parts:
            return str(host.parents[len(parts) - 1])
    return None


def _mounts(extras: Extras) -> list[tuple[str, str, bool]]:
    mounts = [(str(extras.control_interface), CONTROL_INTERFACE_TARGET, False)] if extras.control_interface else []
    mounts += [(str(host), target, True) for host, target in extras.files.items()]
    for grant in extras.grants:
        for mount in grant.mounts:
            if mount.host_path != mount.container_path or mount.read_only:
                mounts.append((mount.host_path, mount.container_path, mount.read_only))
        for node in grant.devices:
            if node.host_path != node.container_path:
                mounts.append((node.host_path, node.container_path, False))
    return mounts
