"""Finds the lines of keys and items in a YAML text. Input: the text. Output: lines by path.

`ryaml`, which reads the values, reports no positions, so PyYAML parses the text a second time, only as events. A text
that PyYAML rejects has positions up to its error; after that, the line of the nearest known key is used.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import yaml
from msgspec import Struct

from ankaios.common.yaml_text import MAX_DEPTH

Path = tuple[str, ...]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser, where PyYAML was built with it


class Duplicate(NamedTuple):
    """A key that is used a second time in its mapping."""

    path: Path
    line: int
    first_line: int


class YamlPositions:
    """Owns the positions that were found. Lines count from 1."""

    def __init__(self) -> None:
        self._lines: dict[Path, int] = {}
        self._texts: dict[Path, int] = {}
        self.duplicates: list[Duplicate] = []

    def line(self, path: Sequence[str]) -> int:
        """The line of the key or item, or of the nearest known key around it."""
        key = tuple(path)
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 1)

    def text_line(self, path: Sequence[str]) -> int | None:
        """The first line of a literal block; None for other texts, whose lines are not those of the file."""
        return self._texts.get(tuple(path))

    def add(self, path: Path, line: int) -> None:
        if path in self._lines:
            self.duplicates.append(Duplicate(path, line, self._lines[path]))
        else:
            self._lines[path] = line

    def add_literal(self, path: Path, line: int) -> None:
        self._texts.setdefault(path, line)


class _Collection(Struct):
    """A mapping or sequence that has not ended. `key` is the key whose value is next, `index` the next item."""

    path: Path
    is_mapping: bool
    key: str | None = None
    index: int = 0


def find_positions(text: str) -> YamlPositions:
    positions = YamlPositions()
    open_collections: list[_Collection] = []
    with suppress(yaml.YAMLError):
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionEndEvent):
                open_collections.pop()
            elif isinstance(event, yaml.NodeEvent):
                path = _node_path(event, open_collections[-1], positions) if open_collections else ()
                if isinstance(event, yaml.CollectionStartEvent):
                    open_collections.append(_Collection(path, isinstance(event, yaml.MappingStartEvent)))
            elif isinstance(event, yaml.DocumentEndEvent):
                break
            if len(open_collections) > MAX_DEPTH:
                break
    return positions


def _node_path(event: yaml.NodeEvent, parent: _Collection, positions: YamlPositions) -> Path:
    """The path of a node in its collection. Stores the line of a key or item."""
    line = event.start_mark.line + 1 if event.start_mark else 1
    if not parent.is_mapping:
        path = (*parent.path, str(parent.index))
        parent.index += 1
        positions.add(path, line)
    elif parent.key is None:
        # A key that is a collection or an alias has no name; such a manifest is rejected.
        parent.key = event.value if isinstance(event, yaml.ScalarEvent) else "?"
        path = (*parent.path, parent.key)
        positions.add(path, line)
        return path
    else:
        path = (*parent.path, parent.key)
        parent.key = None
    if isinstance(event, yaml.ScalarEvent) and event.style == "|":
        positions.add_literal(path, line + 1)
    return path
