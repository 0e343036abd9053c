"""What is wrong where. Checks report paths, which become file and line here; lines are looked for only if asked for."""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct, field

from ankaios.cli.validation.locate import Places, locate

Form = dict[str, Any]
Path = tuple[str | int, ...]
"""Keys and, as numbers, places in lists."""

ERROR = "error"
WARNING = "warning"
_PARTS = re.compile(r"[^.\[\]]+|\[\d+\]")


class Finding(NamedTuple):
    """An error is refused by the server or an agent; a warning may be meant so, or depends on what is not here."""

    file: str
    line: int | None
    severity: str
    path: str
    message: str


class Complaint(NamedTuple):
    """What a check has to say of one workload or device configuration, by the path within it.

    `text_line` counts within the text that stands there.
    """

    path: Path
    message: str
    severity: str = ERROR
    text_line: int | None = None


class Source(Struct, dict=True):
    """One file. `manifest` is None if nothing could be read."""

    name: str
    text: str
    manifest: Any = None
    faulty: set[Path] = field(default_factory=set)

    @cached_property
    def places(self) -> Places:
        return locate(self.text)

    def line(self, path: Path, text_line: int | None = None) -> int:
        keys = [str(part) for part in path]
        start = self.places.text_line(keys) if text_line else None
        return start + text_line - 1 if start and text_line else self.places.line(keys)


class Report:
    """Owns the findings."""

    def __init__(self) -> None:
        self._findings: list[tuple[int, Finding]] = []
        self._order: dict[str, int] = {}

    def add(self, source: Source, found: Complaint) -> None:
        line = source.line(found.path, found.text_line)
        self._put(Finding(source.name, line, found.severity, path_text(found.path), found.message))

    def add_at(self, source: str, line: int | None, message: str) -> None:
        """An error of a file that has no paths."""
        self._put(Finding(source, line, ERROR, "", message))

    def _put(self, finding: Finding) -> None:
        order = self._order.setdefault(finding.file, len(self._order))
        self._findings.append((order, finding))

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == ERROR for _, finding in self._findings)

    def findings(self) -> list[Finding]:
        """By file and line, in the order of the checks."""
        ordered = sorted(self._findings, key=lambda one: (one[0], one[1].line or 0))
        return list(dict.fromkeys(finding for _, finding in ordered))


def path_text(path: Iterable[str | int]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def path_of(text: str) -> Path:
    """The other way round, as far as texts of errors need it."""
    return tuple(int(part[1:-1]) if part[0] == "[" else part for part in _PARTS.findall(text))
