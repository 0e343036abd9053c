"""Reading what commands are given: files and standard input, no more than the YAML parser accepts."""

from __future__ import annotations

from ankaios.common.yaml_text import MAX_YAML_BYTES

STANDARD_INPUT = "-"


def read_file(path: str) -> bytes:
    """Raises OSError."""
    return _read(path)


def read_standard_input() -> bytes:
    """Raises OSError, for example if it is closed."""
    return _read(0)


def _read(what: str | int) -> bytes:
    with open(what, "rb", closefd=what != 0) as opened:
        return opened.read(MAX_YAML_BYTES + 1)
