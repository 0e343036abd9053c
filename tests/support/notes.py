"""What the end of `scripts/test` reports about tests: lines of kind, reason and place in a file of the run folder."""

import os
from pathlib import Path
from typing import NamedTuple

from tests.support.leftovers import RUN_VARIABLE


class Note(NamedTuple):
    """`kind`: "skipped", "failed", or "instead" for a command that was run in another form."""

    kind: str
    reason: str
    place: str


def note(kind: str, reason: str, place: str) -> None:
    with _file(Path(os.environ[RUN_VARIABLE])).open("a") as notes:
        notes.write("\t".join(" ".join(text.split()) for text in (kind, reason, place)) + "\n")


def read_notes(folder: Path) -> list[Note]:
    if not _file(folder).exists():  # no test was run
        return []
    return [Note(*line.split("\t")) for line in _file(folder).read_text().splitlines()]


def _file(folder: Path) -> Path:
    return folder / "notes"
