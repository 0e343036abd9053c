"""Files that are always complete, with a checksum that detects what a power failure left behind.

Input: values that msgspec converts. Output: JSON files with the old or the new content, even if the process is killed.
"""

import json
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

DRAFT_SUFFIX = ".new"


def write_checked(path: Path, value: object) -> None:
    """Raises OSError with nothing changed."""
    replace_file(path, checked_text(value), 0o600)


def checked_text(value: object) -> str:
    content = msgspec.to_builtins(value)
    return json.dumps({"checksum": _checksum(content), "record": content})


def read_checked(text: str) -> Any:
    """The plain value. Raises ValueError, KeyError or TypeError for content that was not written by `checked_text`."""
    document = json.loads(text)
    if document["checksum"] != _checksum(document["record"]):
        raise ValueError("the checksum is wrong")
    return document["record"]


def _checksum(content: object) -> str:
    return blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()


def replace_file(path: Path, content: str | bytes, mode: int) -> None:
    """Replace a file as a whole. Raises OSError with nothing changed."""
    draft = path.with_suffix(DRAFT_SUFFIX)
    try:
        draft.unlink(missing_ok=True)  # a draft of a process that died may be read-only
        draft.touch(mode=0o600)
        draft.write_bytes(content.encode() if isinstance(content, str) else content)
        _flush(draft)
        draft.chmod(mode)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _flush(path: Path) -> None:
    """To the disk: claims may be in a folder that outlives a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_drafts(folder: Path) -> None:
    """Remove the drafts of a process that died."""
    for draft in folder.glob(f"*{DRAFT_SUFFIX}"):
        with suppress(OSError):
            draft.unlink(missing_ok=True)
