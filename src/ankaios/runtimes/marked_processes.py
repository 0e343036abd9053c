"""Kills processes by a mark in their environment, independently of their parents.

A command that podman or nerdctl runs in a container is not a descendant of the called program, and its children can
leave their process group. All of them inherit the environment, unless they remove it on purpose.
Input: the mark `<name>=<random value>`. Output: all processes with the mark are killed.
"""

import os
import signal
import time
from contextlib import suppress

CHECK_VARIABLE = "ANKAIOS_HEALTH_CHECK"
_ROUNDS = 20
_PAUSE = 0.01


def new_mark() -> str:
    return f"{CHECK_VARIABLE}={os.urandom(8).hex()}"


def end_marked_processes(mark: str) -> int:
    """Return the number of killed processes. Searches repeatedly, because a process can start others. Blocks."""
    wanted, ended = mark.encode(), 0
    for _ in range(_ROUNDS):
        found = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _carries(pid, wanted)]  # noqa: PTH208
        if not found:
            break
        ended += sum(_end(pid, wanted) for pid in found)
        time.sleep(_PAUSE)
    return ended


def _carries(pid: int, mark: bytes) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
        return mark in file.read().split(b"\0")
    return False


def _end(pid: int, mark: bytes) -> bool:
    """Kill by descriptor, because the kernel may have reused the process id."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if _carries(pid, mark):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False
