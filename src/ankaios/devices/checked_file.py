"""Files that are always complete, with a checksum that detects what a power failure left behind.

Input: values that msgspec converts. Output: JSON files with the old or the new content, even if the process is killed.
"""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from ankaios.common.file_replacement import replace_file


def write_checked(path: Path, value: object) -> None:
    """Raises OSError with nothing changed."""
    replace_file(path, checked_text(value).encode(), 0o600)


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
