"""Objects that are protobuf messages: the kind from which nearly everything in the state is made.

Input: the protobuf class and the fields. Conversions are prepared once, when a message is declared, because states hold
thousands of workloads. Forms have the order of the protobuf fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message as ProtobufMessage

from ankaios.common.errors import Rejected
from ankaios.common.model.objects import Field, Object
from ankaios.common.model.values import Form, Malformed, wrong_type
from ankaios.common.model.wire_binding import WireBinding, bind_field

M = TypeVar("M", bound=ProtobufMessage)
_CONVERSION_ERRORS = (TypeError, ValueError, AttributeError, KeyError)


class Message(Object, Generic[M]):
    def __init__(self, name: str, wire: type[M], fields: Mapping[str, Field], alternatives: Sequence[str] = ()) -> None:
        super().__init__(name, fields, alternatives)
        self.wire = wire
        descriptors = wire.DESCRIPTOR.fields_by_camelcase_name
        bindings = {name: bind_field(descriptors[name], field.kind) for name, field in fields.items()}
        self._prepare({name: bindings[name] for name in sorted(bindings, key=lambda name: bindings[name].number)})

    def _prepare(self, bindings: Mapping[str, WireBinding]) -> None:
        self._set_order(bindings)
        self._setters = {name: binding.put for name, binding in bindings.items()}
        self._setters |= {former: self._setters[name] for former, name in self._former_names.items()}
        self._getters = [
            (name, it.attribute, it.has_presence, it.convert, self.fields[name].drops_empty)
            for name, it in bindings.items()
        ]
        # Without presence a missing value arrives as zero, so the sender applies the default.
        self._sent_defaults = [
            (name, it.attribute, self.fields[name].default)
            for name, it in bindings.items()
            if not it.has_presence and self.fields[name].default is not None
        ]

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
                if (put := setters.get(name)) is not None:
                    put(target, part)
        except Malformed as fault:
            raise fault.below(name) from None
        except _CONVERSION_ERRORS as fault:
            raise self._explained(name, value[name], fault) from fault
        for name, attribute, default in self._sent_defaults:
            if name not in value:
                setattr(target, attribute, default)

    def _explained(self, name: str, part: Any, fault: Exception) -> Malformed:
        """Protobuf found that a value does not fit; strict reading describes why."""
        try:
            self.fields[self._former_names.get(name, name)].kind.read(part)
        except Malformed as reason:
            return reason.below(name)
        return wrong_type(part, "a value").below(name) if part is None else Malformed(str(fault), name)
