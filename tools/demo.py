#!/usr/bin/env python3
"""The demo: a one-node cluster with three workloads and one device, live in this terminal; nothing stays behind.

With a podman that can run containers here it uses that, with a storage of its own inside the repository; without, the
same example runs as plain processes. Without a terminal it runs through, prints the final table and ends with 0.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.isolated_podman import IMAGE, IsolatedPodman, why_no_podman  # noqa: E402

FOLDER = ROOT / ".demo"
NEXT = """
While it runs, try these in another terminal (from {root}):
  .venv/bin/ank -k get workloads --watch
  .venv/bin/ank -k logs -f recorder
  .venv/bin/ank -k get devices
Ctrl+C here stops and removes everything.
"""


def working_podman() -> tuple[IsolatedPodman | None, str]:
    """A podman that has just run a container, or why there is none."""
    if reason := why_no_podman():
        return None, reason
    podman = None
    try:
        shutil.rmtree(FOLDER / "podman", ignore_errors=True)
        (FOLDER / "podman").mkdir(parents=True)
        podman = IsolatedPodman(folder=FOLDER / "podman")
        podman.podman("run", "--rm", IMAGE, "true")
    except (AssertionError, OSError, subprocess.SubprocessError) as fault:
        if podman is not None:
            podman.close()
        return None, f"podman cannot run a container here ({str(fault).strip().splitlines()[-1]})"
    return podman, ""


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    podman, reason = working_podman()
    if podman is None:
        print(f"Running plain processes instead of containers: {reason}.")
    else:
        print("Running containers with podman, from an image just made of busybox.")
    manifest = ROOT / "examples/demo" / ("native.yaml" if podman is None else "podman.yaml")
    live = sys.stdout.isatty()
    if live:
        print(NEXT.format(root=ROOT))
    sys.stdout.flush()
    environ = {**os.environ, **(podman.variables if podman else {}), "TMPDIR": str(FOLDER)}
    command = [sys.executable, "-m", "ankaios", "up", *([] if live else ["--settle"]), str(manifest)]
    cluster = subprocess.Popen(command, env=environ)
    while True:
        try:
            code = cluster.wait()
            break
        except KeyboardInterrupt:  # the cluster got it too and is cleaning up
            continue
    if podman is not None:
        podman.close()
    shutil.rmtree(FOLDER, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
