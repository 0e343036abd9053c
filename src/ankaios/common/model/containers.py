"""Kinds of many values: maps from names to values, lists, and the messages that protobuf wraps around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ankaios.common.model.kind import Composite, Kind, Scalar, Schema
from ankaios.common.model.scalars import Text
from ankaios.common.model.values import (
    Form,
    Malformed,
    Violation,
    not_of_type,
    pointer,
    read_list,
    read_map,
    wrong_type,
)


class MapOf(Composite):
    """Entries by name; forms are sorted by name. `keys` is the naming rule of manifests."""

    is_collection = True

    def __init__(self, element: Kind, keys: Text | None = None, *, may_be_blank: bool = False) -> None:
        self.element = element
        self.keys = keys
        self._types = ("object", "null") if may_be_blank else ("object",)

    def to_form(self, value: Any) -> Form:
        if isinstance(self.element, Text):
            return {key: value[key] for key in sorted(value)}
        convert = self.element.to_form
        return {key: convert(value[key]) for key in sorted(value)}

    def fill(self, target: Any, value: Any) -> None:
        if value is None and "null" in self._types:
            return
        if not isinstance(value, dict):
            raise wrong_type(value, "a map")
        if isinstance(self.element, Text):
            for key, item in value.items():
                target[key] = item
        elif isinstance(self.element, Scalar):
            for key, item in value.items():
                target[key] = self.element.to_wire(item)
        elif isinstance(self.element, Composite):
            self._fill_entries(self.element.fill, target, value)

    def _fill_entries(self, fill: Callable[[Any, Any], None], target: Any, value: Form) -> None:
        key = ""
        try:
            for key, item in value.items():
                fill(target[key], item)
        except Malformed as fault:
            raise fault.below(key) from None

    def read(self, value: Any) -> Form:
        entries, read = read_map(value), self.element.read
        form, key = {}, ""
        try:
            for key, item in entries.items():
                form[key] = read(item)
        except Malformed as fault:
            raise fault.below(key) from None
        return form

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        if value is None and "null" in self._types:
            return
        if not isinstance(value, dict):
            yield at, not_of_type(value, *self._types)
            return
        if self.keys is not None:
            for key in value:
                # A number as key is reported by the function that uses the name.
                yield from self.keys.violations(str(key), at)
        for key, item in value.items():
            yield from self.element.violations(item, pointer(at, key))

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        schema: Schema = {"type": self._types[0] if len(self._types) == 1 else list(self._types)}
        if self.keys is not None:
            schema["propertyNames"] = self.keys.schema(definitions)
        return schema | {"additionalProperties": self.element.schema(definitions)}

    def part(self, key: Any) -> Kind:
        return self.element


class ListOf(Composite):
    """Values in the given order."""

    is_collection = True
    empty_type = list

    def __init__(self, element: Kind) -> None:
        self.element = element

    def to_form(self, value: Any) -> list[Any]:
        return list(map(self.element.to_form, value))

    def fill(self, target: Any, value: Any) -> None:
        if not isinstance(value, list | tuple):
            raise wrong_type(value, "a sequence")
        if isinstance(self.element, Scalar):
            target.extend(map(self.element.to_wire, value))
        elif isinstance(self.element, Composite):
            self._fill_items(self.element.fill, target, value)

    def _fill_items(self, fill: Callable[[Any, Any], None], target: Any, value: Sequence[Any]) -> None:
        try:
            for item in value:
                fill(target.add(), item)
        except Malformed as fault:
            raise fault.below(f"[{len(target) - 1}]") from None

    def read(self, value: Any) -> list[Any]:
        items, read = read_list(value), self.element.read
        form: list[Any] = []
        try:
            for item in items:
                form.append(read(item))  # noqa: PERF401 - the length tells which item is malformed
        except Malformed as fault:
            raise fault.below(f"[{len(form)}]") from None
        return form

    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        if not isinstance(value, list):
            yield at, not_of_type(value, "array")
            return
        for index, item in enumerate(value):
            yield from self.element.violations(item, pointer(at, index))

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": "array", "items": self.element.schema(definitions)}

    def part(self, key: Any) -> Kind:
        return self.element


class WrappedMap(MapOf):
    """A map that is the only field of a protobuf message; the form has the map alone."""

    is_collection = False

    def __init__(self, attribute: str, element: Kind) -> None:
        super().__init__(element)
        self._attribute = attribute

    def to_form(self, value: Any) -> Form:
        return super().to_form(getattr(value, self._attribute))

    def fill(self, target: Any, value: Any) -> None:
        super().fill(getattr(target, self._attribute), value)
