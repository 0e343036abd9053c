"""Reads files and standard input, at most as much as the YAML parser accepts. `advice` explains a file error."""

from ankaios.common.errors import Rejected
from ankaios.common.yaml_text import MAX_YAML_BYTES

STANDARD_INPUT = "-"


class UnusableFile(Rejected):
    """A given file cannot be read or parsed; the hint contains an advice."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


def hint_of(error: Rejected) -> str:
    return error.hint if isinstance(error, UnusableFile) else ""


def read_input(file: str) -> bytes:
    """The content of the file, or of standard input for `-`. Raises OSError."""
    return read_standard_input() if file == STANDARD_INPUT else read_file(file)


def read_file(path: str) -> bytes:
    with open(path, "rb") as opened:  # noqa: PTH123
        return opened.read(MAX_YAML_BYTES + 1)


def read_standard_input() -> bytes:
    with open(0, "rb", closefd=False) as opened:
        return opened.read(MAX_YAML_BYTES + 1)


def advice(error: OSError) -> str:
    """What to do about a file that is missing, not accessible, or a folder; empty if the reason is enough."""
    file = error.filename
    if not isinstance(file, str):
        return ""
    if isinstance(error, FileNotFoundError):
        return "check the name" if file.startswith("/") else f"check the name; you are in '{_current_folder()}'"
    if isinstance(error, IsADirectoryError):
        return f"it is a folder; name the files in it, for example '{file.rstrip('/')}/*.yaml'"
    if isinstance(error, PermissionError):
        return f"run this as {_owner(file)}, or let others read it: chmod a+r '{file}'"
    return ""


def _current_folder() -> str:
    from pathlib import Path

    try:
        return str(Path.cwd())
    except OSError:
        return "a folder that was removed"


def _owner(file: str) -> str:
    from pathlib import Path

    try:
        return f"its owner '{Path(file).owner()}'"
    except (OSError, KeyError):  # its folder is not accessible, or the user id has no name
        return "its owner"
