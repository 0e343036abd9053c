"""Creates, joins, kills and removes the cgroups of a native workload. Part of its shim, so it imports few modules.

Input: the plan of `cgroup_places.py`. Output: cgroups below a folder that all workloads share. A process in such a
cgroup and its descendants cannot leave it, so all of them are killed with the workload.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

from ankaios.runtimes.native.descriptors import opened

TRIES = 20
PAUSE = 0.005
END_LIMIT = 5.0
SIGKILL = 9


def make_cgroups(plan: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the created cgroups, and the limits that could not be set, each with the reason."""
    made: list[str] = []
    for folder in plan["folders"]:
        try:
            make_cgroup(folder)
            made.append(folder)
        except OSError:
            continue
    enable_controllers(plan["controllers"])
    unset = list(plan["unsupported"])
    for limit, files, value in plan["limits"]:
        try:
            set_limit(files, value)
        except OSError as fault:
            unset.append(f"{limit} ({fault.strerror})")
    return made, unset


def make_cgroup(folder: str) -> None:
    for number in range(TRIES):
        try:
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(folder), 0o755)  # noqa: PTH102, PTH120 - pathlib costs memory here
            os.mkdir(folder, 0o755)  # noqa: PTH102
        except FileExistsError:
            return
        except FileNotFoundError:  # another workload removed the last cgroup and the shared folder
            if number + 1 == TRIES:
                raise
        else:
            return


def enable_controllers(controllers: list[tuple[str, str]]) -> None:
    for folder, name in controllers:
        with suppress(OSError):  # a failure shows when the limit is set
            write(f"{folder}/cgroup.subtree_control", f"+{name}")


def set_limit(files: list[str], value: int) -> None:
    """Write the limit to the first file. Further files make the limit stricter and are optional."""
    write(files[0], str(value))
    for file in files[1:]:
        with suppress(OSError):
            write(file, str(value))


def join_cgroups(folders: list[str]) -> None:
    for folder in folders:
        write(f"{folder}/cgroup.procs", "0")


def end_cgroup(folder: str) -> bool:
    """Kill all processes in the cgroup. Return whether it is empty then."""
    try:
        write(f"{folder}/cgroup.kill", "1")
    except OSError:
        kill_one_by_one(folder)
    until = time.monotonic() + END_LIMIT
    while processes_in(folder):
        if time.monotonic() > until:
            return False
        time.sleep(PAUSE)
        kill_one_by_one(folder)
    return True


def kill_one_by_one(folder: str) -> None:
    """For kernels without `cgroup.kill`. The cgroup is frozen meanwhile, so that its processes cannot fork."""
    freeze(folder, is_frozen=True)
    for pid in processes_in(folder):
        with suppress(OSError):
            os.kill(pid, SIGKILL)
    freeze(folder, is_frozen=False)


def freeze(folder: str, is_frozen: bool) -> None:
    with suppress(OSError):  # not all hierarchies support it
        write(f"{folder}/freezer.state", "FROZEN" if is_frozen else "THAWED")


def processes_in(folder: str) -> list[int]:
    """Return an empty list if the cgroup does not exist."""
    try:
        with open(f"{folder}/cgroup.procs", "rb") as file:  # noqa: PTH123
            return [int(line) for line in file]
    except OSError:
        return []


def was_killed_for_memory(folders: list[str]) -> bool:
    """Whether the kernel has killed a process in one of the cgroups because its memory limit was reached."""
    return any(b"\noom_kill 0\n" not in text and b"\noom_kill " in text for text in map(memory_events, folders))


def memory_events(folder: str) -> bytes:
    """Of a cgroup with memory limits, of version 2 or 1; empty for others."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            with open(f"{folder}/{name}", "rb") as file:  # noqa: PTH123
                return b"\n" + file.read()
        except OSError:
            continue
    return b""


def remove_cgroups(folders: list[str]) -> bool:
    """Kill the processes in the cgroups and remove the cgroups. Return whether all of them are removed."""
    for folder in folders:
        end_cgroup(folder)
        remove(folder)
        remove(os.path.dirname(folder))  # noqa: PTH120 - fails if it contains other cgroups
    return not any(os.path.exists(folder) for folder in folders)  # noqa: PTH110


def remove(folder: str) -> None:
    """Remove the cgroup and the cgroups that the workload created in it."""
    for number in range(TRIES):
        try:
            os.rmdir(folder)  # noqa: PTH106
        except FileNotFoundError:
            return
        except OSError:
            if os.path.basename(folder) == "ankaios":  # noqa: PTH119 - shared with other workloads
                return
            remove_below(folder)
            time.sleep(PAUSE if number else 0)
        else:
            return


def remove_below(folder: str) -> None:
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return
    for name in names:
        below = f"{folder}/{name}"
        end_cgroup(below)
        remove_below(below)
        with suppress(OSError):
            os.rmdir(below)  # noqa: PTH106


def write(path: str, text: str) -> None:
    with opened(path, os.O_WRONLY) as descriptor:
        os.write(descriptor, text.encode())
