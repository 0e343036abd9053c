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

    def _read(self, name: str) -> bytes:
        """Return empty bytes if the file does not exist."""
        with suppress(OSError):
            return (self.path / name).read_bytes()
        return b""

    def _paths(self, name: str) -> list[str]:
        return [path for path in os.fsdecode(self._read(name)).split("\0") if path]

    def processes(self) -> tuple[NativeProcess, NativeProcess] | None:
        """Return the process of the workload and its keeper."""
        with suppress(ValueError):
            first, second = self._read("process").decode().splitlines()
            return _process(first), _process(second)
        return None

    def starter(self) -> NativeProcess | None:
        """Return the keeper of the latest start of the workload."""
        with suppress(ValueError):
            return _process(self._read("keeper").decode())
        return None

    def cgroups(self) -> list[str]:
        """Return the cgroups of this workload only: all their processes are killed, and the file may be damaged."""
        return [path for path in self._paths("cgroups") if self._is_own_cgroup(path)]

    def _is_own_cgroup(self, path: str) -> bool:
        parent, name = os.path.split(path)
        return os.path.basename(parent) == OWN_FOLDER and name.endswith(f".{self.path.name}")  # noqa: PTH119

    def exit_code(self) -> int | None:
        with suppress(ValueError):
            return int(self._read("exit"))
        return None

    @property
    def was_out_of_memory(self) -> bool:
        return (self.path / "oom").exists()

    def note(self) -> str:
        return self._read("note").decode(errors="replace")

    def mount_points(self) -> list[str]:
        """Return the mount points that were created on the host."""
        return self._paths("mount_points")

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
