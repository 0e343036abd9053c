"""The product and the libraries it needs, where everybody may read them: a clone may well be private to who made it."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def copy_product(target: Path) -> None:
    """To be named by PYTHONPATH."""
    shutil.copytree(ROOT / "src/ankaios", target / "ankaios")
    for name in dict.fromkeys(_libraries("ankaios")):
        for path in _top_entries(name):
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            copy(path, target / path.name)
    subprocess.run(["chmod", "-R", "a+rX", target], check=True)


def _libraries(name: str) -> Iterator[str]:
    """Names of distributions, those of extras left out."""
    for requirement in distribution(name).requires or ():
        if "extra ==" not in requirement and (found := re.match(r"[\w.-]+", requirement)):
            yield found[0]
            yield from _libraries(found[0])


def _top_entries(name: str) -> set[Path]:
    library = distribution(name)
    names = {file.parts[0] for file in library.files or () if file.parts[0] != ".."}
    return {Path(str(library.locate_file(name))) for name in names}
