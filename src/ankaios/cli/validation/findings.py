"""Findings of `ank validate`. Checks report problems by path; the report adds the file and the line."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct, field

from ankaios.cli.validation.yaml_positions import YamlPositions, find_positions
from ankaios.common.errors import Rejected

Form = dict[str, Any]
Path = tuple[str | int, ...]
"""Keys and, as numbers, positions in lists."""

ERROR = "error"
WARNING = "warning"
HINT = "hint"
_PARTS = re.compile(r"[^.\[\]]+|\[\d+\]")


class ManifestFinding(NamedTuple):
    """The server or an agent rejects an error; a warning may be intended, or depends on what is not in the files.

    A hint recommends something that makes no difference to whether the manifest works.
    """

    file: str
    line: int | None
    severity: str
    path: str
    message: str


class Problem(NamedTuple):
    """The result of a check. `path` is relative to the checked entry, `text_line` to the text at that path."""

    path: Path
    message: str
    severity: str = ERROR
    text_line: int | None = None


def problems_of(path: Path, check: Callable[..., object], *arguments: object) -> Iterator[Problem]:
    """The problem at the path if the check rejects the arguments."""
    try:
        check(*arguments)
    except Rejected as error:
        yield Problem(path, str(error))


class ManifestFile(Struct, dict=True):
    """One file. `manifest` is None if the text could not be read; `rejected` are the paths with errors so far."""

    name: str
    text: str
    manifest: Any = None
    rejected: set[Path] = field(default_factory=set)

    @cached_property
    def positions(self) -> YamlPositions:
        return find_positions(self.text)

    def line(self, path: Path, text_line: int | None = None) -> int:
        keys = [str(part) for part in path]
        start = self.positions.text_line(keys) if text_line else None
        return start + text_line - 1 if start and text_line else self.positions.line(keys)


class ValidationReport:
    """Owns the findings."""

    def __init__(self) -> None:
        self._findings: list[ManifestFinding] = []

    def add(self, file: ManifestFile, problem: Problem) -> None:
        line = file.line(problem.path, problem.text_line)
        path = path_text(problem.path)
        self._findings.append(ManifestFinding(file.name, line, problem.severity, path, problem.message))

    def add_error(self, file: ManifestFile, line: int | None, message: str) -> None:
        """Add an error of a file that could not be read, so that there are no paths."""
        self._findings.append(ManifestFinding(file.name, line, ERROR, "", message))

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == ERROR for finding in self._findings)

    def findings(self) -> list[ManifestFinding]:
        """Each finding once, sorted by file and line. If there are errors, there are no hints."""
        shown = [finding for finding in self._findings if finding.severity != HINT or not self.has_errors]
        files = list(dict.fromkeys(finding.file for finding in shown))
        order = {file: index for index, file in enumerate(files)}
        ordered = sorted(shown, key=lambda finding: (order[finding.file], finding.line or 0))
        return list(dict.fromkeys(ordered))


def path_text(path: Iterable[str | int]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def path_of(text: str) -> Path:
    """The inverse of `path_text`, for the paths in error messages."""
    return tuple(int(part[1:-1]) if part[0] == "[" else part for part in _PARTS.findall(text))
