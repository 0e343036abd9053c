"""A session with the server, against a connection in memory."""

from collections.abc import Callable

import pytest

from ankaios.cli.connection import CommandFailed, Session, duration_text
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer, UpdateWorkloadState
from ankaios.middleware.connecting import ConnectionLost

Answer = Callable[[ToServer], list[FromServer]]


class FakeWire:
    """Answers what the test says; without an answer `receive` comes to its time limit, after `lose` it fails."""

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


def test_the_answer_with_the_own_id_is_found_and_states_on_the_way_are_kept() -> None:
    wire = FakeWire(with_state)
    session = Session(wire, 1000)
    state = session.complete_state("a", "b")
    assert state.desiredState.apiVersion == "v1"
    assert list(wire.sent[0].request.completeStateRequest.fieldMask) == ["a", "b"]
    assert [s.instanceName.workloadName for s in session.next_states()] == ["early"]
    assert [s.instanceName.workloadName for s in session.next_states()] == ["late"]


def test_every_request_has_an_id_of_its_own() -> None:
    wire = FakeWire(with_state)
    session = Session(wire, 1000)
    session.complete_state()
    session.complete_state()
    ids = {message.request.requestId for message in wire.sent}
    assert len(ids) == 2 and "" not in ids


def test_a_time_limit_ends_the_waiting() -> None:
    wire = FakeWire()
    session = Session(wire, 1000)
    assert session.next_states(0) == []
    wire.give(state_of("a"))
    assert [s.instanceName.workloadName for s in session.next_states(1)] == ["a"]


def test_requests_may_leave_back_to_back_and_their_answers_come_in_any_order() -> None:
    wire = FakeWire()
    session = Session(wire, 1000)
    question = session.post_state_request("a")
    update = session.post_update(base.CompleteState(), ["m"])
    assert [message.request.WhichOneof("RequestContent") for message in wire.sent] == [
        "completeStateRequest",
        "updateStateRequest",
    ]
    wire.give(respond(wire.sent[1], UpdateStateSuccess=base.UpdateStateSuccess(addedWorkloads=["x"])))
    wire.give(state_of("early"))
    for answer in with_state(wire.sent[0]):
        wire.give(answer)
    assert session.take_state(question).desiredState.apiVersion == "v1"
    assert list(session.take_success(update).addedWorkloads) == ["x"]
    assert len(session.kept_states()) == 2


def test_a_rejected_update_is_a_failure_with_the_reason_of_the_server() -> None:
    wire = FakeWire(lambda message: [respond(message, error=base.Error(message="no"))])
    with pytest.raises(CommandFailed, match=r"^SetState failed with: 'no'$"):
        Session(wire, 1000).update(base.CompleteState(), ["m"])


def test_no_answer_in_time_is_a_failure_with_the_time() -> None:
    with pytest.raises(CommandFailed, match=r"^Command timed out after '10ms'$") as caught:
        Session(FakeWire(), 10).complete_state()
    assert caught.value.text == "Command failed: 'Command timed out after '10ms''"
    assert caught.value.hint == "give it more time with '--response-timeout MS'"


def test_who_has_less_patience_waits_no_longer() -> None:
    with pytest.raises(CommandFailed, match=r"^Command timed out after '5ms'$"):
        Session(FakeWire(), 60_000).complete_state(patience_ms=5)


def test_an_answer_of_another_kind_is_no_answer_but_told() -> None:
    wire = FakeWire(lambda message: [respond(message, error=base.Error(message="no"))])
    with pytest.raises(CommandFailed, match="timed out") as caught:
        Session(wire, 10).complete_state()
    assert caught.value.hint == "the server answered 'no'"


def test_a_lost_stream_is_told_by_what_was_awaited() -> None:
    told = []
    asks: list[Callable[[Session], object]] = [
        lambda session: session.complete_state(),
        lambda session: session.update(base.CompleteState(), []),
        lambda session: session.next_states(),
        lambda session: session.next_event("x"),
        lambda session: session.next_log_response("x"),
    ]
    for ask in asks:
        wire = FakeWire()
        wire.lose()
        with pytest.raises(CommandFailed) as caught:
            ask(Session(wire, 1000))
        told.append(str(caught.value))
    assert told == [
        "Channel preliminary closed.",
        "Connection to server interrupted",
        "Connection to server interrupted",
        "Connection to server interrupted",
        "Error streaming workload logs: channel preliminary closed.",
    ]


def test_events_and_logs_of_others_are_passed_over() -> None:
    wire = FakeWire()
    session = Session(wire, 1000)
    for request_id in ("other", "mine"):
        wire.give(
            FromServer(response=base.Response(requestId=request_id, completeStateResponse=base.CompleteStateResponse()))
        )
        wire.give(FromServer(response=base.Response(requestId=request_id, logsStopResponse=base.LogsStopResponse())))
    assert session.next_event("mine") == base.CompleteStateResponse()
    assert (session.next_log_response("mine")).requestId == "mine"


def test_goodbye_waits_for_the_end_of_the_stream() -> None:
    wire = FakeWire()
    wire.give(state_of("a"))
    wire.lose()
    Session(wire, 1000).goodbye()
    assert wire.sent[0].HasField("goodbye")


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
def test_times_are_told_in_the_largest_unit(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text
