"""Opens files and folders as descriptors. Part of the shim of native workloads, so it imports few modules."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def opened(path: str, flags: int, folder: int | None = None) -> Iterator[int]:
    """Open the path, relative to the given folder, and close it at the end."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
