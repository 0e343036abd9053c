"""Kinds of many values: maps from names to values, and lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ankaios.common.model.kind import Composite, Kind, Schema
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


class Collection(Composite):
    """A bare container of protobuf."""

    is_collection = True

    def __init__(self, element: Kind) -> None:
        self.element = element

    def put_field(self, message: Any, attribute: str, value: Any) -> None:
        self.fill(getattr(message, attribute), value)

    def part(self, key: Any) -> Kind:
        return self.element


class MapOf(Collection):
    """Entries by name; forms are sorted by name. `keys` is the naming rule of manifests."""

    def __init__(self, element: Kind, keys: Text | None = None, *, may_be_blank: bool = False) -> None:
        super().__init__(element)
        self._keys = keys
        self._types = ["object", "null"] if may_be_blank else ["object"]

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
        put, key = self.element.put_entry, ""
        try:
            for key, item in value.items():
                put(target, key, item)
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
        for key in value if self._keys else ():
            # A number as key is reported by the function that uses the name.
            yield from self._keys.violations(str(key), at) if self._keys else ()
        for key, item in value.items():
            yield from self.element.violations(item, pointer(at, key))

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        schema: Schema = {"type": self._types if len(self._types) > 1 else self._types[0]}
        if self._keys is not None:
            schema["propertyNames"] = self._keys.schema(definitions)
        return schema | {"additionalProperties": self.element.schema(definitions)}


class WrappedMap(MapOf):
    """A map that is the only field of a protobuf message, which is itself an entry of a map."""

    is_collection = False

    def __init__(self, attribute: str, element: Kind) -> None:
        super().__init__(element)
        self._attribute = attribute

    def to_form(self, value: Any) -> Form:
        return super().to_form(getattr(value, self._attribute))

    def fill(self, target: Any, value: Any) -> None:
        super().fill(getattr(target, self._attribute), value)


class ListOf(Collection):
    """Values in the given order."""

    def to_form(self, value: Any) -> list[Any]:
        return list(map(self.element.to_form, value))

    def fill(self, target: Any, value: Any) -> None:
        if not isinstance(value, list):
            raise wrong_type(value, "a sequence")
        put, index = self.element.put_item, 0
        try:
            for index, item in enumerate(value):  # noqa: B007 - the place of a malformed item
                put(target, item)
        except Malformed as fault:
            raise fault.below(f"[{index}]") from None

    def read(self, value: Any) -> list[Any]:
        items, read = read_list(value), self.element.read
        form: list[Any] = []
        try:
            for item in items:
                form.append(read(item))  # noqa: PERF401 - the length is the place of a malformed item
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
