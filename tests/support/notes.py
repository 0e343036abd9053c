"""What the end of `scripts/test` shall tell: lines of kind, reason and place in a file of the run folder."""

import os
from pathlib import Path

from tests.support.leftovers import RUN_VARIABLE


def note(kind: str, reason: str, place: str) -> None:
    with (Path(os.environ[RUN_VARIABLE]) / "notes").open("a") as notes:
        notes.write("\t".join(" ".join(text.split()) for text in (kind, reason, place)) + "\n")
