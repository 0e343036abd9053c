#!/usr/bin/env python3
"""Runs a command and makes sure that it leaves nothing behind: tests/support/clean_run.py COMMAND [ARGUMENTS...]

The command gets a folder of its own for temporary files (TMPDIR), which is removed at the end. Orphaned processes are
adopted, so none escapes. What is left at the end (processes, mounts, files elsewhere) is named, ended or removed as far
as it belongs to the run, and makes the exit code 1 if it was 0.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.leftovers import (  # noqa: E402
    KEEPER_VARIABLE,
    RUN_PREFIX,
    RUN_VARIABLE,
    Traces,
    descendants_of,
    processes_of,
    wait_until_gone,
)

PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 3.0


def main(command: list[str]) -> int:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder = Path(tempfile.mkdtemp(prefix=RUN_PREFIX)).resolve()
    before = Traces.now(folder, ROOT)
    os.environ.update({"TMPDIR": str(folder), RUN_VARIABLE: str(folder), KEEPER_VARIABLE: str(os.getpid())})
    code = run(command)
    processes = wait_until_gone(lambda: reaped_processes_of(folder))
    traces = wait_until_gone(lambda: Traces.now(folder, ROOT).since(before), 0 if processes else 5)
    end(processes)
    remove(folder)
    left = [*processes.values(), *traces]
    if left:
        print("== left behind, which is a fault of whoever started or made it:", file=sys.stderr)
        print("\n".join(left), file=sys.stderr)
    return code or (1 if left else 0)


def run(command: list[str]) -> int:
    """Waits for the command and meanwhile for every orphan. Signals are for the command, which then ends us."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell lets what it starts in the background ignore it
    child = subprocess.Popen(command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command, too
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: pass_on(number, child))
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child.pid:
            child.returncode = code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def pass_on(number: int, child: subprocess.Popen[bytes]) -> None:
    """The command shall know; all that it waits for shall tidy up and end, as if somebody had pressed Ctrl+C."""
    child.send_signal(number)
    for pid in descendants_of(child.pid):
        with suppress(ProcessLookupError):
            if os.getpgid(pid) == os.getpgrp():
                os.kill(pid, signal.SIGINT)


def reaped_processes_of(folder: Path) -> dict[int, str]:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return processes_of(folder, os.getpid())


def end(processes: dict[int, str]) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + KILL_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < until:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.05)


def remove(folder: Path) -> None:
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(f"{folder}/")), key=len, reverse=True):
        subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
