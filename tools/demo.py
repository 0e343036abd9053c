#!/usr/bin/env python3
"""The demo: a one-node cluster with three workloads and one device, live in this terminal, and removed at the end.

With a podman that can run containers here it uses that, with a separate storage inside the repository; without, the
same example runs as plain processes. Without a terminal it runs to its end, prints the final table and ends with 0.
What a demo that was killed could not remove is removed by the next one.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.isolated_podman import IMAGE, IsolatedPodman, missing_program  # noqa: E402
from tests.support.leftovers import end_native_workloads  # noqa: E402

FOLDER = ROOT / ".demo"
LONGEST_FOLDER = 60  # sockets below it must not have too long a path


class Place:
    """A folder for all files of this demo, locked for as long as it runs."""

    def __init__(self) -> None:
        FOLDER.mkdir(exist_ok=True)
        for stale in FOLDER.iterdir():
            _remove_unless_used(stale)
        self.path = Path(tempfile.mkdtemp(dir=FOLDER))
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        short = len(os.fsencode(self.path)) <= LONGEST_FOLDER
        self.temporary = self.path if short else Path(tempfile.mkdtemp(prefix="ank-demo-"))

    def close(self) -> None:
        for folder in {self.temporary, self.path}:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(self._lock)
        with suppress(OSError):  # another demo runs
            FOLDER.rmdir()


def _remove_unless_used(folder: Path) -> None:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    finally:
        os.close(lock)
    IsolatedPodman.found_at(folder / "podman").close()
    end_native_workloads(folder)
    shutil.rmtree(folder, ignore_errors=True)


def working_podman(folder: Path) -> tuple[IsolatedPodman | None, str]:
    """A podman that has just started a container, or why there is none."""
    if missing := missing_program():
        return None, f"the program '{missing}' is not installed"
    podman = None
    try:
        folder.mkdir()
        podman = IsolatedPodman(folder=folder)
        podman.podman("run", "--detach", IMAGE, "true")
    except (AssertionError, OSError, subprocess.SubprocessError) as fault:
        if podman is not None:
            podman.close()
        return None, f"podman cannot run a container here ({str(fault).strip().splitlines()[-1]})"
    return podman, ""


def main() -> int:
    place = Place()
    podman, reason = working_podman(place.path / "podman")
    try:
        if podman is None:
            print(f"Running plain processes instead of containers: {reason}.")
        else:
            print("Running containers with podman, from an image just made of busybox.")
        sys.stdout.flush()
        live = sys.stdout.isatty()
        code = run_cluster(podman, place.temporary, live)
    finally:
        if podman is not None:
            podman.close()
        place.close()
    if live and code == 0:
        with suppress(OSError):  # as the window is
            os.write(sys.stdout.fileno(), b"Everything is gone again.\n")
    return code


def run_cluster(podman: IsolatedPodman | None, temporary: Path, live: bool) -> int:
    """Ctrl+C reaches the cluster, too; other signals that end this process are forwarded. It then cleans up."""
    environ = {
        **os.environ,
        **(podman.variables if podman else {}),
        "TMPDIR": str(temporary),
        "DISCOVERY_HANDLERS_DIRECTORY": str(temporary / "akri"),
    }
    runtime = "native" if podman is None else "podman"
    flags = ["--dashboard", "--runtime", runtime, *([] if live else ["--settle"])]
    command = [str(Path(sys.executable).with_name("ank")), "up", *flags, str(ROOT / f"examples/demo/{runtime}.yaml")]
    cluster = subprocess.Popen(command, env=environ)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: cluster.send_signal(number))
    return cluster.wait()


if __name__ == "__main__":
    sys.exit(main())
