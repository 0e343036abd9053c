"""The interface of all kinds of values. Input: a declaration. Output: derived conversions and checks.

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
    """The kind of value of a field, an item of a list or an entry of a map."""

    is_collection = False
    """Whether it is a container of protobuf. A wrapper message distinguishes an unset container from an empty one."""

    known_keys: Collection[str] | None = None
    """The keys of an object with declared fields; None if any key is allowed or the value has no keys."""

    def to_form(self, value: Any) -> Any:
        """Convert a protobuf value to the plain form."""
        return value

    @abstractmethod
    def put_field(self, message: Any, attribute: str, value: Any) -> None:
        """Convert to protobuf, as field of a message. Any part may be missing; unknown keys are ignored."""

    @abstractmethod
    def put_entry(self, container: Any, key: str, value: Any) -> None:
        """Convert to protobuf, as entry of a map."""

    @abstractmethod
    def put_item(self, container: Any, value: Any) -> None:
        """Convert to protobuf, as next item of a list."""

    @abstractmethod
    def read(self, value: Any) -> Any:
        """Convert any value to the form in which the server stores it, or raise `Malformed`."""

    def read_at(self, value: Any, path: str) -> Any:
        """Do the same as `read`; errors contain the path."""
        try:
            return self.read(value)
        except Malformed as fault:
            raise fault.below(path) from None

    @abstractmethod
    def violations(self, value: Any, at: str) -> Iterator[Violation]:
        """Yield all violations of the JSON schema, in the order of the schema. `at` is the pointer to the value."""

    @abstractmethod
    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """Return the JSON schema. Referenced schemas are added to the definitions."""

    def part(self, key: Any) -> Kind | None:
        """Return the kind of the value below the key or index, if it is declared."""
        return None

    def empty_parts(self) -> Form:
        """Return the fields that the form omits when they are empty, each with its empty value."""
        return {}


class Composite(Kind):
    """A protobuf message or container, filled in place."""

    @abstractmethod
    def fill(self, target: Any, value: Any) -> None:
        """Convert the plain form to protobuf."""

    def put_field(self, message: Any, attribute: str, value: Any) -> None:
        part = getattr(message, attribute)
        part.SetInParent()
        self.fill(part, value)

    def put_entry(self, container: Any, key: str, value: Any) -> None:
        self.fill(container[key], value)

    def put_item(self, container: Any, value: Any) -> None:
        self.fill(container.add(), value)
