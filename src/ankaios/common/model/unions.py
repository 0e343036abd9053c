"""Kinds whose content determines their structure: tagged variants, configuration items and execution states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ankaios.common.errors import Rejected
from ankaios.common.execution_state_conversion import execution_state_from_pb, set_execution_state
from ankaios.common.health import IMAGE_WORD
from ankaios.common.model.containers import ListOf, MapOf
from ankaios.common.model.kind import Composite, Kind, Schema
from ankaios.common.model.message import Message
from ankaios.common.model.objects import Field, Object
from ankaios.common.model.scalars import Text, Words
from ankaios.common.model.values import Form, Malformed, Violation, not_of_type, pointer, read_map, shown, wrong_type
from ankaios.common.pb import ank_base_pb2 as base

# The limit of protobuf: each level of a config item needs three of its hundred levels.
MAX_CONFIG_DEPTH = 29


class Variants(Composite):
    """A protobuf oneof of messages. The form has the fields of one of them, and its name in the field `type`."""

    tag = "type"

    def __init__(self, wire: Any, description: str, /, **variants: Object) -> None:
        self.wire = wire
        self.name = wire.DESCRIPTOR.name[0].lower() + wire.DESCRIPTOR.name[1:]
        self.variants = variants
        self.tag_field = Field(Words(*variants), description, required=True)
        self.known_keys = [self.tag, *(key for variant in variants.values() for key in variant.fields)]

    def to_form(self, value: Any) -> Form:
        for word, variant in self.variants.items():
            if value.HasField(variant.name):
                return {self.tag: word, **variant.to_form(getattr(value, variant.name))}
        raise Rejected(f"{self.wire.DESCRIPTOR.name} is neither {' nor '.join(self.variants)}")

    def fill(self, target: Any, value: Any) -> None:
        variant = self.variants[self._word(read_map(value))]
        variant.put_field(target, variant.name, value)

    def read(self, value: Any) -> Form:
        given = read_map(value)
        word = self._word(given)
        return {self.tag: word, **self.variants[word].read(given)}

    def _word(self, given: Form) -> str:
        if self.tag not in given:
            raise Malformed(f"missing field `{self.tag}`")
        word: str = self.tag_field.kind.read_at(given[self.tag], self.tag)
        return word

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        if not isinstance(value, dict):
            yield at, not_of_type(value, "object")
        elif self.tag not in value:
            yield at, f"{shown(self.tag)} is a required property"
        elif value[self.tag] not in tuple(self.variants):
            yield from self.tag_field.kind.violations(value[self.tag], pointer(at, self.tag))
        else:
            yield from self.variants[value[self.tag]].violations(value, at)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        properties = {self.tag: self.tag_field.schema(definitions)}
        conditions = [
            {
                "if": {"properties": {self.tag: {"const": word}}, "required": [self.tag]},
                "then": variant.object_schema(definitions),
            }
            for word, variant in self.variants.items()
        ]
        schema = {"type": "object", "required": [self.tag], "properties": properties, "allOf": conditions}
        definitions[self.name] = schema
        return {"$ref": f"#/definitions/{self.name}"}

    def part(self, key: Any) -> Kind | None:
        return next((variant.part(key) for variant in self.variants.values() if key in variant.fields), None)


class TextSources(Composite):
    """Texts by name. Instead of a text, an object with one key can name its source; `sources` are these keys.

    In protobuf, texts and the references of each source are maps of one message: `values`, `configs`, `files`.
    """

    name = "textSource"

    def __init__(self, **sources: Field) -> None:
        self.sources = sources

    def to_form(self, value: Any) -> Form:
        form: Form = dict(value.values)
        for source in self.sources:
            form |= {key: {source: reference} for key, reference in getattr(value, f"{source}s").items()}
        return dict(sorted(form.items()))

    def fill(self, target: Any, value: Any) -> None:
        for key, entry in self.read(value).items():
            if isinstance(entry, str):
                target.values[key] = entry
            else:
                ((source, reference),) = entry.items()
                getattr(target, f"{source}s")[key] = reference

    def read(self, value: Any) -> Form:
        form, key = {}, ""
        try:
            for key, entry in read_map(value).items():
                form[key] = entry if isinstance(entry, str) else self._read_reference(entry)
        except Malformed as fault:
            raise fault.below(key) from None
        return form

    def _read_reference(self, entry: Any) -> Form:
        keys = " or ".join(f"`{source}`" for source in self.sources)
        if not isinstance(entry, dict):
            raise wrong_type(entry, f"a string or a map with {keys}")
        if len(entry) != 1 or not entry.keys() <= self.sources.keys():
            raise Malformed(f"expected a map with exactly one key, {keys}")
        ((source, reference),) = entry.items()
        return {source: self.sources[source].kind.read_at(reference, source)}

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        if not isinstance(value, dict):
            yield at, not_of_type(value, "object")
            return
        for key, entry in value.items():
            yield from self._entry_violations(entry, pointer(at, key))

    def _entry_violations(self, entry: Any, at: str) -> Iterator[Violation]:
        if isinstance(entry, str):
            return
        if not isinstance(entry, dict):
            yield at, not_of_type(entry, "string", "object")
        elif len(entry) != 1 or not entry.keys() <= self.sources.keys():
            yield at, f"{shown(entry)} is not valid under any of the schemas listed in the 'oneOf' keyword"
        else:
            for source, reference in entry.items():
                yield from self.sources[source].kind.violations(reference, pointer(at, source))

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        references = [
            {
                "type": "object",
                "required": [source],
                "additionalProperties": False,
                "properties": {source: kind.schema(definitions)},
            }
            for source, kind in self.sources.items()
        ]
        definitions[self.name] = {"oneOf": [{"type": "string"}, *references]}
        return {"type": "object", "additionalProperties": {"$ref": f"#/definitions/{self.name}"}}


class ConfigItem(Composite):
    """A string, or lists and maps of config items. `levels` is the maximum nesting depth."""

    name = "configItem"
    description = "A string, a list or a map. Numbers and booleans must be quoted."

    def __init__(self, keys: Text, levels: int = MAX_CONFIG_DEPTH) -> None:
        self._levels = levels
        self._keys = keys
        inner = ConfigItem(keys, levels - 1) if levels else self
        self._list = ListOf(inner)
        self._map = MapOf(inner, keys)

    def to_form(self, value: Any) -> Any:
        match value.WhichOneof("ConfigItemEnum"):
            case "String":
                return value.String
            case "array":
                return self._list.to_form(value.array.values)
            case "object":
                return self._map.to_form(value.object.fields)
            case _:
                raise Rejected("a config item is neither a string, a list nor a map")

    def fill(self, target: Any, value: Any) -> None:
        if isinstance(value, str):
            target.String = value
        elif isinstance(value, list):
            target.array.SetInParent()
            self._list.fill(target.array.values, value)
        elif isinstance(value, dict):
            target.object.SetInParent()
            self._map.fill(target.object.fields, read_map(value))
        else:
            raise wrong_type(value, "a string, a sequence or a map")

    def read(self, value: Any) -> Any:
        if not self._levels:
            raise Malformed(f"config items may be nested {MAX_CONFIG_DEPTH} deep at most")
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return self._list.read(value)
        if isinstance(value, dict):
            return self._map.read(value)
        raise wrong_type(value, "a string, a sequence or a map")

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        if isinstance(value, list):
            yield from self._list.violations(value, at)
        elif isinstance(value, dict):
            yield from self._map.violations(value, at)
        elif not isinstance(value, str):
            yield at, not_of_type(value, "string", "array", "object")

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        reference = {"$ref": f"#/definitions/{self.name}"}
        definitions[self.name] = {
            "description": self.description,
            "type": ["string", "array", "object"],
            "items": reference,
            "propertyNames": self._keys.schema(definitions),
            "additionalProperties": reference,
        }
        return reference


class ExecutionStateKind(Object):
    """An execution state as words. Masks may select a part; state and substate are always selected together."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        super().__init__("executionState", fields)
        details = {name: field for name, field in fields.items() if name not in ("state", "subState")}
        self._details = Message(base.ExecutionState, **details)

    def to_form(self, value: Any) -> Form:
        form = self._details.to_form(value)
        if value.WhichOneof("ExecutionStateEnum"):
            state = execution_state_from_pb(value)
            form |= {"state": state.state, "subState": state.sub_state}
        return {name: form[name] for name in self.fields if name in form}

    def fill(self, target: Any, value: Any) -> None:
        self._details.fill(target, value)
        if "state" in value:
            try:
                set_execution_state(target, value["state"], value["subState"])
            except KeyError:
                raise Malformed("state and subState are no known execution state") from None


class HealthKind(Message[base.Health]):
    """The health checks of a workload: at least one, or the word `image` for the check of the container image."""

    checks = ("image", "exec", "http", "tcp", "file", "notify")

    def fill(self, target: base.Health, value: Any) -> None:
        super().fill(target, _spelled_out(value))

    def read(self, value: Any) -> Form:
        form = super().read(_spelled_out(value))
        if form.keys().isdisjoint(self.checks):
            raise Malformed(f"expected at least one of {', '.join(f'`{name}`' for name in self.checks)}")
        return form

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        if value == IMAGE_WORD:
            return
        yield from super().violations(value, at)
        if isinstance(value, dict) and value.keys().isdisjoint(self.checks):
            yield at, f"{shown(value)} has no check, expected at least one of {', '.join(self.checks)}"

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"if": {"const": IMAGE_WORD}, "else": super().schema(definitions)}

    def object_schema(self, definitions: dict[str, Schema]) -> Schema:
        return super().object_schema(definitions) | {"anyOf": [{"required": [name]} for name in self.checks]}


def _spelled_out(value: Any) -> Any:
    return {"image": True} if value == IMAGE_WORD else value
