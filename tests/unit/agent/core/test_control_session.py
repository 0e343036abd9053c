import pytest

from ankaios.agent.core.authorizer import Authorizer
from ankaios.agent.core.control_session import (
    ACCEPTED,
    Accept,
    Answer,
    Close,
    ControlSession,
    Forward,
    Notified,
    Skip,
    closed_message,
    last_hello,
    response_message,
)
from ankaios.agent.core.framing import Garbage, encode
from ankaios.agent.core.health import HealthResult
from ankaios.common.messages import error_response
from ankaios.common.pb.ank_base_pb2 import CompleteState, CompleteStateRequest, Request, UpdateStateRequest
from ankaios.common.pb.control_api_pb2 import HealthNotification, Hello, ToAnkaios
from ankaios.common.workload import ControlInterfaceAccess, Operation, StateRule


def a_session(mask: str = "desiredState") -> ControlSession:
    rule = StateRule(Operation.READ_WRITE, (mask,))
    return ControlSession("nav", Authorizer(ControlInterfaceAccess((rule,))))


def hello(version: str = "1.0.0") -> bytes:
    return ToAnkaios(hello=Hello(protocolVersion=version)).SerializeToString()


def reads(request_id: str, *masks: str) -> bytes:
    request = Request(requestId=request_id, completeStateRequest=CompleteStateRequest(fieldMask=masks))
    return ToAnkaios(request=request).SerializeToString()


def greeted() -> ControlSession:
    session = a_session()
    session.receive(hello())
    return session


def test_the_worked_example_byte_by_byte() -> None:
    session = a_session()
    assert encode(hello()) == bytes.fromhex("090a07120531 2e302e30".replace(" ", ""))
    assert session.receive(hello()) == Accept()
    assert encode(ACCEPTED) == bytes.fromhex("022200")
    denied = session.receive(reads("7", "workloadStates"))
    assert isinstance(denied, Answer)
    assert encode(response_message(denied.response)) == bytes.fromhex("161a140a01371a0f0a0d") + b"Access denied"
    forwarded = session.receive(reads("8", "desiredState.workloads"))
    assert isinstance(forwarded, Forward)
    assert forwarded.request.requestId == "nav@8"
    assert encode(closed_message("Initial Hello missing!")) == bytes.fromhex("1a2a180a16") + b"Initial Hello missing!"


def test_requests_get_the_name_of_the_workload_before_their_id() -> None:
    """[utest->swdd~agent-adds-workload-prefix-id-control-interface-request~1]"""
    session = greeted()
    for given, expected in (("1", "nav@1"), ("", "nav@"), ("a@b", "nav@a@b")):
        reaction = session.receive(reads(given, "desiredState"))
        assert isinstance(reaction, Forward)
        assert reaction.request.requestId == expected
        assert reaction.request.completeStateRequest.fieldMask == ["desiredState"]


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (reads("1", "desiredState"), "Initial Hello missing!"),
        (b"", "Initial Hello missing!"),
        (b"\xff\xff", "Could not decode protobuf data"),
        (Garbage("?"), "Could not decode protobuf data"),
        (hello("2.0.0"), "Unsupported protocol version '2.0.0'. Currently supported '1'"),
        (hello("one"), "Unsupported protocol version 'one'. Currently supported '1'"),
    ],
)
def test_a_session_that_does_not_begin_with_a_hello_is_closed(first: bytes | Garbage, reason: str) -> None:
    session = a_session()
    assert session.receive(first) == Close(reason)
    assert session.dead


def test_every_valid_hello_is_accepted() -> None:
    session = greeted()
    assert session.receive(hello("1.9.7")) == Accept()
    assert session.accepted


def test_a_later_hello_of_another_version_ends_the_session() -> None:
    session = greeted()
    assert isinstance(session.receive(hello("0.6.0")), Close)
    assert session.dead


def test_later_invalid_messages_are_skipped() -> None:
    session = greeted()
    assert session.receive(Garbage("too long")) == Skip("too long")
    assert isinstance(session.receive(b"\xff\xff"), Skip)
    assert isinstance(session.receive(b""), Skip)
    assert session.accepted
    assert not session.dead


def test_a_denied_request_is_answered_with_the_id_as_received() -> None:
    assert greeted().receive(reads("x@y", "agents")) == Answer(error_response("x@y", "Access denied"))
    empty = ToAnkaios(request=Request(requestId="3")).SerializeToString()
    assert greeted().receive(empty) == Answer(error_response("3", "Access denied"))


def test_an_update_without_new_state_never_reaches_the_server() -> None:
    def update(request: UpdateStateRequest) -> bytes:
        return ToAnkaios(request=Request(requestId="4", updateStateRequest=request)).SerializeToString()

    session = greeted()
    answer = session.receive(update(UpdateStateRequest(updateMask=["desiredState"])))
    assert answer == Answer(error_response("4", "The UpdateStateRequest has no newState"))
    good = session.receive(update(UpdateStateRequest(newState=CompleteState(), updateMask=["desiredState"])))
    assert isinstance(good, Forward)


def test_a_workload_that_missed_the_acceptance_has_to_send_a_hello_again() -> None:
    session = greeted()
    session.acceptance_failed()
    assert session.receive(hello()) == Accept()


def test_a_hello_between_two_agents_is_found_after_a_partial_request() -> None:
    remains = encode(reads("id", "desiredState"))[5:]
    assert last_hello(remains + encode(hello())) == hello()


@pytest.mark.parametrize("left", [b"", b"\x02\x0a\x00", encode(reads("id", "desiredState")), encode(hello("2.0.0"))])
def test_an_invalid_hello_is_not_accepted(left: bytes) -> None:
    assert last_hello(left) is None


def test_a_health_notification_needs_no_rights_but_a_hello() -> None:
    session = ControlSession("web", Authorizer(ControlInterfaceAccess()))
    message = ToAnkaios(healthNotification=HealthNotification(healthy=False, text="stuck")).SerializeToString()
    assert isinstance(session.receive(hello()), Accept)
    assert session.receive(message) == Notified(HealthResult("the workload reports: stuck"))
    good = ToAnkaios(healthNotification=HealthNotification(healthy=True)).SerializeToString()
    assert session.receive(good) == Notified(HealthResult())
    assert isinstance(ControlSession("web", Authorizer(ControlInterfaceAccess())).receive(message), Close)
