"""A field that does not exist: with its protobuf field and its declaration, everything else is derived."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ankaios.common.model.message import Message
from ankaios.common.model.objects import Field
from ankaios.common.model.scalars import Integer, Text
from ankaios.common.model.state import WORKLOAD
from ankaios.common.model.values import Malformed
from ankaios.common.pb import ank_base_pb2 as base

SMALL = {"agent": "n1", "runtime": "podman", "runtimeConfig": "image: a"}
STORED = {"agent": "n1", "restartPolicy": "NEVER", "runtime": "podman", "runtimeConfig": "image: a"}


def extended_classes() -> Any:
    """The protobuf classes of the state; a workload also has `Cooling cooling = 1999`."""
    file = descriptor_pb2.FileDescriptorProto()
    base.DESCRIPTOR.CopyToProto(file)
    file.name, file.package = "extended.proto", "extended"
    messages = [*file.message_type, *(nested for message in file.message_type for nested in message.nested_type)]
    for field in (field for message in messages for field in message.field if field.type_name):
        field.type_name = field.type_name.replace(".ankaios.base.", ".extended.")
    cooling = file.message_type.add(name="Cooling")
    label, text, number, message_type = 1, 9, 13, 11  # numbers of the protobuf description
    cooling.field.add(name="fan", number=1, label=label, type=text)
    cooling.field.add(name="max_speed", number=2, label=label, type=number, oneof_index=0, proto3_optional=True)
    cooling.oneof_decl.add(name="_max_speed")
    workload = next(message for message in file.message_type if message.name == "Workload")
    workload.field.add(name="cooling", number=1999, label=label, type=message_type, type_name=".extended.Cooling")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClassesForFiles(["extended.proto"], pool)


CLASSES = extended_classes()
COOLING = Message(
    CLASSES["extended.Cooling"],
    fan=Field(Text("^[a-z]+$"), "Name of the fan.", required=True),
    maxSpeed=Field(Integer(minimum=1), "Highest speed.", default=3, stores_default=True),
)
EXTENDED = Message(CLASSES["extended.Workload"], **WORKLOAD.fields, cooling=Field(COOLING, "How it is cooled."))


def test_it_is_converted_in_both_directions() -> None:
    form = {**STORED, "cooling": {"fan": "left", "maxSpeed": 7}}
    wire = EXTENDED.from_form(form).SerializeToString()
    assert EXTENDED.to_form(CLASSES["extended.Workload"].FromString(wire)) == form


def test_peers_without_the_field_skip_it() -> None:
    wire = EXTENDED.from_form({**STORED, "cooling": {"fan": "left"}}).SerializeToString()
    assert WORKLOAD.to_form(base.Workload.FromString(wire)) == STORED


def test_it_is_read_strictly_with_its_default() -> None:
    assert EXTENDED.read({**SMALL, "cooling": {"fan": "left"}}) == {**STORED, "cooling": {"fan": "left", "maxSpeed": 3}}
    with pytest.raises(Malformed) as caught:
        EXTENDED.read_at({**SMALL, "cooling": {"fan": "left", "maxSpeed": "fast"}}, "workloads.web")
    place = "workloads.web.cooling.maxSpeed"
    assert str(caught.value) == f'{place}: invalid type: string "fast", expected a whole number'


def test_a_value_that_fits_no_message_is_described_with_its_position() -> None:
    with pytest.raises(Malformed, match=r"^cooling\.fan: invalid type: integer `5`, expected a string$"):
        EXTENDED.from_form({**SMALL, "cooling": {"fan": 5}})


def test_manifests_are_checked_and_the_schema_shows_it() -> None:
    assert list(EXTENDED.violations({**SMALL, "cooling": {"maxSpeed": 0}}, "")) == [
        ("/cooling", '"fan" is a required property'),
        ("/cooling/maxSpeed", "0 is less than the minimum of 1"),
    ]
    definitions: dict[str, Any] = {}
    EXTENDED.schema(definitions)
    assert definitions["workload"]["properties"]["cooling"] == {
        "description": "How it is cooled.",
        "$ref": "#/definitions/cooling",
    }
    assert definitions["cooling"]["properties"]["maxSpeed"]["default"] == 3


def test_a_field_that_the_protobuf_lacks_cannot_be_declared() -> None:
    with pytest.raises(KeyError, match="cooling"):
        Message(base.Workload, cooling=Field(Text(), "How it is cooled."))
