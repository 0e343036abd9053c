"""The Debian package, built once for all tests of a run that need it.

Needs a Python package index: see the fixture `needs_index`.
"""

import fcntl
import os
import subprocess
from pathlib import Path

from tests.support.leftovers import RUN_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 110


def dist_folder() -> Path:
    """A folder `dist` with nothing but the package. The first worker of the run that needs it builds it."""
    folder = Path(os.environ[RUN_VARIABLE], "deb")
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            build = [str(ROOT / "scripts/build-deb"), str(folder / "dist")]
            done = subprocess.run(build, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
            assert done.returncode == 0, f"{done.stdout}{done.stderr}"
            (folder / "built").touch()
    return folder / "dist"
