"""A program of a runtime while it runs: its process and our ends of its pipes.

In come a program, its arguments and its environment; out come descriptors that never block, and the exit code. Nothing
here needs an event loop, so a program can be started before there is one. Owned are the process, until its end was
taken notice of, and the descriptors.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Mapping, Sequence

UNKNOWN_EXIT = 255
NOT_STARTED = 127  # as shells say
_FIRST_FREE = 3


class ChildProcess:
    """Raises OSError or ValueError if the program cannot be started; if it begins `at_leisure`, it has failed instead.

    `stderr` is -1 if the error output comes with the standard output. `exit_code` is None while the program runs, and
    negative if a signal ended it.
    """

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        merge: bool = False,
        at_leisure: bool = False,
    ) -> None:
        environ = os.environ if env is None else env
        start = _start_at_leisure if at_leisure else _start
        with _Pipes() as pipes:
            stdin, out, err = pipes.make(), pipes.make(), (None if merge else pipes.make())
            theirs = (stdin[0], out[1], err[1] if err else out[1])
            self.pid = start(program, [program, *arguments], environ, theirs)
            self.stdin, self.stdout, self.stderr = stdin[1], out[0], err[0] if err else -1
            pipes.keep({self.stdin, self.stdout, self.stderr})
        self.exit_code: int | None = None
        for descriptor in self._pipes():
            os.set_blocking(descriptor, False)

    def _pipes(self) -> list[int]:
        return [descriptor for descriptor in (self.stdin, self.stdout, self.stderr) if descriptor >= 0]

    def has_ended(self) -> bool:
        """Takes notice of the end."""
        if self.exit_code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # we were started with the wish that nobody takes notice
                self.exit_code = UNKNOWN_EXIT
            else:
                self.exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self.exit_code is not None

    def kill(self) -> None:
        """It and all it started in its group, if anything is left."""
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
        """Let go of the pipes."""
        for descriptor in self._pipes():
            os.close(descriptor)
        self.stdin = self.stdout = self.stderr = -1


class _Pipes:
    """Pipes that are closed again but for what is kept."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def make(self) -> tuple[int, int]:
        reading, writing = os.pipe()
        self._open |= {reading, writing}
        return self._above_standard(reading), self._above_standard(writing)

    def _above_standard(self, descriptor: int) -> int:
        """In a process without standard input or output, a pipe may have got a number that the program needs."""
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
    """The own group keeps a Ctrl-C meant for the agent from the program, and names what is to be ended.

    An own session would do so as well, but Linux schedules sessions apart: on a busy machine a call took half as long
    again.
    """
    actions = [(os.POSIX_SPAWN_DUP2, ours, number) for number, ours in enumerate(standard)]
    fault: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    for path in _candidates(program, environ):
        try:
            return os.posix_spawn(
                path,
                arguments,
                environ,
                file_actions=actions,
                setpgroup=0,
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them, and programs would inherit that
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as refused:
            fault = OSError(refused.errno, refused.strerror, program)
    raise fault


def _start_at_leisure(program: str, arguments: list[str], environ: Mapping[str, str], standard: Sequence[int]) -> int:
    """Does not wait until the program has begun, which takes its time on a busy machine.

    Copies the process, so it is for one that is small and has no threads.
    """
    pid = os.fork()
    if pid:
        _make_leader(pid)
        return pid
    try:
        os.setpgid(0, 0)
        for number, ours in enumerate(standard):
            os.dup2(ours, number)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        _execute(program, arguments, environ)
    finally:
        os._exit(NOT_STARTED)


def _make_leader(pid: int) -> None:
    """The child does so as well: whoever comes first."""
    try:
        os.setpgid(pid, pid)
    except OSError:  # it runs the program already, in a group of its own
        return


def _execute(program: str, arguments: list[str], environ: Mapping[str, str]) -> None:
    """Comes back only if there is no such program."""
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
