"""The supported versions of Python on this machine, and a small environment for the unit tests with each.

Supported are the versions that pyproject.toml lists as classifiers. Interpreters are found on PATH and among the
versions that pyenv has installed.
"""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
PROBE = "import sys, platform; print(platform.python_version(), sys.version_info.releaselevel, sys.implementation.name)"
LIMIT = 20


@dataclass(frozen=True)
class Python:
    """An interpreter: `version` is e.g. "3.12.1"."""

    program: Path
    version: str

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


def supported_versions(pyproject: Path = ROOT / "pyproject.toml") -> list[str]:
    classifiers = tomllib.loads(pyproject.read_text())["project"]["classifiers"]
    return [found[1] for text in classifiers if (found := CLASSIFIER.fullmatch(text))]


def installed_pythons(versions: list[str], environ: Mapping[str, str]) -> dict[str, Python]:
    """The first working interpreter of each version; versions that are not installed are missing in the result."""
    found = {}
    for version in versions:
        working = (python for program in _candidates(version, environ) if (python := probe(program)) is not None)
        if match := next((python for python in working if python.minor == version), None):
            found[version] = match
    return found


def _candidates(version: str, environ: Mapping[str, str]) -> Iterator[Path]:
    for folder in environ.get("PATH", os.defpath).split(":"):
        if folder and (program := Path(folder, f"python{version}")).exists():
            yield program
    pyenv = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/"), ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)


def probe(program: Path) -> Python | None:
    """None if it does not run: pyenv puts programs on PATH that fail unless their version is selected."""
    try:
        done = subprocess.run([program, "-c", PROBE], capture_output=True, text=True, timeout=LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    if done.returncode or len(words) != 3 or words[1] != "final" or words[2] != "cpython":
        return None
    return Python(program, words[0])


def prepare_environment(python: Python) -> Path:
    """Make .venv/pythonX.Y with the product and what unit tests need, once. Return its interpreter.

    Raises `subprocess.CalledProcessError` if a package cannot be installed.
    """
    folder = ROOT / f".venv/python{python.minor}"
    program, stamp = folder / "bin/python", folder / ".installed"
    wanted = hashlib.sha256(f"{python}\n{(ROOT / 'pyproject.toml').read_text()}".encode()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == wanted and probe(program)):
        subprocess.run([python.program, "-m", "venv", "--clear", "--without-pip", folder], check=True)
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            program,
            "--disable-pip-version-check",
            "install",
            "--quiet",
        ]
        quiet = {"PIP_CACHE_DIR": str(ROOT / ".venv/.cache/pip"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        subprocess.run([*pip, "--editable", ".", "--group", "unit"], cwd=ROOT, env={**os.environ, **quiet}, check=True)
        stamp.write_text(wanted)
    return program
