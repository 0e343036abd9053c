"""A session with the server, over a connection in memory."""

from collections.abc import Callable
from typing import cast

import pytest

from ankaios.cli.session import LOGS_LOST, RequestFailed, Session, duration_text, execution_error, update_request
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer, UpdateWorkloadState
from ankaios.middleware.blocking_client import BlockingConnection
from ankaios.middleware.connecting import ConnectionLost

Answer = Callable[[ToServer], list[FromServer]]


class FakeConnection:
    """Returns the answers of the test; without an answer `receive` reaches its time limit, after `lose` it fails."""

    def __init__(self, answer: Answer = lambda _: []) -> None:
        self.sent: list[ToServer] = []
        self.watched: int | None = None
        self._answer = answer
        self._inbox: list[FromServer | None] = []

    def send(self, message: ToServer) -> None:
        self.sent.append(message)
        for answer in self._answer(message):
            self.give(answer)

    def receive(self, limit: float | None) -> FromServer | None:
        if not self._inbox:
            assert limit is not None, "nothing would ever come"
            return None
        message = self._inbox.pop(0)
        if message is None:
            raise ConnectionLost("gone")
        return message

    def watch(self, descriptor: int | None) -> None:
        self.watched = descriptor

    def give(self, message: FromServer) -> None:
        self._inbox.append(message)

    def lose(self) -> None:
        self._inbox.append(None)


def session_with(connection: FakeConnection, timeout_ms: int = 1000) -> Session:
    return Session(cast(BlockingConnection, connection), timeout_ms)


def respond(message: ToServer, **content: object) -> FromServer:
    return FromServer(response=base.Response(requestId=message.request.requestId, **content))  # type: ignore[arg-type]


def state_of(name: str) -> FromServer:
    state = base.WorkloadState(instanceName=base.WorkloadInstanceName(workloadName=name))
    return FromServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[state]))


def with_state(message: ToServer) -> list[FromServer]:
    state = base.CompleteState(desiredState=base.State(apiVersion="v1"))
    other = FromServer(response=base.Response(requestId="other", completeStateResponse=base.CompleteStateResponse()))
    answer = respond(message, completeStateResponse=base.CompleteStateResponse(completeState=state))
    return [state_of("early"), other, answer, state_of("late")]


def test_the_response_with_the_request_id_is_found_and_states_before_it_are_kept() -> None:
    connection = FakeConnection(with_state)
    session = session_with(connection)
    state = session.complete_state("a", "b")
    assert state.desiredState.apiVersion == "v1"
    assert list(connection.sent[0].request.completeStateRequest.fieldMask) == ["a", "b"]
    assert [s.instanceName.workloadName for s in session.next_states()] == ["early"]
    assert [s.instanceName.workloadName for s in session.next_states()] == ["late"]


def test_every_request_has_its_own_id() -> None:
    connection = FakeConnection(with_state)
    session = session_with(connection)
    session.complete_state()
    session.complete_state()
    ids = {message.request.requestId for message in connection.sent}
    assert len(ids) == 2 and "" not in ids


def test_a_time_limit_ends_the_waiting() -> None:
    connection = FakeConnection()
    session = session_with(connection)
    assert session.next_states(0) == []
    connection.give(state_of("a"))
    assert [s.instanceName.workloadName for s in session.next_states(1)] == ["a"]


def test_requests_may_be_sent_together_and_the_responses_may_come_in_any_order() -> None:
    connection = FakeConnection()
    session = session_with(connection)
    request = session.send_state_request("a")
    update = session.send_change(update_request(base.CompleteState(), ["m"]))
    assert [message.request.WhichOneof("RequestContent") for message in connection.sent] == [
        "completeStateRequest",
        "updateStateRequest",
    ]
    connection.give(respond(connection.sent[1], UpdateStateSuccess=base.UpdateStateSuccess(addedWorkloads=["x"])))
    connection.give(state_of("early"))
    for answer in with_state(connection.sent[0]):
        connection.give(answer)
    assert session.receive_state(request).desiredState.apiVersion == "v1"
    assert list(session.receive_success(update).addedWorkloads) == ["x"]
    assert len(session.kept_states()) == 2


def test_a_rejected_update_is_a_failure_with_the_reason_of_the_server() -> None:
    connection = FakeConnection(lambda message: [respond(message, error=base.Error(message="no"))])
    with pytest.raises(RequestFailed, match=r"^SetState failed with: 'no'$"):
        session_with(connection).update(base.CompleteState(), ["m"])


def test_a_missing_answer_is_a_failure_with_the_time_limit() -> None:
    with pytest.raises(RequestFailed, match=r"^Command timed out after '10ms'$") as caught:
        session_with(FakeConnection(), 10).complete_state()
    assert caught.value.text == "Command failed: 'Command timed out after '10ms''"
    assert caught.value.hint == "give it more time with '--response-timeout MS'"


def test_a_shorter_time_limit_of_a_request_counts() -> None:
    with pytest.raises(RequestFailed, match=r"^Command timed out after '5ms'$"):
        session_with(FakeConnection(), 60_000).complete_state(limit_ms=5)


def test_a_response_of_another_kind_is_not_accepted_but_reported_in_the_hint() -> None:
    connection = FakeConnection(lambda message: [respond(message, error=base.Error(message="no"))])
    with pytest.raises(RequestFailed, match="timed out") as caught:
        session_with(connection, 10).complete_state()
    assert caught.value.hint == "the server answered 'no'"


def test_the_text_for_a_lost_stream_depends_on_the_awaited_response() -> None:
    texts = []
    calls: list[Callable[[Session], object]] = [
        lambda session: session.complete_state(),
        lambda session: session.update(base.CompleteState(), []),
        lambda session: session.next_states(),
        lambda session: session.next_response("x", "completeStateResponse"),
        lambda session: session.next_response("x", "logsStopResponse", lost=LOGS_LOST),
    ]
    for call in calls:
        connection = FakeConnection()
        connection.lose()
        with pytest.raises(RequestFailed) as caught:
            call(session_with(connection))
        texts.append(str(caught.value))
    assert texts == [
        "Channel preliminary closed.",
        "Connection to server interrupted",
        "Connection to server interrupted",
        "Connection to server interrupted",
        "Error streaming workload logs: channel preliminary closed.",
    ]


def test_events_and_logs_of_other_requests_are_ignored() -> None:
    connection = FakeConnection()
    session = session_with(connection)
    for request_id in ("other", "mine"):
        connection.give(
            FromServer(response=base.Response(requestId=request_id, completeStateResponse=base.CompleteStateResponse()))
        )
        connection.give(
            FromServer(response=base.Response(requestId=request_id, logsStopResponse=base.LogsStopResponse()))
        )
    assert session.next_response("mine", "completeStateResponse").requestId == "mine"
    assert session.next_response("mine", "logsStopResponse").requestId == "mine"


def test_goodbye_waits_for_the_end_of_the_stream() -> None:
    connection = FakeConnection()
    connection.give(state_of("a"))
    connection.lose()
    session_with(connection).goodbye()
    assert connection.sent[0].HasField("goodbye")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (3000, "3s"),
        (1500, "1.5s"),
        (500, "500ms"),
        (1, "1ms"),
        (0, "0ns"),
        (1234, "1.234s"),
        (60000, "60s"),
        (1050, "1.05s"),
    ],
)
def test_durations_have_the_largest_unit(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


def test_reasons_in_debug_notation_are_escaped() -> None:
    assert execution_error(RequestFailed('a "b"\n\\')) == r'ExecutionError("a \"b\"\n\\")'
