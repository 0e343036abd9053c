"""Warns about keys of a manifest that have no effect; most are misspelled. The known keys are the declared fields.

Keys that begin with `x-` are allowed everywhere, as in other formats.
"""

from collections.abc import Collection, Iterator
from typing import Any

from ankaios.cli.validation.findings import WARNING, Path, Problem
from ankaios.common.model.kind import Kind
from ankaios.common.model.state import STATE
from ankaios.common.suggestions import suggestion


def unknown_keys(manifest: Any) -> Iterator[Problem]:
    return _walk(manifest, STATE, ())


def check_key(path: Path, key: Any, known: Collection[str]) -> Iterator[Problem]:
    if key in known or not isinstance(key, str) or key.startswith("x-"):
        return
    yield Problem((*path, key), f"unknown key '{key}'{suggestion(key, known, '; it has no effect')}", WARNING)


def _walk(value: Any, kind: Kind | None, path: Path) -> Iterator[Problem]:
    if kind is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, kind.part(index), (*path, index))
    elif isinstance(value, dict):
        for key, inner in value.items():
            if kind.known_keys is not None:
                yield from check_key(path, key, kind.known_keys)
            yield from _walk(inner, kind.part(key), (*path, key))
