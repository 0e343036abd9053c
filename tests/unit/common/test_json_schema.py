"""The validator: every keyword that our schema uses, and the texts people read."""

import json
from typing import Any

import pytest

from ankaios.common.json_schema import _KEYWORDS, _NOTES, Validator
from ankaios.common.manifest import schema_text


def found(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    return Validator(schema).violations(value)


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"type": "string"}, 5, '5 is not of type "string"'),
        ({"type": ["string", "null"]}, True, 'true is not of types "string", "null"'),
        ({"type": "integer"}, True, 'true is not of type "integer"'),
        ({"type": "integer"}, 1.5, '1.5 is not of type "integer"'),
        ({"enum": ["A", "B", "C"]}, "X", '"X" is not one of "A", "B" or "C"'),
        ({"enum": [1]}, True, "true is not one of 1"),
        ({"const": "A"}, "B", '"A" was expected'),
        ({"pattern": "^v1$"}, "v3", '"v3" does not match "^v1$"'),
        ({"pattern": "^v1$"}, "v1\n", '"v1\\n" does not match "^v1$"'),
        ({"maxLength": 2}, "abc", '"abc" is longer than 2 characters'),
        ({"minimum": 1}, 0, "0 is less than the minimum of 1"),
        ({"required": ["a"]}, {}, '"a" is a required property'),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, '"ab" is longer than 1 characters'),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            "{} is not valid under any of the schemas listed in the 'oneOf' keyword",
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 2},
            '{"a":1,"b":2} is valid under more than one of the schemas listed in the \'oneOf\' keyword',
        ),
    ],
)
def test_violations_are_told(schema: dict[str, Any], value: Any, told: str) -> None:
    assert found(schema, value) == [("", told)]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object"}, {}),
        ({"type": "array"}, []),
        ({"type": "number"}, 1.5),
        ({"type": "boolean"}, False),
        ({"type": ["string", "null"]}, None),
        ({"pattern": "^v1$"}, "v1"),
        ({"pattern": "b"}, "abc"),
        ({"pattern": "x"}, 5),
        ({"minimum": 1}, "text"),
        ({"required": ["a"]}, []),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {}),
    ],
)
def test_what_is_right_or_not_meant_passes(schema: dict[str, Any], value: Any) -> None:
    assert found(schema, value) == []


def test_places_are_json_pointers() -> None:
    schema = {
        "properties": {"a/b": {"type": "string"}},
        "additionalProperties": {"items": {"type": "string"}},
    }
    assert found(schema, {"a/b": 1, "c~": ["x", 2]}) == [
        ("/a~1b", '1 is not of type "string"'),
        ("/c~0/1", '2 is not of type "string"'),
    ]


def test_references_conditions_and_conjunctions_are_followed() -> None:
    schema = {
        "definitions": {"name": {"type": "string"}},
        "allOf": [
            {"$ref": "#/definitions/name"},
            {"if": {"const": 5}, "then": {"enum": ["six"]}},
        ],
    }
    assert found(schema, 5) == [("", '5 is not of type "string"'), ("", '5 is not one of "six"')]


def test_long_values_are_shortened() -> None:
    ((_, told),) = found({"type": "null"}, "x" * 1000)
    assert len(told) < 200 and told.endswith('... is not of type "null"')


def test_the_shipped_schema_uses_only_known_keywords() -> None:
    def keywords(schema: Any) -> set[str]:
        words: set[str] = set()
        for word, inner in schema.items():
            words.add(word)
            if word in ("properties", "definitions"):
                schemas = list(inner.values())
            elif word in ("allOf", "oneOf"):
                schemas = inner
            else:
                schemas = [inner] if isinstance(inner, dict) else []
            for one in schemas:
                words |= keywords(one)
        return words

    assert keywords(json.loads(schema_text())) <= _NOTES | set(_KEYWORDS)
