"""The JSON schema of manifests, for editors and other programs. Output: draft 7, derived from the declared state."""

from __future__ import annotations

from ankaios.common.model.kind import Schema
from ankaios.common.model.state import API_VERSION, STATE

DESCRIPTION = (
    "Workloads, configuration items and device configurations for 'ank apply' and for the startup manifest of "
    "'ank-server'. Unknown keys are allowed and ignored."
)


def manifest_schema() -> Schema:
    definitions: dict[str, Schema] = {}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"https://ankaios.dev/schemas/manifest-{API_VERSION}.json",
        "title": "Ankaios manifest",
        "description": DESCRIPTION,
        **STATE.object_schema(definitions),
        "definitions": definitions,
    }


def schema_text() -> str:
    import json

    return json.dumps(manifest_schema(), indent=2) + "\n"
