"""A temporary folder whose path is short enough for sockets; the path of pytest's folder is too long."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dev-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
