"""Reads process, exit code and state of native workloads from the run folder.

Input: folders written by `shim.py`. Output: process identities and states. The module owns nothing.
"""

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ankaios.common.execution_state import ENDED_WITHOUT_CODE, FAILED_LOST, RUNNING_OK, ExecutionState, exited
from ankaios.runtimes.exit_watch import boot_id, process_start
from ankaios.runtimes.native.cgroup_places import OWN_FOLDER


class NativeProcess(Struct, frozen=True):
    """A process, identified such that a later process with the same id is a different one."""

    pid: int
    start: int
    boot: str

    @property
    def alive(self) -> bool:
        return self.is_it(self.pid)

    def is_it(self, pid: int) -> bool:
        return process_start(pid) == self.start and boot_id() == self.boot


class NativeFolder(Struct, frozen=True):
    """The folder of one workload."""

    path: Path

    def processes(self) -> tuple[NativeProcess, NativeProcess] | None:
        """Return the process of the workload and its keeper."""
        with suppress(OSError, ValueError):
            first, second = (self.path / "process").read_text().splitlines()
            return _process(first), _process(second)
        return None

    def starter(self) -> NativeProcess | None:
        """Return the keeper of the latest start of the workload."""
        with suppress(OSError, ValueError):
            return _process((self.path / "keeper").read_text())
        return None

    def cgroups(self) -> list[str]:
        """Return the cgroups of this workload only: all their processes are killed, and the file may be damaged."""
        with suppress(OSError):
            parts = os.fsdecode((self.path / "cgroups").read_bytes()).split("\0")
            return [part for part in parts if self._is_own_cgroup(part)]
        return []

    def _is_own_cgroup(self, path: str) -> bool:
        parent, name = os.path.split(path)
        return os.path.basename(parent) == OWN_FOLDER and name.endswith(f".{self.path.name}")  # noqa: PTH119

    def exit_code(self) -> int | None:
        with suppress(OSError, ValueError):
            return int((self.path / "exit").read_text())
        return None

    @property
    def was_out_of_memory(self) -> bool:
        return (self.path / "oom").exists()

    def note(self) -> str:
        with suppress(OSError):
            return (self.path / "note").read_text(errors="replace")
        return ""

    def mount_points(self) -> list[str]:
        """Return the mount points that were created on the host."""
        with suppress(OSError):
            return os.fsdecode((self.path / "mount_points").read_bytes()).split("\0")
        return []

    def state(self) -> ExecutionState:
        """Checks the process before the exit code: between both checks, the process can end but not start."""
        found = self.processes()
        alive = found is not None and found[0].alive
        code = self.exit_code()
        if code is not None:
            return exited(code)
        if alive:
            return RUNNING_OK.because(self.note())
        if found is not None and found[0].boot == boot_id() and self.path.exists():
            return ENDED_WITHOUT_CODE
        return FAILED_LOST

    @property
    def keeper_alive(self) -> bool:
        found = self.processes()
        return found is not None and found[1].alive


def _process(line: str) -> NativeProcess:
    pid, start, boot = line.split()
    return NativeProcess(int(pid), int(start), boot)
