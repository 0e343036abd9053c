"""Warns about keys of a manifest that have no effect; most are misspelled. The known keys come from the JSON schema.

Keys that begin with `x-` are allowed everywhere, as in other formats.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any

from ankaios.cli.suggestions import nearest
from ankaios.cli.validation.findings import WARNING, Path, Problem
from ankaios.common.manifest import schema_text

Schema = Mapping[str, Any]


def unknown_keys(manifest: Any) -> Iterator[Problem]:
    return _walk(manifest, _schema(), ())


@cache
def _schema() -> Schema:
    schema: Schema = json.loads(schema_text())
    return schema


def check_key(path: Path, key: Any, known: Collection[str]) -> Iterator[Problem]:
    if key in known or not isinstance(key, str) or key.startswith("x-"):
        return
    guess = nearest(key, known)
    hint = f", did you mean '{guess}'?" if guess else ", it has no effect"
    yield Problem((*path, key), f"unknown key '{key}'{hint}", WARNING)


def _walk(value: Any, schema: Schema, path: Path) -> Iterator[Problem]:
    if reference := schema.get("$ref"):  # always of the form `#/definitions/<name>`
        schema = _schema()["definitions"][reference.rpartition("/")[2]]
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, schema.get("items", {}), (*path, index))
    elif isinstance(value, dict):
        properties, others = _properties(schema), schema.get("additionalProperties")
        for key, inner in value.items():
            if others is not None and key not in properties:
                yield from _walk(inner, others, (*path, key))
            elif properties:
                yield from check_key(path, key, properties)
                yield from _walk(inner, properties.get(key, {}), (*path, key))


def _properties(schema: Schema) -> dict[str, Schema]:
    """The known properties, including those that are allowed only under a condition."""
    known: dict[str, Schema] = dict(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        known |= part.get("then", {}).get("properties", {})
    return known
