"""The server answers or ignores any message that protobuf can express, and continues."""

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ankaios.common.messages import AgentGone, ClientGone, FromAgent, FromClient
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from tests.support.examples import examples
from tests.unit.server.scenario import Scenario, a_form, a_state, responses

WORDS = ["", "n1", "web", "db", "v1", "*", ".", "desiredState", "desiredState.workloads.web", "agents.n1.tags", "{{a}}"]
WORDS += [
    "workloadStates",
    "desiredState.configs.k.x",
    "effectiveState.workloads.*.agent",
    "ä\x00",
    "n1@web@1",
    "@",
    "k",
]
texts = st.sampled_from(WORDS)
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: texts,
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_ENUM: st.one_of(st.integers(0, 2), st.sampled_from([5, 8, 99, -1])),
}
DEEPEST = 9


@st.composite
def filled(draw: st.DrawFn, kind: type[Message], depth: int = 0) -> Message:
    """Any message: fields set or not, numbers known or not, to any depth."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if draw(st.integers(0, 3)) < (1 if depth < 3 else 2):
            _fill(draw, message, field, depth)
    return message


def _fill(draw: st.DrawFn, message: Message, field: Any, depth: int) -> None:
    kind: Descriptor | None = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        value = kind.fields_by_name["value"]
        target = getattr(message, field.name)
        for key in draw(st.lists(texts, max_size=2)):
            if value.message_type is None:
                target[key] = draw(SCALARS[value.type])
            elif depth < DEEPEST:
                target[key].MergeFrom(draw(filled(GetMessageClass(value.message_type), depth + 1)))
    elif kind is not None and depth < DEEPEST:
        part = draw(filled(GetMessageClass(kind), depth + 1))
        if field.is_repeated:
            getattr(message, field.name).append(part)
        else:
            getattr(message, field.name).SetInParent()
            getattr(message, field.name).MergeFrom(part)
    elif kind is None and field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(SCALARS[field.type], max_size=3)))
    elif kind is None:
        setattr(message, field.name, draw(SCALARS[field.type]))


def a_scenario() -> Scenario:
    scenario = Scenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form(config="{{a}}", configs={"a": "k"})}, configs={"k": "v"}))
    scenario.subscribe()
    return scenario


def still_works(scenario: Scenario) -> None:
    state = scenario.get()
    assert COMPLETE_STATE.from_form(state) is not None
    scenario.update(a_state({"fresh": a_form()}), "desiredState.workloads.fresh")
    assert "fresh" in scenario.get()["desiredState"]["workloads"]


SETTINGS = examples(60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@SETTINGS
@given(st.lists(filled(base.Request), min_size=1, max_size=4))
def test_any_request_is_answered_or_ignored(requests: list[base.Request]) -> None:
    scenario = a_scenario()
    for request in requests:
        if request.requestId:
            request.requestId = f"cli-conn-1@{request.requestId}"
        effects = scenario.server.handle(FromClient("cli-conn-1", request))
        answers = [answer for answer in responses(effects) if answer.requestId == request.requestId]
        assert answers or not request.requestId
    scenario.server.handle(ClientGone("cli-conn-1"))
    still_works(scenario)


@SETTINGS
@given(st.lists(filled(grpc.ToServer), min_size=1, max_size=4))
def test_the_server_continues_after_any_message_of_an_agent(messages: list[grpc.ToServer]) -> None:
    scenario = a_scenario()
    for message in messages:
        scenario.server.handle(FromAgent("n1", message))
    scenario.server.handle(AgentGone("n1"))
    still_works(scenario)
