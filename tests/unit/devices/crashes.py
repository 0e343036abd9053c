"""A process that dies while it writes a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

STEPS = ("write_bytes", "chmod", "replace")  # of `Path`, one after the other


class Crash(BaseException):
    """Nobody tidies up."""


@contextmanager
def crash_at(step: str) -> Iterator[None]:
    """What is done in the block ends at this step, half done where that can be."""

    def crash(path: Path, *values: object) -> None:
        if step == "write_bytes":
            with path.open("wb") as file:
                file.write(b"{")
        raise Crash

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, step, crash)
        with pytest.raises(Crash):
            yield
