"""Replaces files as a whole: after a crash or a power failure, a file has its complete old or new content.

Input: a path and the new content. Output: the file. A draft beside it is written first.
"""

import os
from contextlib import suppress
from pathlib import Path

_DRAFT_SUFFIX = ".new"


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """Replace a file as a whole. Raises OSError with nothing changed."""
    draft = path.with_suffix(_DRAFT_SUFFIX)
    try:
        draft.unlink(missing_ok=True)  # a draft of a process that died may be read-only
        _write_draft(draft, content)
        draft.chmod(mode)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _write_draft(draft: Path, content: bytes) -> None:
    """Write to the disk, not only to its cache: the folder may outlive a power failure."""
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make created, replaced and renamed files durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_drafts(folder: Path) -> None:
    """Remove the drafts of a process that died."""
    for draft in folder.glob(f"*{_DRAFT_SUFFIX}"):
        with suppress(OSError):
            draft.unlink(missing_ok=True)
