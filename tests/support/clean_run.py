#!/usr/bin/env python3
"""Runs commands that must leave nothing behind: tests/support/clean_run.py COMMAND [ARGUMENTS...]

The commands get a run folder for temporary files (TMPDIR), removed at the end. Orphaned processes are adopted.
Processes, mounts, loop devices and podman storage of the run that are left at the end are named, then ended or removed,
and make the exit code 1 if it was 0. Processes and files of other users of the machine are not examined.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.isolated_podman import IsolatedPodman  # noqa: E402
from tests.support.leftovers import (  # noqa: E402
    RUN_PREFIX,
    RUN_VARIABLE,
    STORAGE_PREFIX,
    descendants_of,
    processes_of,
    traces_in,
    wait_until_gone,
)

PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 3.0


class CleanRun:
    """Owns the run folder and all processes that are started in the run. SIGTERM and SIGHUP end the current command."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.folder = Path(tempfile.mkdtemp(prefix=RUN_PREFIX)).resolve()
        self.stopped_by: int | None = None  # the signal that ended the run early
        self._environ = {**os.environ, "TMPDIR": str(self.folder), RUN_VARIABLE: str(self.folder)}
        self._child: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda number, _: self._stop(number))

    def call(self, command: Sequence[str | Path], environ: Mapping[str, str] | None = None) -> int:
        """Wait for the command and reap every orphan meanwhile. Return the exit code as a shell does."""
        # A shell lets what it starts in the background ignore SIGINT; the command must not inherit that.
        child = subprocess.Popen(
            command, cwd=ROOT, env={**self._environ, **(environ or {})}, restore_signals=True, preexec_fn=_accept_sigint
        )
        self._child = child
        while True:
            ended, status = os.waitpid(-1, 0)
            if ended == child.pid:
                self._child = None
                child.returncode = code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code

    def _stop(self, number: int) -> None:
        """End the command and all that it waits for as with Ctrl+C, so that pytest cleans up and reports."""
        self.stopped_by = number
        if number == signal.SIGINT or self._child is None:  # the terminal has sent SIGINT to the command, too
            return
        for pid in (self._child.pid, *descendants_of(self._child.pid)):
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == os.getpgrp():
                    os.kill(pid, signal.SIGINT)

    def close(self) -> list[str]:
        """End and remove everything; return descriptions of what was left behind."""
        processes = wait_until_gone(self._processes)
        traces = wait_until_gone(lambda: traces_in(self.folder, ROOT), 0 if processes else 5)
        _kill(processes)
        for storage in self.folder.glob(f"**/{STORAGE_PREFIX}*"):
            with suppress(OSError, AssertionError, subprocess.SubprocessError):
                IsolatedPodman.found_at(storage).close()
        _remove(self.folder)
        return [*processes.values(), *traces]

    def _processes(self) -> dict[int, str]:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return processes_of(self.folder, os.getpid())


def _accept_sigint() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _kill(processes: Mapping[int, str]) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + KILL_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < until:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.05)


def _remove(folder: Path) -> None:
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(f"{folder}/")), key=len, reverse=True):
        subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


def main(command: list[str]) -> int:
    run = CleanRun()
    code = run.call(command)
    if run.stopped_by is not None:
        code = 128 + run.stopped_by
    if left := run.close():
        print("== left behind by this run:", *left, sep="\n", file=sys.stderr)
    return code or (1 if left else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
