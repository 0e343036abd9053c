#!/usr/bin/env python3
"""Runs all tests, in two lanes at the same time: most of them wait for something else most of the time.

Tests that use what there is only once on a machine (podman's fixed places, mount points, the demo of this repository)
are in the lane `machine`; all others `apart`, beside them. The output of the second lane is shown when the first one
has ended. What failed gets one more try when nothing else runs: tests with real processes can fail on a busy machine.
Started by scripts/test, which tells at its end what needed it. Each lane has a folder in the run folder for everything
temporary: see tests/conftest.py.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.leftovers import LANE_VARIABLE, RUN_VARIABLE  # noqa: E402

TESTS_FAILED = 1  # exit code of pytest
# In namespaces of their own, or with nothing but processes and ports.
APART_IN_SYSTEM = (
    *("test_packaging.py", "test_systemd.py", "test_agent_bad_days.py", "test_placement_stays.py"),
    *("test_devices_stories.py", "test_devices_plugins.py"),
    *("test_server_hooks.py", "test_server_security.py", "test_server_start.py", "test_server_state.py"),
    "test_server_transcript.py",
)
APART_FILES = [f"tests/system/{name}" for name in APART_IN_SYSTEM]
ON_THE_MACHINE = "tests/integration/runtimes"
LANES = {
    "apart": ["tests/unit", "tests/integration", f"--ignore={ON_THE_MACHINE}", *APART_FILES],
    "machine": [ON_THE_MACHINE, "tests/system", *(f"--ignore={file}" for file in APART_FILES)],
}


def pytest(lane: str, *more: str) -> list[str]:
    color = ["--color=yes"] if sys.stdout.isatty() else []
    cache = ["-o", f"cache_dir=.venv/.pytest_cache/{lane}"]
    return [sys.executable, "-m", "pytest", *color, *cache, *LANES[lane], *more]


def start(lane: str, output: BinaryIO | None = None) -> subprocess.Popen[bytes]:
    environ = {**os.environ, LANE_VARIABLE: lane}
    return subprocess.Popen(pytest(lane), cwd=ROOT, env=environ, stdout=output, stderr=output)


def run_both(log: Path) -> dict[str, int]:
    """Lane -> exit code of pytest."""
    with log.open("wb") as file:
        lanes = {"machine": start("machine", file), "apart": start("apart")}
    try:
        lanes["apart"].wait()
        print("-- and what ran beside them: podman, mounts, the demo, the docs", flush=True)
        show(log, lanes["machine"])
    except KeyboardInterrupt:  # both were told by the terminal, too, and tidy up
        for process in lanes.values():
            process.wait()
        raise SystemExit(130) from None
    return {lane: process.wait() for lane, process in lanes.items()}


def show(log: Path, process: subprocess.Popen[bytes]) -> None:
    """What is in the log, and what comes as long as the process runs."""
    with log.open("rb") as file:
        ended = False
        while True:
            sys.stdout.buffer.write(file.read())
            sys.stdout.buffer.flush()
            if ended:
                return
            ended = process.poll() is not None
            time.sleep(0 if ended else 0.2)


def main() -> int:
    codes = run_both(Path(os.environ[RUN_VARIABLE]) / "machine.log")
    for lane, code in codes.items():
        if code == TESTS_FAILED:
            print("== once more, only what failed", flush=True)
            again = pytest(lane, "--last-failed", "--last-failed-no-failures=none")
            codes[lane] = subprocess.run(again, cwd=ROOT, check=False).returncode
    return max(codes.values(), key=abs)


if __name__ == "__main__":
    sys.exit(main())
