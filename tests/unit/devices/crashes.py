"""A process that is killed while it writes a file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

STEPS = ("write", "chmod", "replace")  # one after the other


class Crash(BaseException):
    """Cleanup code for errors is not called."""


@contextmanager
def crash_at(step: str) -> Iterator[None]:
    """The block ends at this step. Half of the data is written."""
    write = os.write

    def crash(place: int | Path, *_values: object) -> None:
        if isinstance(place, int):
            write(place, b"{")
        raise Crash

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os if step == "write" else Path, step, crash)
        with pytest.raises(Crash):
            yield
