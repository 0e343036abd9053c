"""Keys that nobody reads. They are allowed, and most of them are mistyped.

In comes a manifest; out go warnings with the key that was probably meant. What is known is read from the schema of
manifests, so there is nothing to keep up to date here. Keys that begin with `x-` are meant for nobody, as elsewhere.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any

from ankaios.cli.suggestions import nearest
from ankaios.cli.validation.findings import WARNING, Complaint, Path
from ankaios.common.manifest import schema_text

Schema = Mapping[str, Any]


def unknown_keys(manifest: Any) -> Iterator[Complaint]:
    return _walk(manifest, _schema(), ())


@cache
def _schema() -> Schema:
    schema: Schema = json.loads(schema_text())
    return schema


def unknown_key(path: Path, key: Any, known: Collection[str]) -> Iterator[Complaint]:
    """Nothing if the key is known."""
    if key in known or not isinstance(key, str) or key.startswith("x-"):
        return
    guess = nearest(key, known)
    hint = f", did you mean '{guess}'?" if guess else ", it has no effect"
    yield Complaint((*path, key), f"unknown key '{key}'{hint}", WARNING)


def _walk(value: Any, schema: Schema, path: Path) -> Iterator[Complaint]:
    schema = _resolved(schema)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, schema.get("items", {}), (*path, index))
    elif isinstance(value, dict):
        properties, others = _properties(schema), schema.get("additionalProperties")
        for key, inner in value.items():
            if others is not None and key not in properties:
                yield from _walk(inner, others, (*path, key))
            elif properties:
                yield from unknown_key(path, key, properties)
                yield from _walk(inner, properties.get(key, {}), (*path, key))


def _resolved(schema: Schema) -> Schema:
    """References of our schema are all of the form `#/definitions/<name>`."""
    reference = schema.get("$ref")
    resolved: Schema = _schema()["definitions"][reference.rpartition("/")[2]] if reference else schema
    return resolved


def _properties(schema: Schema) -> dict[str, Schema]:
    """Also those that are known only under a condition."""
    known: dict[str, Schema] = dict(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        known |= part.get("then", {}).get("properties", {})
    return known
