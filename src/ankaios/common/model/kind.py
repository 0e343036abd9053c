"""What every kind of value offers. Input: a declaration. Output: all that is derived from it, one method for each use.

Protobuf values are the scalars, containers and messages of the generated classes. Conversion from them raises
`Rejected` for an unknown number or an unset oneof; conversion to them and strict reading raise `Malformed`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import Any

from ankaios.common.model.values import Form, Malformed, Violation

Schema = dict[str, Any]


class Kind(ABC):
    """What a field, an item of a list or an entry of a map may hold."""

    is_collection = False
    """A container of protobuf is no message: to tell an unset one from an empty one, a message is put around it."""

    known_keys: Collection[str] | None = None
    """The keys of an object with declared fields; None if any key is allowed or the value has no keys."""

    def to_form(self, value: Any) -> Any:
        """Protobuf value to plain form."""
        return value

    @abstractmethod
    def put_field(self, message: Any, attribute: str, value: Any) -> None:
        """Plain form to protobuf, as field of a message. Any part may be missing; unknown keys are ignored."""

    @abstractmethod
    def put_entry(self, container: Any, key: str, value: Any) -> None:
        """Plain form to protobuf, as entry of a map."""

    @abstractmethod
    def put_item(self, container: Any, value: Any) -> None:
        """Plain form to protobuf, as next item of a list."""

    @abstractmethod
    def read(self, value: Any) -> Any:
        """Any value to the form in which the server stores it, or `Malformed`."""

    def read_at(self, value: Any, path: str) -> Any:
        """As `read`; errors name the place from the given path on."""
        try:
            return self.read(value)
        except Malformed as fault:
            raise fault.below(path) from None

    @abstractmethod
    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        """Everything that the JSON schema forbids, in the order of the schema. `at` is the pointer to the value."""

    @abstractmethod
    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """The JSON schema; what it refers to by name is added to the definitions."""

    def part(self, key: Any) -> Kind | None:
        """The kind of the value below the key or index, if it is declared."""
        return None

    def empty_parts(self) -> Form:
        """The fields that are left out of the form when they are empty, each with its empty value."""
        return {}


class Composite(Kind):
    """A protobuf message or container, filled in place."""

    @abstractmethod
    def fill(self, target: Any, value: Any) -> None:
        """Plain form to protobuf."""

    def put_field(self, message: Any, attribute: str, value: Any) -> None:
        part = getattr(message, attribute)
        part.SetInParent()
        self.fill(part, value)

    def put_entry(self, container: Any, key: str, value: Any) -> None:
        self.fill(container[key], value)

    def put_item(self, container: Any, value: Any) -> None:
        self.fill(container.add(), value)
