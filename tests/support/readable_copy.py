"""A copy of the product and its libraries that all users may read: a clone may be readable for its owner only."""

import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


def copy_product(target: Path) -> None:
    """To be named by PYTHONPATH."""
    shutil.copytree(ROOT / "src/ankaios", target / "ankaios")
    for path in {path for name in _libraries("ankaios", "dashboard") for path in _top_entries(name)}:
        copy = shutil.copytree if path.is_dir() else shutil.copy2
        copy(path, target / path.name)
    subprocess.run(["chmod", "-R", "a+rX", target], check=True)


def _libraries(name: str, extra: str = "") -> Iterator[str]:
    """Names of distributions that are needed with this Python, always or by this extra."""
    for requirement in map(Requirement, distribution(name).requires or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement.name
            yield from _libraries(requirement.name)


def _top_entries(name: str) -> set[Path]:
    library = distribution(name)
    names = {file.parts[0] for file in library.files or () if file.parts[0] != ".."}
    return {Path(str(library.locate_file(name))) for name in names}
