"""The Debian package, built once for all tests of a run that need it.

Needs a Python package index: see the fixture `needs_index`.
"""

import functools
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 110


@functools.cache
def dist_folder() -> Path:
    """A folder `dist` with nothing but the package; it goes with everything temporary of the run."""
    folder = Path(tempfile.mkdtemp(prefix="ank-deb-")) / "dist"
    build = [str(ROOT / "scripts/build-deb"), str(folder)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return folder
