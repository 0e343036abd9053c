"""Decides where the agent creates the cgroups of native workloads.

Input: the mounts and the cgroups of the agent process as the kernel lists them, and the limits of a workload. Output: a
plan of plain values for `cgroups.py`. The cgroups are created below the topmost cgroup in which the agent may
write: the root cgroup for root, the delegated cgroup for other users. This way workloads do not share the cgroup of the
agent's service (docs/adr/0031).
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

OWN_FOLDER = "ankaios"
# One of these is sufficient to find and kill all processes of a workload.
_V1_FOR_PROCESSES = ("freezer", "pids", "memory", "name=systemd")
_LIMIT_FILES: Mapping[tuple[str, int], tuple[str, ...]] = {
    ("memory", 1): ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    ("memory", 2): ("memory.max",),
    ("pids", 1): ("pids.max",),
    ("pids", 2): ("pids.max",),
}


class CgroupHierarchy(Struct, frozen=True):
    """`parent` is the cgroup below which the agent creates cgroups."""

    version: int
    controllers: frozenset[str]
    parent: str


def find_hierarchies(
    mounts: str, own_cgroups: str, is_writable: Callable[[str], bool], controllers_of: Callable[[str], frozenset[str]]
) -> list[CgroupHierarchy]:
    """`mounts` and `own_cgroups` are the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`."""
    found = []
    for version, names, mount_root, mount_point in _mounts(mounts):
        own = _own_path(own_cgroups, version, names)
        if own is None:
            continue
        for parent in _ancestors(mount_point, own, mount_root):
            if is_writable(parent):
                controllers = names if version == 1 else controllers_of(parent)
                found.append(CgroupHierarchy(version, controllers, parent))
                break
    return found


def _mounts(text: str) -> Iterator[tuple[int, frozenset[str], str, str]]:
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, types = before.split(), after.split()
        if len(fields) < 5 or len(types) < 3 or not types[0].startswith("cgroup"):
            continue
        version = 2 if types[0] == "cgroup2" else 1
        options = frozenset() if version == 2 else frozenset(types[2].split(",")) - {"rw", "ro"}
        yield version, options, fields[3], fields[4]


def _own_path(text: str, version: int, names: frozenset[str]) -> str | None:
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (version == 2 and not controllers) or (version == 1 and set(controllers.split(",")) & names):
            return path
    return None


def _ancestors(mount_point: str, own: str, mount_root: str) -> Iterator[str]:
    """Yield all cgroups from the mount point down to the cgroup of the agent."""
    below = own.removeprefix(mount_root.rstrip("/")) if own.startswith(mount_root) else ""
    place = mount_point
    yield place
    for part in below.split("/"):
        if part == "..":
            return
        if part:
            place = f"{place}/{part}"
            yield place


def plan_cgroups(hierarchies: list[CgroupHierarchy], name: str, limits: Mapping[str, int]) -> dict[str, Any]:
    """Return the plan.

    `processes` is the cgroup by which the workload is killed, `folders` are all cgroups of the workload, `controllers`
    have to be enabled in the parent cgroups, and `limits` are written to files. No hierarchy supports the limits in
    `unsupported`.
    """
    tracking = _for_processes(hierarchies)
    processes = _folder(tracking, name) if tracking else None
    folders = [processes] if processes else []
    plan: dict[str, Any] = {"controllers": [], "limits": [], "unsupported": []}
    for limit, value in limits.items():
        having = [each for each in hierarchies if limit in each.controllers]
        if not having:
            plan["unsupported"].append(limit)
            continue
        chosen = having[0]
        folder = _folder(chosen, name)
        if folder not in folders:
            folders.append(folder)
        if chosen.version == 2:
            plan["controllers"].append((chosen.parent, limit))
            plan["controllers"].append((f"{chosen.parent}/{OWN_FOLDER}", limit))
        files = _LIMIT_FILES[limit, chosen.version]
        plan["limits"].append((limit, [f"{folder}/{file}" for file in files], value))
    return {**plan, "processes": processes, "folders": folders}


def _folder(hierarchy: CgroupHierarchy, name: str) -> str:
    return f"{hierarchy.parent}/{OWN_FOLDER}/{name}"


def _for_processes(hierarchies: list[CgroupHierarchy]) -> CgroupHierarchy | None:
    for hierarchy in hierarchies:
        if hierarchy.version == 2:
            return hierarchy
    for controller in _V1_FOR_PROCESSES:
        for hierarchy in hierarchies:
            if controller in hierarchy.controllers:
                return hierarchy
    return None


def hierarchies_of_this_machine() -> list[CgroupHierarchy]:
    try:
        mounts, own = Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    except OSError:
        return []
    return find_hierarchies(mounts, own, _is_writable, _controllers)


def _is_writable(folder: str) -> bool:
    return os.access(folder, os.W_OK | os.X_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)


def _controllers(folder: str) -> frozenset[str]:
    try:
        return frozenset(Path(folder, "cgroup.controllers").read_text().split())
    except OSError:
        return frozenset()
