"""The differences between revisions as text. Pure: revisions in, lines out.

The lines have the form of `diff -u`, with the values as YAML, so that they can be read like a change of a manifest.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.yaml_text import dump_yaml


class EntryDifference(NamedTuple):
    """One entry before and after; None means absent."""

    kind: str
    name: str
    before: Any
    after: Any

    def reversed(self) -> "EntryDifference":
        return self._replace(before=self.after, after=self.before)


def net_differences(revisions: Iterable[base.RevisionInfo]) -> list[EntryDifference]:
    """The first value before and the last value after of each entry; equal ones are left out."""
    found: dict[tuple[str, str], EntryDifference] = {}
    for revision in revisions:
        for entry in revision.entries:
            key = (entry.kind, entry.name)
            before = found[key].before if key in found else _value(entry, "before")
            found[key] = EntryDifference(*key, before, _value(entry, "after"))
    return [found[key] for key in sorted(found) if found[key].before != found[key].after]


def _value(entry: base.EntryChange, side: str) -> Any:
    return json.loads(getattr(entry, side)) if entry.HasField(side) else None


def difference_lines(differences: Iterable[EntryDifference]) -> Iterator[str]:
    from difflib import unified_diff

    for each in differences:
        yield f"{each.kind} {each.name}:"
        lines = unified_diff(_lines(each.before), _lines(each.after), lineterm="", n=2)
        yield from [line for line in lines if not line.startswith(("--- ", "+++ "))]


def _lines(value: Any) -> list[str]:
    return [] if value is None else dump_yaml(value).splitlines()
