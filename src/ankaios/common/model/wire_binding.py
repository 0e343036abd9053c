"""How a declared field is read from and written to its protobuf message, decided once from the descriptor.

A collection or a scalar that stands in a message of its own, as protobuf needs it to tell unset from empty, is taken
out of that message: forms do not have it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ankaios.common.model.kind import Composite, Kind, Scalar

Convert = Callable[[Any], Any]
Put = Callable[[Any, Any], None]


class WireBinding(Struct, frozen=True):
    """`convert` turns the protobuf value into its form, None if both are the same; `put` sets it in a message."""

    attribute: str
    number: int
    has_presence: bool
    convert: Convert | None
    put: Put


def bind_field(descriptor: Any, kind: Kind) -> WireBinding:
    wrapped = _wrapped_attribute(descriptor, kind)
    convert: Convert | None = None if type(kind).to_form is Kind.to_form else kind.to_form
    if wrapped:
        convert = _unwrapping(wrapped, kind.to_form)
    put = _put_of(descriptor, kind, wrapped)
    return WireBinding(descriptor.name, descriptor.number, descriptor.has_presence, convert, put)


def _wrapped_attribute(descriptor: Any, kind: Kind) -> str:
    """The only field of the message around the value; empty if there is no such message."""
    is_message = isinstance(kind, Composite) and not kind.is_collection
    if descriptor.message_type is None or descriptor.is_repeated or is_message:
        return ""
    (only,) = descriptor.message_type.fields
    return str(only.name)


def _unwrapping(wrapped: str, to_form: Convert) -> Convert:
    return lambda message: to_form(getattr(message, wrapped))


def _put_of(descriptor: Any, kind: Kind, wrapped: str) -> Put:
    attribute = descriptor.name
    if isinstance(kind, Scalar):
        to_wire = kind.to_wire
        if wrapped:
            return lambda message, value: _put_wrapped(getattr(message, attribute), wrapped, to_wire(value))
        if type(kind).to_wire is Scalar.to_wire:
            return lambda message, value: setattr(message, attribute, value)
        return lambda message, value: setattr(message, attribute, to_wire(value))
    assert isinstance(kind, Composite)
    fill = kind.fill
    if descriptor.is_repeated:
        return lambda message, value: fill(getattr(message, attribute), value)

    def put(message: Any, value: Any) -> None:
        part = getattr(message, attribute)
        part.SetInParent()
        fill(getattr(part, wrapped) if wrapped else part, value)

    return put


def _put_wrapped(message: Any, wrapped: str, value: Any) -> None:
    message.SetInParent()
    setattr(message, wrapped, value)
