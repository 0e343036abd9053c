"""The runtimeConfig of `native` workloads, and the order to the process that keeps them. Pure.

In come the configuration and what the agent prepared; out goes a dict of plain values for `native_shim.py`.
"""

import os
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from ankaios.runtimes.container_config import CONTROL_INTERFACE_TARGET, config_mapping, optional_text, text_list
from ankaios.runtimes.runtime_connector import Extras, Unsupported

LOG_SIZE = 8 * 1024 * 1024
ORPHAN_CHECK = 10_000  # milliseconds
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
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
"""Limits of a process have the names of its constants, limits of a cgroup those of its controllers."""
_CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
"""In the order of the kernel, from number 0."""
MAX_LIMIT = 2**63 - 1
MAX_ID = 2**32 - 2  # the one above means "no change" to the kernel
_SIZE = re.compile(r"([0-9]{1,19})([KMG]i?)?")
_FACTOR = {"K": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


class NativeConfig(Struct, frozen=True):
    """`capabilities` and `no_new_privileges`: None if nothing is said about them."""

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
            raise Unsupported("cannot read the runtimeConfig: command: expected a list with at least the program")
        if any("\0" in part for part in command):
            raise Unsupported("cannot read the runtimeConfig: command: a NUL character cannot be passed on")
        return cls(
            command=command,
            working_dir=_working_dir(optional_text(config, "workingDir") or "/"),
            env=_env(config.get("env")),
            user=_user(optional_text(config, "user")),
            limits=_limits(config.get("limits")),
            capabilities=_capabilities(config),
            no_new_privileges=_flag(config, "noNewPrivileges"),
        )


def _working_dir(path: str) -> str:
    if not path.startswith("/"):
        raise Unsupported(f"cannot read the runtimeConfig: workingDir: '{path}' is relative, expected absolute path")
    if "\0" in path:
        raise Unsupported("cannot read the runtimeConfig: workingDir: a NUL character cannot be part of a path")
    return path


def _user(text: str | None) -> str | None:
    """`<user>[:<group>]`; whether there is such a user is known when the workload starts."""
    for part in (text or "").split(":", 1):
        fault = None
        if "\0" in part:
            fault = "a NUL character cannot be part of a name"
        elif is_id(part) and (len(part) > 10 or int(part) > MAX_ID):
            fault = f"'{part:.40}' is too large, the largest id is {MAX_ID}"
        elif part.isdigit() and not part.isascii():
            fault = f"'{part:.40}' is neither a name nor a number of the digits 0 to 9"
        if fault:
            raise Unsupported(f"cannot read the runtimeConfig: user: {fault}")
    return text


def is_id(text: str) -> bool:
    """A user or group by its number, not by its name."""
    return text.isascii() and text.isdigit()


def _env(value: object) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Unsupported("cannot read the runtimeConfig: env: expected a mapping of names to values")
    for key, text in value.items():
        if not isinstance(key, str) or not key or "=" in key or "\0" in key:
            raise Unsupported(f"cannot read the runtimeConfig: env: '{key}' is no name of a variable")
        if not isinstance(text, str) or "\0" in text:
            raise Unsupported(f"cannot read the runtimeConfig: env.{key}: expected a string, write it in quotes")
    return value


def _limits(value: object) -> tuple[tuple[str, int], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise Unsupported("cannot read the runtimeConfig: limits: expected a mapping of limits to numbers")
    return tuple(_limit(key, number) for key, number in value.items())


def _limit(key: object, value: object) -> tuple[str, int]:
    if key not in _LIMITS:
        raise Unsupported(f"cannot read the runtimeConfig: limits: unknown limit '{key}', known: {', '.join(_LIMITS)}")
    found = _SIZE.fullmatch(str(value)) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
    size = int(found[1]) * _FACTOR.get(found[2], 1) if found else MAX_LIMIT + 1
    if size > MAX_LIMIT:
        expected = f"expected a number such as 1024 or '64Mi', at most {MAX_LIMIT}"
        raise Unsupported(f"cannot read the runtimeConfig: limits.{key}: {expected}")
    return _LIMITS[str(key)], size


def _capabilities(config: dict[str, Any]) -> tuple[int, ...] | None:
    """By name, with or without the prefix of the kernel."""
    if config.get("capabilities") is None:
        return None
    names = [name.upper().removeprefix("CAP_") for name in text_list(config, "capabilities")]
    for name in names:
        if name not in _CAPABILITIES:
            why = f"'{name:.40}' is no capability, expected names such as NET_BIND_SERVICE"
            raise Unsupported(f"cannot read the runtimeConfig: capabilities: {why}")
    return tuple(sorted({_CAPABILITIES.index(name) for name in names}))


def _flag(config: dict[str, Any], key: str) -> bool | None:
    value = config.get(key)
    if value is not None and not isinstance(value, bool):
        raise Unsupported(f"cannot read the runtimeConfig: {key}: expected true or false")
    return value


def cgroup_limits(config: NativeConfig) -> dict[str, int]:
    """By controller."""
    return {name: value for name, value in config.limits if not name.startswith("RLIMIT_")}


class User(Struct, frozen=True):
    """As the system knows it."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    name: str


NO_CGROUPS: Mapping[str, Any] = {"processes": None, "folders": [], "controllers": [], "limits": []}


def make_order(
    config: NativeConfig,
    extras: Extras,
    folder: str,
    user: User | None,
    inherited: Mapping[str, str],
    cgroups: Mapping[str, Any] = NO_CGROUPS,
    token: str = "",
) -> dict[str, Any]:
    """`inherited` is the agent's own environment, of which little is passed on.

    `cgroups` is a plan of `cgroup_places.py`; only the last start with a `token` in its folder may go on.
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
        "unset_limits": [],
        "token": token,
        "mounts": _mounts(extras),
        "log_size": LOG_SIZE,
        "orphan_check": ORPHAN_CHECK,
    }


def _bounding_set(config: NativeConfig, user: User | None) -> list[int] | None:
    """Another user than root needs no capabilities unless they are named; root keeps all of them. None: all."""
    if config.capabilities is not None:
        return list(config.capabilities)
    return [] if user is not None and user.uid != 0 else None


def _no_new_privileges(config: NativeConfig, user: User | None) -> bool:
    """Root has all privileges already."""
    uid = os.geteuid() if user is None else user.uid
    return uid != 0 if config.no_new_privileges is None else config.no_new_privileges


def _places(extras: Extras) -> dict[str, str]:
    """Where the workload finds what the agent prepared, in its own view of the file system."""
    places = {CONTROL_INTERFACE_VARIABLE: CONTROL_INTERFACE_TARGET} if extras.control_interface else {}
    return places | ({FILES_VARIABLE: "/"} if extras.files else {})


def _places_without_mounts(extras: Extras) -> dict[str, str]:
    places = {CONTROL_INTERFACE_VARIABLE: str(extras.control_interface)} if extras.control_interface else {}
    if folder := _files_folder(extras):
        places[FILES_VARIABLE] = folder
    return places


def _files_folder(extras: Extras) -> str | None:
    """In which each file of the workload has the path of its mount point."""
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
