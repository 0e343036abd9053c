"""A Python environment with the package and its run-time dependencies only, as an installation makes it.

A development environment has packages that change what is measured: `msgspec` imports `typing_extensions` if it can
(0.4 MiB), and setuptools and coverage run code at each start of Python. Modules are compiled before a measurement, as
an installation does it: a program that compiles a part of itself at its start needs more time and memory.

    python = installed_python()
    subprocess.run([python.with_name("ank-agent"), "--version"])
"""

import atexit
import compileall
import os
import shutil
import sys
import tempfile
import venv
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

import ankaios

PACKAGE = "ankaios"
_PROGRAMS = {"ank": "ankaios.cli", "ank-server": "ankaios.server", "ank-agent": "ankaios.agent"}


@cache
def installed_python() -> Path:
    """The interpreter of the environment, with the programs next to it. It is removed when this process ends."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(Path(ankaios.__file__).parent, quiet=1)
    folder = Path(tempfile.mkdtemp(prefix="ankaios-installed-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (packages / PACKAGE).symlink_to(Path(ankaios.__file__).parent)
    for found in _dependencies(PACKAGE, set()):
        _link_files(found, packages)
    for program, module in _PROGRAMS.items():
        script = python.with_name(program)
        script.write_text(f"#!{python}\nimport sys\nfrom {module}.__main__ import main\nsys.exit(main())\n")
        script.chmod(0o755)
    return python


def _dependencies(name: str, seen: set[str]) -> Iterator[Distribution]:
    """The packages that the package needs without extras, directly and indirectly."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        is_needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if is_needed and requirement.name.lower() not in seen:
            seen.add(requirement.name.lower())
            yield distribution(requirement.name)
            yield from _dependencies(requirement.name, seen)


def _link_files(found: Distribution, packages: Path) -> None:
    """Link the top-level folders and modules of a package; programs and compiled modules are not needed."""
    for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
        link = packages / top
        if not link.exists():
            link.symlink_to(Path(str(found.locate_file(top))))
