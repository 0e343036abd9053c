"""Objects that are protobuf messages, the most frequent kind in the state.

Input: the protobuf class and the fields. Conversions are prepared once, when a message is declared, because states
contain thousands of workloads. Forms have the order of the protobuf fields.

[impl->swdd~common-object-serialization~1]
[impl->swdd~common-conversions-between-ankaios-and-proto~1]
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from google.protobuf.message import Message as ProtobufMessage

from ankaios.common.errors import Rejected
from ankaios.common.model.kind import Kind
from ankaios.common.model.objects import Field, Object
from ankaios.common.model.scalars import Scalar
from ankaios.common.model.values import Form, Malformed, wrong_type

M = TypeVar("M", bound=ProtobufMessage)
_CONVERSION_ERRORS = (TypeError, ValueError, AttributeError, KeyError)


class Message(Object, Generic[M]):
    """The fields of a protobuf oneof are alternatives, of which exactly one must be given."""

    def __init__(self, wire: type[M], /, **fields: Field) -> None:
        self.wire = wire
        descriptors = [wire.DESCRIPTOR.fields_by_camelcase_name[name] for name in fields]
        descriptors.sort(key=lambda it: it.number)
        alternatives = [it.name for it in descriptors if it.containing_oneof and len(it.containing_oneof.fields) > 1]
        name = wire.DESCRIPTOR.name
        super().__init__(name[0].lower() + name[1:], fields, alternatives, [it.camelcase_name for it in descriptors])
        self._prepare_conversions(descriptors)

    def _prepare_conversions(self, descriptors: list[Any]) -> None:
        self._getters, self._setters, self._sent_defaults = [], {}, []
        for descriptor in descriptors:
            name, attribute, field = descriptor.camelcase_name, descriptor.name, self.fields[descriptor.camelcase_name]
            kind = _unwrapped(descriptor, field.kind)
            convert = None if type(kind).to_form is Kind.to_form else kind.to_form
            self._getters.append((name, attribute, descriptor.has_presence, convert, field.drops_empty))
            self._setters[name] = self._setters[field.former_name or name] = (kind.put_field, attribute)
            if field.default is not None and not descriptor.has_presence:
                # A missing value would arrive as zero, so the sender applies the default.
                self._sent_defaults.append((name, attribute, field.default))

    def to_form(self, value: M) -> Form:
        form: Form = {}
        is_set = value.HasField
        for name, attribute, has_presence, convert, drops_empty in self._getters:
            if has_presence and not is_set(attribute):
                continue
            part = getattr(value, attribute)
            if convert is not None:
                part = convert(part)
            if part or not drops_empty:
                form[name] = part
        if self.alternatives and form.keys().isdisjoint(self.alternatives):
            which = next(iter(form.values()))
            raise Rejected(f"the {self.name} '{which}' has neither {' nor '.join(self.alternatives)}")
        return form

    def value_of(self, message: M, name: str) -> Any:
        """Return the value of a field of a message, or the declared default if it is not set."""
        return getattr(message, name) if message.HasField(name) else self.fields[name].default

    def from_form(self, form: Any) -> M:
        message = self.wire()
        self.fill(message, form)
        return message

    def fill(self, target: M, value: Any) -> None:
        if not isinstance(value, dict):
            raise wrong_type(value, "a map")
        setters, name = self._setters, ""
        try:
            for name, part in value.items():
                if (setter := setters.get(name)) is not None:
                    put, attribute = setter
                    put(target, attribute, part)
        except Malformed as fault:
            raise fault.below(name) from None
        except _CONVERSION_ERRORS as fault:
            raise self._explained(name, value[name], fault) from fault
        for name, attribute, default in self._sent_defaults:
            if name not in value:
                setattr(target, attribute, default)

    def _explained(self, name: str, part: Any, fault: Exception) -> Malformed:
        """Return the error of strict reading, which explains why protobuf rejected a value."""
        try:
            self.fields[self.former_names.get(name, name)].kind.read(part)
        except Malformed as reason:
            return reason.below(name)
        return wrong_type(part, "a value").below(name) if part is None else Malformed(str(fault), name)


class _Wrapper:
    """A message around a single value, which distinguishes an unset value from an empty one. Forms do not have it."""

    def __init__(self, kind: Kind, attribute: str) -> None:
        self._kind = kind
        self._attribute = attribute

    def to_form(self, value: Any) -> Any:
        return self._kind.to_form(getattr(value, self._attribute))

    def put_field(self, message: Any, attribute: str, value: Any) -> None:
        wrapper = getattr(message, attribute)
        wrapper.SetInParent()
        self._kind.put_field(wrapper, self._attribute, value)


def _unwrapped(descriptor: Any, kind: Kind) -> Kind | _Wrapper:
    if (
        descriptor.message_type is None
        or descriptor.is_repeated
        or not (kind.is_collection or isinstance(kind, Scalar))
    ):
        return kind
    (only,) = descriptor.message_type.fields
    return _Wrapper(kind, only.name)
