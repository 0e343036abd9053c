"""Objects with declared fields, as plain values: strict reading, schema findings and the JSON schema.

Input: the fields of the object. The order of their declaration is that of the reference and of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ankaios.common.model.kind import Composite, Kind, Schema
from ankaios.common.model.values import Form, Malformed, Violation, not_of_type, pointer, read_map, shown


class Field(Struct, frozen=True):
    """One field of an object. `description` is one or a few sentences for the schema and the reference."""

    kind: Kind
    description: str
    required: bool = False
    may_be_supplied: bool = False
    """A manifest may lack the required field: the command line or the server supplies it."""
    default: Any = None
    """The value of a missing field."""
    stores_default: bool = False
    """The default is written into the state. Other defaults are applied where the field is used."""
    former_name: str = ""
    """The name in manifests of the deprecated version."""
    keeps_empty: bool | None = None
    """Whether an empty value differs from a missing one. By default it does for messages and required fields."""

    @property
    def drops_empty(self) -> bool:
        if self.keeps_empty is not None:
            return not self.keeps_empty
        return self.kind.is_collection and not self.required

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        schema = {"description": self.description, **self.kind.schema(definitions)}
        return schema if self.default is None else schema | {"default": self.default}


class Object(Composite):
    """`name` is the name of the definition in the schema. Exactly one of the `alternatives` must be given.

    `order` is the order of the fields in forms.
    """

    def __init__(
        self, name: str, fields: Mapping[str, Field], alternatives: Sequence[str] = (), order: Iterable[str] = ()
    ) -> None:
        self.name = name
        self.fields = dict(fields)
        self.alternatives = alternatives
        self.known_keys = self.fields.keys()
        self.required = [name for name, field in fields.items() if field.required]
        self.former_names = {field.former_name: name for name, field in fields.items() if field.former_name}
        self._required_in_manifest = [name for name in self.required if not fields[name].may_be_supplied]
        self._readers = [
            (name, field.kind.read, field.default if field.stores_default else None, field.required, field.drops_empty)
            for name in order or fields
            if (field := self.fields[name])
        ]

    def read(self, value: Any) -> Form:
        given = read_map(value)
        if self.former_names:
            given = {self.former_names.get(name, name): part for name, part in given.items()}
        form: Form = {}
        missing = ""
        try:
            for name, read, default, required, drops_empty in self._readers:
                part = given.get(name)
                if part is not None or (required and name in given):
                    part = read(part)
                    if part or not drops_empty:
                        form[name] = part
                elif required:
                    missing = name
                    break
                elif default is not None:
                    form[name] = default
        except Malformed as fault:
            raise fault.below(name) from None
        if missing:
            raise Malformed(f"missing field `{missing}`")
        if self.alternatives and sum(name in form for name in self.alternatives) != 1:
            raise Malformed(f"expected one of {' and '.join(f'`{name}`' for name in self.alternatives)}")
        return form

    def value_in(self, form: Form, name: str) -> Any:
        """Return the value of a field of a form, or the declared default if it is missing."""
        return form.get(name, self.fields[name].default)

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        if not isinstance(value, dict):
            yield at, not_of_type(value, "object")
            return
        for name in self._required_in_manifest:
            if name not in value:
                yield at, f"{shown(name)} is a required property"
        for name, field in self.fields.items():
            if name in value:
                yield from field.kind.violations(value[name], pointer(at, name))
        given = sum(name in value for name in self.alternatives)
        if self.alternatives and given != 1:
            valid = "valid under more than one" if given else "not valid under any"
            yield at, f"{shown(value)} is {valid} of the schemas listed in the 'oneOf' keyword"

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        if self.name not in definitions:
            definitions[self.name] = {}  # reserves the position before the definitions that it refers to
            definitions[self.name] = self.object_schema(definitions)
        return {"$ref": f"#/definitions/{self.name}"}

    def object_schema(self, definitions: dict[str, Schema]) -> Schema:
        schema: Schema = {"type": "object"}
        if self._required_in_manifest:
            schema["required"] = self._required_in_manifest
        schema["properties"] = {name: field.schema(definitions) for name, field in self.fields.items()}
        if self.alternatives:
            schema["oneOf"] = [{"required": [name]} for name in self.alternatives]
        return schema

    def part(self, key: Any) -> Kind | None:
        return self.fields[key].kind if key in self.fields else None

    def empty_parts(self) -> Form:
        """Strict reading of a blank value returns the empty value."""
        return {name: field.kind.read(None) for name, field in self.fields.items() if field.drops_empty}
