"""Turns a process into a native workload, and executes commands. Part of its shim, so it imports few modules.

Input: the order, the mount points and the cgroups. Output: the process executes the command of the workload, or reports
why it cannot.
"""

from __future__ import annotations

import os
from typing import Any

from ankaios.runtimes.kernel import Kernel
from ankaios.runtimes.native.cgroups import join_cgroups
from ankaios.runtimes.native.mounts import MountPoints, mount_all
from ankaios.runtimes.native.ownership import change_owners
from ankaios.runtimes.native.privileges import drop_privileges, needs_kernel

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FAILED = b"\0"  # separates the note from the reason why the workload did not start


def become_workload(
    order: dict[str, Any], points: MountPoints, cgroups: list[str], outputs: list[int], report: int
) -> None:
    """Execute the command of the workload, or report why that failed. Never returns."""
    try:
        os.setsid()
        join_cgroups(cgroups)
        kernel = Kernel() if needs_kernel(order) else None
        note = mount_all(order, points.fault)
        os.write(report, note.encode())
        os.dup2(outputs[0], 1)
        os.dup2(outputs[1], 2)
        restore_signals()
        set_limits(order["limits"])
        change_owners(order, is_mounted=not note)
        drop_privileges(order, kernel)
        os.chdir(order["working_dir"])
        execute(order["command"], order["env"], order["env"]["PATH"])
    except BaseException as fault:
        os.write(report, FAILED + str(fault).encode())
    os._exit(127)


def execute(command: list[str], env: dict[str, str] | dict[bytes, bytes], path: str) -> None:
    """Do the same as os.execvpe, which imports a module that the user of the workload may not be able to read."""
    program = command[0]
    folders = [""] if "/" in program else [f"{folder}/" for folder in path.split(":")]
    fault: OSError = FileNotFoundError(2, f"{os.strerror(2)}: '{program}'")
    for folder in folders:
        try:
            os.execve(folder + program, command, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as other:
            fault = other
    raise fault


def restore_signals() -> None:
    """Restore the signals that Python ignores, because the command would inherit that."""
    import signal

    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def set_limits(limits: list[tuple[str, int]]) -> None:
    if limits:
        import resource

        for name, value in limits:
            resource.setrlimit(getattr(resource, name), (value, value))
