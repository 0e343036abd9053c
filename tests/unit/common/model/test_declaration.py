"""The declaration agrees with the protobuf messages and with the typed workload, and everything is declared."""

from collections.abc import Iterator, Mapping
from enum import Enum
from types import UnionType
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from ankaios.common import workload
from ankaios.common.model.containers import ListOf, MapOf, WrappedMap
from ankaios.common.model.kind import Kind
from ankaios.common.model.message import Message
from ankaios.common.model.objects import Field, Object
from ankaios.common.model.scalars import Boolean, Duration, Enumeration, Integer, Text, Words
from ankaios.common.model.state import (
    COMPLETE_STATE,
    CONFIG_ITEM,
    DISCOVERY_HANDLER,
    EXECUTION_STATE,
    RULE,
    STATE_RULE,
    WORKLOAD,
)
from ankaios.common.model.unions import Variants
from ankaios.common.pb import ank_base_pb2 as base

ABSENT_FIELDS: Mapping[str, str] = {}
"""Fields of declared messages that the state does not show, as `Message.field`, with the reason."""

NOT_DECLARED = {
    **dict.fromkeys(("Request", "Response", "Error"), "envelope of a request; handled as protobuf message"),
    **dict.fromkeys(
        ("CompleteStateRequest", "CompleteStateResponse", "UpdateStateRequest", "UpdateStateSuccess", "AlteredFields"),
        "content of a request; handled as protobuf message",
    ),
    **dict.fromkeys(
        ("LogsRequest", "LogsRequestAccepted", "LogsCancelRequest", "LogsCancelAccepted", "LogsStopResponse",
         "LogEntriesResponse", "LogEntry", "EventsCancelRequest", "EventsCancelAccepted", "PlanRequest",
         "PlanResponse", "PlannedWorkload", "PlannedEntry", "FieldChange", "RecordsRequest", "RecordsResponse",
         "WorkloadRecord", "WhyRequest", "WhyResponse", "Cause", "AtomicOptions", "RolloutsRequest",
         "RolloutsResponse", "RolloutInfo", "RolloutWorkload", "HistoryRequest", "HistoryResponse", "RevisionInfo",
         "EntryChange", "RollbackRequest", "ServersRequest", "ServersResponse", "ServerInfo",
         "StorageMember"),
        "content of a request; handled as protobuf message",
    ),
    **dict.fromkeys(
        ("UsageRequest", "UsageResponse", "WorkloadUsage"), "content of a request; handled as protobuf message"
    ),
    **dict.fromkeys(("WorkloadState", "WorkloadInstanceName"), "converted to typed objects by proto_conversion"),
}  # fmt: skip
"""Messages that are no part of the state, with the reason."""

NOT_IN_SPEC = {"agent": "part of the instance name", "configs": "templates are rendered before agents get a workload"}
"""Fields of a workload that `WorkloadSpec` lacks, with the reason."""

SPECIAL: Mapping[str, Kind] = {
    "AccessRightsRule": RULE,
    "ConfigItem": CONFIG_ITEM,
    "DiscoveryProperties": DISCOVERY_HANDLER.fields["discoveryProperties"].kind,
    "ExecutionState": EXECUTION_STATE,
}
"""Messages whose content determines the structure of the form."""

SCALARS: dict[str, type[Kind] | UnionType] = {
    "TYPE_STRING": Text,
    "TYPE_UINT32": Integer | Duration,
    "TYPE_UINT64": Integer,
    "TYPE_INT64": Integer,
    "TYPE_BOOL": Boolean,
    "TYPE_ENUM": Enumeration,
}


def kinds_below(kind: Kind) -> Iterator[Kind]:
    """The kind and all kinds in it."""
    yield kind
    if isinstance(kind, ListOf | MapOf):
        yield from kinds_below(kind.element)
    elif isinstance(kind, Variants):
        for variant in kind.variants.values():
            yield from kinds_below(variant)
    elif isinstance(kind, Object):
        for field in kind.fields.values():
            yield from kinds_below(field.kind)


MESSAGES = {kind.wire.DESCRIPTOR.name: kind for kind in kinds_below(COMPLETE_STATE) if isinstance(kind, Message)}


def wrappers() -> set[str]:
    """Messages that only hold a collection or a scalar of a declared message; forms do not show them."""
    found = {"ConfigArray", "ConfigObject", "ExecutionsStatesOfWorkload", "ExecutionsStatesForId"}
    for message in MESSAGES.values():
        for descriptor in message.wire.DESCRIPTOR.fields:
            inner = descriptor.message_type
            if inner is not None and not descriptor.is_repeated and len(inner.fields) == 1:
                found.add(inner.name)
    return found


def test_every_message_is_declared_or_listed_with_a_reason() -> None:
    known = {*MESSAGES, *SPECIAL, *wrappers(), *NOT_DECLARED}
    assert set(base.DESCRIPTOR.message_types_by_name) == known


@pytest.mark.parametrize("name", MESSAGES)
def test_every_field_of_a_declared_message_is_declared_or_listed_with_a_reason(name: str) -> None:
    fields = {descriptor.camelcase_name for descriptor in MESSAGES[name].wire.DESCRIPTOR.fields}
    absent = {field.partition(".")[2] for field in ABSENT_FIELDS if field.startswith(f"{name}.")}
    assert fields == set(MESSAGES[name].fields) | absent


@pytest.mark.parametrize("name", MESSAGES)
def test_kinds_fit_the_types_of_the_protobuf_fields(name: str) -> None:
    descriptors = MESSAGES[name].wire.DESCRIPTOR.fields_by_camelcase_name
    for field, declared in MESSAGES[name].fields.items():
        assert_fits(declared.kind, descriptors[field])


def assert_fits(kind: Kind, descriptor: Any) -> None:
    inner = descriptor.message_type
    is_map = inner is not None and descriptor.is_repeated and inner.GetOptions().map_entry
    match kind:
        case MapOf() if is_map:
            assert_fits(kind.element, inner.fields_by_name["value"])
        case ListOf() if descriptor.is_repeated and not is_map:
            if inner is None:
                assert_scalar(kind.element, descriptor)
            else:
                assert_message(kind.element, inner)
        case WrappedMap() | MapOf() | ListOf():
            (only,) = inner.fields
            assert_fits(kind if not isinstance(kind, WrappedMap) else MapOf(kind.element), only)
        case Text() | Integer() | Boolean() | Words() | Duration():
            assert_scalar(kind, descriptor if inner is None else inner.fields[0])
        case _:
            assert_message(kind, inner)


def assert_scalar(kind: Kind, descriptor: Any) -> None:
    types = {getattr(descriptor, name): declared for name, declared in SCALARS.items()}
    assert isinstance(kind, types[descriptor.type]), descriptor.full_name
    if isinstance(kind, Enumeration):
        assert kind.name == descriptor.enum_type.name


def assert_message(kind: Kind, descriptor: Any) -> None:
    if descriptor.name in SPECIAL:
        assert kind is SPECIAL[descriptor.name]
    else:
        assert isinstance(kind, Message) and kind.wire.DESCRIPTOR is descriptor


def test_the_variants_of_an_access_rule_are_those_of_the_protobuf() -> None:
    fields = {descriptor.name: descriptor.message_type for descriptor in base.AccessRightsRule.DESCRIPTOR.fields}
    declared = {word[0].lower() + word[1:]: variant for word, variant in RULE.variants.items()}
    assert fields == {
        name: variant.wire.DESCRIPTOR for name, variant in declared.items() if isinstance(variant, Message)
    }


def fields_below(kind: Kind) -> Iterator[tuple[str, Field]]:
    for part in kinds_below(kind):
        if isinstance(part, Object):
            yield from part.fields.items()


def test_every_field_has_a_description_that_is_a_sentence() -> None:
    for name, field in fields_below(COMPLETE_STATE):
        assert field.description[:1].isupper() and field.description.endswith("."), name


# --- typed workloads --------------------------------------------------------------------------------------------------


def test_a_typed_workload_has_every_field_or_a_reason_why_not() -> None:
    encoded = set(workload.WorkloadSpec.__struct_encode_fields__) - {"instanceName"}
    assert encoded == set(WORKLOAD.fields) - NOT_IN_SPEC.keys()


@pytest.mark.parametrize(
    ("struct", "declared"),
    [
        (workload.File, "file"),
        (workload.ResourceRequest, "resourceRequest"),
        (workload.Placement, "placement"),
        (workload.ControlInterfaceAccess, "controlInterfaceAccess"),
        (workload.StateRule, "stateRule"),
        (workload.LogRule, "logRule"),
    ],
)
def test_typed_parts_of_a_workload_have_the_declared_fields(struct: type[msgspec.Struct], declared: str) -> None:
    objects = {kind.name: kind for kind in kinds_below(WORKLOAD) if isinstance(kind, Object)}
    assert set(struct.__struct_encode_fields__) == set(objects[declared].fields)


def test_the_words_of_typed_enumerations_are_the_declared_ones() -> None:
    hints = get_type_hints(workload.WorkloadSpec)
    condition = get_args(hints["dependencies"])[1]
    dependencies = WORKLOAD.fields["dependencies"].kind
    assert isinstance(dependencies, MapOf)
    for enumeration, kind in (
        (hints["restart_policy"], WORKLOAD.fields["restartPolicy"].kind),
        (condition, dependencies.element),
        (workload.Operation, STATE_RULE.fields["operation"].kind),
    ):
        assert issubclass(enumeration, Enum) and isinstance(kind, Enumeration)
        assert tuple(member.value for member in enumeration) == kind.words
