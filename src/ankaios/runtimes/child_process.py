"""Starts a program of a runtime as a child process.

Input: a program, its arguments and its environment. Output: non-blocking descriptors and the exit code. No event loop
is needed, so a program can be started before the event loop runs. The module owns the process until it is reaped, and
the descriptors.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

UNKNOWN_EXIT = 255


class ChildProcess:
    """Raises OSError or ValueError if the program cannot be started.

    `stderr` is -1 if the error output is merged into the standard output. `exit_code` is None while the program runs,
    and negative if a signal ended it.
    """

    def __init__(
        self, program: str, arguments: Sequence[str], env: Mapping[str, str] | None = None, *, merge: bool = False
    ) -> None:
        # The process group protects the program from a Ctrl-C that is meant for the agent, and allows to kill all its
        # processes. So does a session, but Linux schedules sessions separately: on a busy machine, calls are slower.
        self._process = subprocess.Popen(
            [program, *arguments],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
            env=env,
            process_group=0,
        )
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self.pid = self._process.pid
        self.stdin, self.stdout, self.stderr = (-1 if pipe is None else pipe.fileno() for pipe in pipes)
        self._pipes = [pipe for pipe in pipes if pipe is not None]
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    def has_ended(self) -> bool:
        """Return whether the process has ended; reaps it."""
        if self._process.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # SIGCHLD is ignored in this process: the kernel has reaped the child
                self._process.returncode = UNKNOWN_EXIT
            else:
                self._process.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self._process.returncode is not None

    def kill(self) -> None:
        """Kill the process and its process group, unless it has ended."""
        if not self.has_ended():
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                return

    def close_stdin(self) -> None:
        self._pipes[0].close()

    def close(self) -> None:
        """Close the pipes."""
        for pipe in self._pipes:
            pipe.close()


def is_installed(program: str) -> bool:
    """Search the folders of PATH. The module `shutil` is slow to load."""
    paths = [os.path.join(folder, program) for folder in os.get_exec_path()]  # noqa: PTH118 - before pathlib
    return any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths)  # noqa: PTH113
