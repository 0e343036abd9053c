"""Keys that have no effect. They are allowed, and most of them are mistyped.

Input: a manifest. Output: warnings with the declared key that is nearest. Keys that begin with `x-` are reserved for
other programs and not reported.
"""

from collections.abc import Collection, Iterator
from typing import Any

from ankaios.cli.suggestions import nearest
from ankaios.cli.validation.findings import WARNING, Complaint, Path
from ankaios.common.model.kind import Kind
from ankaios.common.model.state import STATE


def unknown_keys(manifest: Any) -> Iterator[Complaint]:
    return _walk(manifest, STATE, ())


def unknown_key(path: Path, key: Any, known: Collection[str]) -> Iterator[Complaint]:
    """Nothing if the key is known."""
    if key in known or not isinstance(key, str) or key.startswith("x-"):
        return
    guess = nearest(key, known)
    hint = f", did you mean '{guess}'?" if guess else ", it has no effect"
    yield Complaint((*path, key), f"unknown key '{key}'{hint}", WARNING)


def _walk(value: Any, kind: Kind | None, path: Path) -> Iterator[Complaint]:
    if kind is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, kind.part(index), (*path, index))
    elif isinstance(value, dict):
        for key, inner in value.items():
            if kind.known_keys is not None:
                yield from unknown_key(path, key, kind.known_keys)
            yield from _walk(inner, kind.part(key), (*path, key))
