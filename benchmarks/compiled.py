"""Compiles the package before a measurement, as the installation of a package does.

A program that compiles its own modules at its start needs much more time and memory than one that is installed.
"""

import compileall
import os
from pathlib import Path

import ankaios


def compile_package() -> None:
    """Also allows the programs that are started from now on to write compiled modules."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(Path(ankaios.__file__).parent, quiet=1)
