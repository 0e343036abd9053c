"""Starts a program of a runtime as a child process.

Input: a program, its arguments and its environment. Output: non-blocking descriptors and the exit code. No event loop
is needed, so a program can be started before the event loop runs. The module owns the process until it is reaped, and
the descriptors.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Mapping, Sequence

UNKNOWN_EXIT = 255
NOT_STARTED = 127  # the exit code of shells for "command not found"
_FIRST_FREE = 3


class ChildProcess:
    """Raises OSError or ValueError if the program cannot be started.

    With `deferred`, the constructor does not wait for the start; a failed start is reported as exit code `NOT_STARTED`.
    `stderr` is -1 if the error output is merged into the standard output. `exit_code` is None while the program runs,
    and negative if a signal ended it.
    """

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        merge: bool = False,
        deferred: bool = False,
    ) -> None:
        environ = os.environ if env is None else env
        start = _start_deferred if deferred else _start
        with _Pipes() as pipes:
            stdin, out, err = pipes.make(), pipes.make(), (None if merge else pipes.make())
            standard = (stdin[0], out[1], err[1] if err else out[1])
            self.pid = start(program, [program, *arguments], environ, standard)
            self.stdin, self.stdout, self.stderr = stdin[1], out[0], err[0] if err else -1
            pipes.keep({self.stdin, self.stdout, self.stderr})
        self.exit_code: int | None = None
        for descriptor in self._pipes():
            os.set_blocking(descriptor, False)

    def _pipes(self) -> list[int]:
        return [descriptor for descriptor in (self.stdin, self.stdout, self.stderr) if descriptor >= 0]

    def has_ended(self) -> bool:
        """Return whether the process has ended; reaps it."""
        if self.exit_code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # SIGCHLD is ignored in this process: the kernel has reaped the child
                self.exit_code = UNKNOWN_EXIT
            else:
                self.exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self.exit_code is not None

    def kill(self) -> None:
        """Kill the process and its process group, unless it has ended."""
        if not self.has_ended():
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                return

    def close_stdin(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def close(self) -> None:
        """Close the pipes."""
        for descriptor in self._pipes():
            os.close(descriptor)
        self.stdin = self.stdout = self.stderr = -1


class _Pipes:
    """Creates pipes, and closes all descriptors at exit except those passed to `keep`."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def make(self) -> tuple[int, int]:
        reading, writing = os.pipe()
        self._open |= {reading, writing}
        return self._above_standard(reading), self._above_standard(writing)

    def _above_standard(self, descriptor: int) -> int:
        """Move a descriptor below 3: without open standard streams, a pipe can get a number that the program needs."""
        if descriptor >= _FIRST_FREE:
            return descriptor
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
        self._open.add(moved)
        return moved

    def keep(self, descriptors: set[int]) -> None:
        self._open -= descriptors

    def __enter__(self) -> _Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._open:
            os.close(descriptor)


def _start(program: str, arguments: list[str], environ: Mapping[str, str], standard: Sequence[int]) -> int:
    """Start the program in a separate process group.

    The group protects the program from a Ctrl-C that is meant for the agent, and allows to kill all its processes. A
    separate session would do so as well, but Linux schedules sessions separately: on a busy machine a call took 50 %
    longer.
    """
    actions = [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(standard)]
    fault: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    for path in _candidates(program, environ):
        try:
            return os.posix_spawn(
                path,
                arguments,
                environ,
                file_actions=actions,
                setpgroup=0,
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them, and the program would inherit that
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as refused:
            fault = OSError(refused.errno, refused.strerror, program)
    raise fault


def _start_deferred(program: str, arguments: list[str], environ: Mapping[str, str], standard: Sequence[int]) -> int:
    """Do not wait until the program has started, which is slow on a busy machine.

    Forks this process, so it must be small and must not have threads.
    """
    pid = os.fork()
    if pid:
        _make_leader(pid)
        return pid
    try:
        os.setpgid(0, 0)
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        _execute(program, arguments, environ)
    finally:
        os._exit(NOT_STARTED)


def _make_leader(pid: int) -> None:
    """Make the child the leader of its process group; parent and child both do it, because either can be first."""
    try:
        os.setpgid(pid, pid)
    except OSError:  # the child already runs the program and leads its group
        return


def _execute(program: str, arguments: list[str], environ: Mapping[str, str]) -> None:
    """Returns only if the program cannot be executed."""
    for path in _candidates(program, environ):
        try:
            os.execve(path, arguments, environ)
        except OSError:
            continue


def _candidates(program: str, environ: Mapping[str, str]) -> list[str]:
    if "/" in program:
        return [program]
    return [os.path.join(folder, program) for folder in os.get_exec_path(environ)]  # noqa: PTH118 - before pathlib


def is_installed(program: str, environ: Mapping[str, str] | None = None) -> bool:
    paths = _candidates(program, os.environ if environ is None else environ)
    return any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths)  # noqa: PTH113
