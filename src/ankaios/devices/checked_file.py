"""Files that are always complete, with a checksum that detects what a power failure left behind.

Input: values that msgspec converts. Output: JSON files with the old or the new content, even if the process is killed.
"""

import json
import logging
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import msgspec

from ankaios.common.file_replacement import replace_file

T = TypeVar("T")

log = logging.getLogger(__name__)


def write_checked(path: Path, value: object) -> None:
    """Raises OSError with nothing changed."""
    content = msgspec.to_builtins(value)
    text = json.dumps({"checksum": _checksum(content), "record": content})
    replace_file(path, text.encode(), 0o600)


def read_checked(path: Path, content: type[T]) -> T:
    """Raises OSError, or ValueError for a file that was not written by `write_checked`."""
    document = json.loads(path.read_text())
    try:
        if document["checksum"] != _checksum(document["record"]):
            raise ValueError("the checksum is wrong")
        return msgspec.convert(document["record"], content)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no checked file: {error!r}") from error


def restore_checked(path: Path, content: type[T], what: str) -> T | None:
    """The value from before a restart; None if there is none or it cannot be read, which is logged."""
    try:
        return read_checked(path, content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("%s in '%s' cannot be read: %r", what, path, error)
        return None


def _checksum(content: object) -> str:
    return blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()
