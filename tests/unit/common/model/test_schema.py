"""The JSON schema, and the findings about manifests that are derived from the same declaration."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from ankaios.common.model.containers import ListOf, MapOf
from ankaios.common.model.kind import Kind
from ankaios.common.model.scalars import Boolean, Integer, Text, Words
from ankaios.common.model.schema import manifest_schema, schema_text
from ankaios.common.model.state import FILE, NAME, RULE, STATE
from tests.support.examples import examples
from tests.unit.common.model.kinds import values

VALIDATOR = Draft7Validator(manifest_schema())


def found(kind: Kind, value: Any) -> list[tuple[str, str]]:
    return list(kind.violations(value, ""))


def test_the_schema_is_a_valid_schema_and_is_printed_as_json() -> None:
    Draft7Validator.check_schema(manifest_schema())
    assert json.loads(schema_text()) == manifest_schema()


@examples(100)
@given(values(STATE, sound=False))
def test_findings_are_made_for_exactly_the_values_that_the_schema_forbids(value: Any) -> None:
    """Findings are compared with those of an independent validator of the schema."""
    assert bool(found(STATE, value)) != VALIDATOR.is_valid(value)


@examples(100)
@given(values(STATE, sound=False))
def test_findings_contain_the_positions_that_the_schema_forbids(value: Any) -> None:
    places = {"".join(f"/{part}" for part in error.absolute_path) for error in VALIDATOR.iter_errors(value)}
    assert {place for place, _ in found(STATE, value)} == places


@examples(100)
@given(
    st.one_of(
        *(
            st.tuples(st.just(section), values(STATE.fields[section].kind, sound=True))
            for section in ("workloads", "configs", "deviceConfigurations")
        )
    )
)
def test_values_that_the_schema_allows_are_readable_by_the_server(entries: tuple[str, Any]) -> None:
    manifest = {"apiVersion": "v1", entries[0]: entries[1]}
    if VALIDATOR.is_valid(manifest):
        STATE.read(manifest)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Text(), 5, '5 is not of type "string"'),
        (Integer(), True, 'true is not of type "integer"'),
        (Integer(), 1.5, '1.5 is not of type "integer"'),
        (Integer(minimum=1), 0, "0 is less than the minimum of 1"),
        (Boolean(), 1, '1 is not of type "boolean"'),
        (Words("A", "B", "C"), "X", '"X" is not one of "A", "B" or "C"'),
        (Words("A", "B"), [], '[] is not one of "A" or "B"'),
        (Text("^v1$"), "v3", '"v3" does not match "^v1$"'),
        (Text("^v1$"), "v1\n", '"v1\\n" does not match "^v1$"'),
        (Text(max_length=2), "abc", '"abc" is longer than 2 characters'),
        (ListOf(Text()), {}, '{} is not of type "array"'),
        (MapOf(Text()), None, 'null is not of type "object"'),
        (MapOf(Text(), may_be_blank=True), 5, '5 is not of types "object", "null"'),
        (MapOf(Text(), keys=NAME), {"x" * 64: "a"}, f'"{"x" * 64}" is longer than 63 characters'),
        (FILE, {"data": "x"}, '"mountPoint" is a required property'),
        (FILE, {"mountPoint": "/a"},
         '{"mountPoint":"/a"} is not valid under any of the schemas listed in the \'oneOf\' keyword'),
        (FILE, {"mountPoint": "", "data": "", "binaryData": ""},
         '{"mountPoint":"","data":"","binaryData":""} is valid under more than one of the schemas listed in the '
         "'oneOf' keyword"),
        (RULE, [], '[] is not of type "object"'),
        (RULE, {}, '"type" is a required property'),
        (RULE, {"type": "LogRule"}, '"workloadNames" is a required property'),
    ],
)  # fmt: skip
def test_a_finding_has_the_words_of_json_schema_validators(kind: Kind, value: Any, text: str) -> None:
    assert found(kind, value) == [("", text)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(MapOf(Text(), may_be_blank=True), None), (Text("^b$"), "b"), (Boolean(), False), (Integer(), 0)],
)
def test_a_valid_value_has_no_findings(kind: Kind, value: Any) -> None:
    assert found(kind, value) == []


def test_positions_are_json_pointers() -> None:
    assert found(MapOf(ListOf(Text())), {"a/b": [1], "c~": ["x", 2]}) == [
        ("/a~1b/0", '1 is not of type "string"'),
        ("/c~0/1", '2 is not of type "string"'),
    ]


def test_long_values_are_shortened() -> None:
    ((_, text),) = found(Integer(), "x" * 1000)
    assert len(text) < 200 and text.endswith('... is not of type "integer"')


def test_a_rule_without_type_is_one_fault_and_not_that_of_every_type() -> None:
    workload = {"runtime": "r", "runtimeConfig": "c", "controlInterfaceAccess": {"allowRules": [{}]}}
    manifest = {"apiVersion": "v1", "workloads": {"w": workload}}
    place = "/workloads/w/controlInterfaceAccess/allowRules/0"
    assert found(STATE, manifest) == [(place, '"type" is a required property')]
    assert [error.message for error in VALIDATOR.iter_errors(manifest)] == ["'type' is a required property"]
