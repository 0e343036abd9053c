"""Reading what commands are given: files and standard input, no more than the YAML parser accepts.

What cannot be read comes out as OSError; `advice` knows what to do about it.
"""

from __future__ import annotations

from ankaios.common.errors import Rejected
from ankaios.common.yaml_text import MAX_YAML_BYTES

STANDARD_INPUT = "-"


class Unreadable(Rejected):
    """A file that was named and cannot be read or understood; the hint says what to do."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


def hint_of(fault: Rejected) -> str:
    return fault.hint if isinstance(fault, Unreadable) else ""


def read_file(path: str) -> bytes:
    """Raises OSError."""
    return _read(path)


def read_standard_input() -> bytes:
    """Raises OSError, for example if it is closed."""
    return _read(0)


def _read(what: str | int) -> bytes:
    with open(what, "rb", closefd=what != 0) as opened:
        return opened.read(MAX_YAML_BYTES + 1)


def advice(fault: OSError) -> str:
    """What to do about a file that is missing, closed to us or no file; empty if the reason says all there is."""
    file = fault.filename
    if not isinstance(file, str):
        return ""
    if isinstance(fault, FileNotFoundError):
        return "check the name" if file.startswith("/") else f"check the name; you are in '{_here()}'"
    if isinstance(fault, IsADirectoryError):
        return f"it is a folder; name the files in it, for example '{file.rstrip('/')}/*.yaml'"
    if isinstance(fault, PermissionError):
        return f"run this as {_owner(file)}, or let others read it: chmod a+r '{file}'"
    return ""


def _here() -> str:
    from pathlib import Path

    try:
        return str(Path.cwd())
    except OSError:
        return "a folder that was removed"


def _owner(file: str) -> str:
    from pathlib import Path

    try:
        return f"its owner '{Path(file).owner()}'"
    except (OSError, KeyError):  # not even its folder may be searched, or nobody has this id
        return "its owner"
