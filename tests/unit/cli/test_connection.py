"""A session with the server, against a connection in memory."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ankaios.cli.connection import CommandFailed, Session, duration_text
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer, UpdateWorkloadState
from ankaios.middleware.client import ConnectionLost

Answer = Callable[[ToServer], list[FromServer]]


class FakeWire:
    """Answers what the test says; without an answer `receive` waits, after `lose` it fails."""

    def __init__(self, answer: Answer = lambda _: []) -> None:
        self.sent: list[ToServer] = []
        self._answer = answer
        self._inbox: asyncio.Queue[FromServer | None] = asyncio.Queue()

    async def send(self, message: ToServer) -> None:
        self.sent.append(message)
        for answer in self._answer(message):
            self.give(answer)

    async def receive(self) -> FromServer:
        message = await self._inbox.get()
        if message is None:
            raise ConnectionLost("gone")
        return message

    def give(self, message: FromServer) -> None:
        self._inbox.put_nowait(message)

    def lose(self) -> None:
        self._inbox.put_nowait(None)


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


async def test_the_answer_with_the_own_id_is_found_and_states_on_the_way_are_kept() -> None:
    wire = FakeWire(with_state)
    session = Session(wire, 1000)
    state = await session.complete_state("a", "b")
    assert state.desiredState.apiVersion == "v1"
    assert list(wire.sent[0].request.completeStateRequest.fieldMask) == ["a", "b"]
    assert [s.instanceName.workloadName for s in await session.next_states()] == ["early"]
    assert [s.instanceName.workloadName for s in await session.next_states()] == ["late"]


async def test_every_request_has_an_id_of_its_own() -> None:
    wire = FakeWire(with_state)
    session = Session(wire, 1000)
    await session.complete_state()
    await session.complete_state()
    ids = {message.request.requestId for message in wire.sent}
    assert len(ids) == 2 and "" not in ids


async def test_a_time_limit_ends_the_waiting_but_not_the_read() -> None:
    wire = FakeWire()
    session = Session(wire, 1000)
    assert await session.next_states(0) == []
    wire.give(state_of("a"))
    assert [s.instanceName.workloadName for s in await session.next_states(1)] == ["a"]


async def test_a_rejected_update_is_a_failure_with_the_reason_of_the_server() -> None:
    wire = FakeWire(lambda message: [respond(message, error=base.Error(message="no"))])
    with pytest.raises(CommandFailed, match=r"^SetState failed with: 'no'$"):
        await Session(wire, 1000).update(base.CompleteState(), ["m"])


async def test_no_answer_in_time_is_a_failure_with_the_time() -> None:
    with pytest.raises(CommandFailed, match=r"^Command timed out after '10ms'$") as caught:
        await Session(FakeWire(), 10).complete_state()
    assert caught.value.text == "Command failed: 'Command timed out after '10ms''"


async def test_a_lost_stream_is_told_by_what_was_awaited() -> None:
    told = []
    asks: list[Callable[[Session], Awaitable[object]]] = [
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
            await ask(Session(wire, 1000))
        told.append(str(caught.value))
    assert told == [
        "Channel preliminary closed.",
        "Connection to server interrupted",
        "Connection to server interrupted",
        "Connection to server interrupted",
        "Error streaming workload logs: channel preliminary closed.",
    ]


async def test_events_and_logs_of_others_are_passed_over() -> None:
    wire = FakeWire()
    session = Session(wire, 1000)
    for request_id in ("other", "mine"):
        wire.give(
            FromServer(response=base.Response(requestId=request_id, completeStateResponse=base.CompleteStateResponse()))
        )
        wire.give(FromServer(response=base.Response(requestId=request_id, logsStopResponse=base.LogsStopResponse())))
    assert await session.next_event("mine") == base.CompleteStateResponse()
    assert (await session.next_log_response("mine")).requestId == "mine"


async def test_goodbye_waits_for_the_end_of_the_stream() -> None:
    wire = FakeWire()
    wire.give(state_of("a"))
    wire.lose()
    await Session(wire, 1000).goodbye()
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
