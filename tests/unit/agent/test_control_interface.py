"""A control interface with real FIFOs and a workload that behaves well or badly."""

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ankaios.agent.control_interface import MAX_WAITING, ControlInterface
from ankaios.agent.core.framing import encode
from ankaios.agent.core.health import HealthResult
from ankaios.agent.core.pending_requests import MOST_UNANSWERED
from ankaios.agent.server_link import Outbox
from ankaios.common.pb.ank_base_pb2 import Error, LogEntriesResponse, LogEntry, Request, Response
from ankaios.common.pb.control_api_pb2 import ToAnkaios
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import ControlInterfaceAccess, Operation, StateRule, WorkloadSpec
from tests.support.builders import a_workload
from tests.support.waiting import until
from tests.unit.agent.pipes import Pipes

PIPE_CAPACITY = 64 * 1024
SPEC = a_workload("nav", "A", access=ControlInterfaceAccess((StateRule(Operation.READ, ("desiredState",)),)))


class Agent:
    """Takes the messages to the server, and collects the requests of the workload and cancelled log requests."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.requests: list[Request] = []
        self.unread: list[str] = []
        self.takes = asyncio.Event()
        self.takes.set()

    def interface(self, folder: Path, tasks: Supervisor) -> ControlInterface:
        return ControlInterface(SPEC, folder, self.outbox, _ignore, tasks)

    async def run(self) -> None:
        while True:
            await self.takes.wait()
            request = (await self.outbox.take()).request
            if request.HasField("logsCancelRequest"):
                self.unread.append(request.requestId)
            else:
                self.requests.append(request)

    async def got(self, count: int) -> list[str]:
        async with asyncio.timeout(5):
            while len(self.requests) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        return [request.requestId for request in self.requests]


def _ignore(result: HealthResult) -> None:
    del result


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.agent.fifo.PACE_LIMIT", 0.002)


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    made = Agent()
    taking = asyncio.create_task(made.run())
    yield made
    taking.cancel()


@pytest.fixture
async def tasks() -> AsyncIterator[Supervisor]:
    async with Supervisor() as group:
        yield group


@pytest.fixture
async def interface(agent: Agent, tasks: Supervisor, tmp_path: Path) -> AsyncIterator[ControlInterface]:
    made = agent.interface(tmp_path / "control_interface", tasks)
    yield made
    await made.close()


@contextmanager
def a_workload_at(interface: ControlInterface) -> Iterator[Pipes]:
    pipes = Pipes(interface.folder)
    try:
        yield pipes
    finally:
        pipes.close()


def a_response(request_id: str, size: int = 0) -> Response:
    return Response(requestId=request_id, error=Error(message="x" * size))


def a_log_response(request_id: str, size: int = 0) -> Response:
    return Response(
        requestId=request_id, logEntriesResponse=LogEntriesResponse(logEntries=[LogEntry(message="x" * size)])
    )


async def test_each_interface_has_two_fifos(interface: ControlInterface) -> None:
    """[utest->swdd~agent-control-interface-creates-two-pipes-per-workload~1]
    [utest->swdd~agent-create-control-interface-pipes-per-workload~1]
    """
    assert sorted(path.name for path in interface.folder.iterdir() if path.is_fifo()) == ["input", "output"]


async def test_a_closed_interface_leaves_no_files(agent: Agent, tasks: Supervisor, tmp_path: Path) -> None:
    interface = agent.interface(tmp_path / "c", tasks)
    (tmp_path / "c/left by the workload").write_text("x")
    await interface.close()
    assert list(tmp_path.iterdir()) == []


async def test_the_fifos_stay_after_the_end_of_the_agent_if_it_keeps_them(
    agent: Agent, tasks: Supervisor, tmp_path: Path
) -> None:
    first = agent.interface(tmp_path / "c", tasks)
    inode = (tmp_path / "c/input").stat().st_ino
    await first.close(keep_fifos=True)
    second = agent.interface(tmp_path / "c", tasks)
    assert (tmp_path / "c/input").stat().st_ino == inode
    with a_workload_at(second) as pipes:
        pipes.hello()
        assert (await pipes.receive()).HasField("controlInterfaceAccepted")
    await second.close()


async def test_a_hello_to_an_ending_agent_is_answered_by_the_next_agent(
    agent: Agent, tasks: Supervisor, tmp_path: Path
) -> None:
    """The Rust SDK does not repeat it."""
    first = agent.interface(tmp_path / "c", tasks)
    with a_workload_at(first) as pipes:
        reader = os.open(tmp_path / "c/output", os.O_RDONLY | os.O_NONBLOCK)  # the reading end of the ended agent
        await first.close(keep_fifos=True)
        pipes.ask("1", "desiredState")
        pipes.hello()
        os.close(reader)
        second = agent.interface(tmp_path / "c", tasks)
        assert (await pipes.receive()).HasField("controlInterfaceAccepted")
        assert agent.requests == []
    await second.close()


async def test_requests_and_responses_of_one_session(interface: ControlInterface, agent: Agent) -> None:
    """[utest->swdd~agent-listens-for-requests-from-pipe~1]
    [utest->swdd~agent-forward-request-from-control-interface-pipe-to-server~1]
    [utest->swdd~agent-forward-responses-to-control-interface-pipe~1]
    [utest->swdd~agent-uses-length-delimited-protobuf-for-pipes~1]
    """
    with a_workload_at(interface) as pipes:
        pipes.hello()
        assert (await pipes.receive()).HasField("controlInterfaceAccepted")
        pipes.ask("7", "workloadStates")
        denied = await pipes.receive()
        assert (denied.response.requestId, denied.response.error.message) == ("7", "Access denied")
        pipes.ask("8", "desiredState.workloads")
        assert await agent.got(1) == ["nav@8"]
        for number in range(10):
            interface.deliver(a_response(str(number)))
        assert [(await pipes.receive()).response.requestId for _ in range(10)] == [str(number) for number in range(10)]


async def test_a_workload_that_writes_more_than_a_pipe_holds_is_read(interface: ControlInterface, agent: Agent) -> None:
    """[utest->swdd~agent-ensures-control-interface-output-pipe-read~1]"""
    request = ToAnkaios()
    request.request.requestId = "7"
    request.request.completeStateRequest.fieldMask.extend(["desiredState.workloads.web"] * 20_000)
    frame = encode(request.SerializeToString())
    assert len(frame) > 4 * PIPE_CAPACITY
    with a_workload_at(interface) as pipes:
        pipes.hello()
        async with asyncio.timeout(30):
            await pipes.write_all(frame)
        assert await agent.got(1) == ["nav@7"]
        assert len(agent.requests[0].completeStateRequest.fieldMask) == 20_000


async def test_every_hello_is_accepted_also_that_of_a_restarted_workload(interface: ControlInterface) -> None:
    for _ in range(3):
        with a_workload_at(interface) as pipes:
            pipes.hello()
            assert (await pipes.receive()).HasField("controlInterfaceAccepted")
        await asyncio.sleep(0.02)


async def test_a_session_that_does_not_begin_with_a_hello_ends_permanently(
    interface: ControlInterface, agent: Agent
) -> None:
    with a_workload_at(interface) as pipes:
        pipes.ask("1", "desiredState")
        assert (await pipes.receive()).connectionClosed.reason == "Initial Hello missing!"
        pipes.hello()
        assert await pipes.receives_nothing()
        interface.deliver(a_response("1"))
        interface.deliver(a_log_response("2"))
        assert await pipes.receives_nothing()
    assert agent.requests == []
    assert agent.unread == ["nav@2"]


async def test_invalid_data_after_the_hello_is_skipped(interface: ControlInterface, agent: Agent) -> None:
    with a_workload_at(interface) as pipes:
        pipes.hello()
        await pipes.receive()
        pipes.write(encode(b"\xff\xff\xff"))
        pipes.write(encode(b""))
        pipes.write(encode(b"x" * 5_000_000)[:60_000])
    await asyncio.sleep(0.02)
    with a_workload_at(interface) as pipes:
        pipes.ask("1", "desiredState")
        assert await agent.got(1) == ["nav@1"]


async def test_requests_may_arrive_in_parts_while_responses_are_sent(interface: ControlInterface, agent: Agent) -> None:
    """A response that arrives while a request is partly read does not discard the read part."""
    request = ToAnkaios()
    request.request.requestId = "1"
    request.request.completeStateRequest.fieldMask.append("desiredState")
    frame = encode(request.SerializeToString())
    with a_workload_at(interface) as pipes:
        pipes.hello()
        await pipes.receive()
        for byte in frame:
            pipes.write(bytes([byte]))
            await asyncio.sleep(0)
            interface.deliver(a_response("r"))
        assert await agent.got(1) == ["nav@1"]
        for _ in frame:
            await pipes.receive()


async def test_the_session_continues_after_the_workload_closes_and_reopens_its_pipe(
    interface: ControlInterface, agent: Agent
) -> None:
    with a_workload_at(interface) as pipes:
        pipes.hello()
        await pipes.receive()
    for number in range(3):
        end = os.open(interface.folder / "output", os.O_WRONLY | os.O_NONBLOCK)
        request = ToAnkaios()
        request.request.requestId = str(number)
        request.request.completeStateRequest.fieldMask.append("desiredState")
        os.write(end, encode(request.SerializeToString()))
        os.write(end, b"\x20unfinished")
        os.close(end)
        assert len(await agent.got(number + 1)) == number + 1
        await asyncio.sleep(0.02)


async def test_responses_wait_until_the_workload_has_sent_a_hello(interface: ControlInterface) -> None:
    interface.deliver(a_response("early"))
    with a_workload_at(interface) as pipes:
        assert await pipes.receives_nothing()
        pipes.hello()
        assert (await pipes.receive()).HasField("controlInterfaceAccepted")
        assert (await pipes.receive()).response.requestId == "early"


async def test_a_workload_that_does_not_read_uses_little_memory_and_loses_its_logs(
    interface: ControlInterface, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[utest->swdd~agent-handles-control-interface-input-pipe-not-read~1]"""
    monkeypatch.setattr("ankaios.agent.fifo.WRITE_LIMIT", 0.02)
    with a_workload_at(interface) as pipes:
        pipes.hello()
        await pipes.receive()
        for number in range(3 * MAX_WAITING):
            interface.deliver(a_response(str(number), 10_000))
        assert interface._waiting_bytes <= 8 * 1024 * 1024
        interface.deliver(a_log_response("logs", 10_000))
        await until(lambda: agent.unread == ["nav@logs"])
        async with asyncio.timeout(10):
            while interface._waiting:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        interface.deliver(a_log_response("more logs", 10_000))
        async with asyncio.timeout(5):
            while len(agent.unread) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        while not await pipes.receives_nothing(0.05):
            pipes._received.clear()
        pipes.ask("1", "agents")
        while (await pipes.receive()).response.error.message != "Access denied":
            pass


async def test_an_agent_that_forwards_no_requests_blocks_only_the_requesting_workload(
    interface: ControlInterface, agent: Agent
) -> None:
    agent.takes.clear()
    with a_workload_at(interface) as pipes:
        pipes.hello()
        await pipes.receive()
        with pytest.raises(BlockingIOError):
            for number in range(100_000):
                pipes.ask(str(number), "desiredState")
        interface.deliver(a_response("still answered"))
        assert (await pipes.receive()).response.requestId == "still answered"
        agent.takes.set()
        await agent.got(MOST_UNANSWERED)


async def test_a_workload_that_gets_no_answers_is_not_read_any_more(interface: ControlInterface, agent: Agent) -> None:
    """Otherwise its requests would fill the connection of the agent to the server.

    [utest->swdd~agent-forward-responses-to-control-interface-pipe~1]
    """
    with a_workload_at(interface) as pipes:
        pipes.hello()
        await pipes.receive()
        for number in range(200):
            pipes.ask(str(number), "desiredState")
        await agent.got(MOST_UNANSWERED)
        await asyncio.sleep(0.05)
        assert len(agent.requests) == MOST_UNANSWERED
        for number in range(10):
            interface.deliver(a_response(str(number)))
        await agent.got(MOST_UNANSWERED + 10)


async def test_a_workload_that_sends_faster_than_it_reads_is_slowed_down(
    interface: ControlInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ankaios.agent.control_interface.MAX_WAITING", 4)
    with a_workload_at(interface) as pipes:
        pipes.hello()
        await pipes.receive()
        for number in range(50):
            pipes.ask(str(number), "agents")
        assert [(await pipes.receive()).response.requestId for _ in range(50)] == [str(number) for number in range(50)]


async def test_many_requests_do_not_block_other_tasks(interface: ControlInterface) -> None:
    with a_workload_at(interface) as pipes:
        pipes.hello()
        await pipes.receive()
        ticks = 0
        flood = asyncio.create_task(_flood(pipes))
        while not flood.done():
            await asyncio.sleep(0)
            ticks += 1
        assert ticks > 20  # each of the twenty answers was written between the requests


async def _flood(pipes: Pipes) -> None:
    for number in range(2000):
        pipes.ask(str(number), "agents")
        if number % 100 == 0:
            await pipes.receive()


async def test_a_workload_that_breaks_its_own_fifo_affects_only_itself(interface: ControlInterface) -> None:
    with a_workload_at(interface) as pipes:
        pipes.hello()
        await pipes.receive()
        (interface.folder / "output").unlink()
        (interface.folder / "output").symlink_to("/etc/passwd")
    await asyncio.sleep(0.05)
    interface.deliver(a_response("1"))
    await asyncio.sleep(0.01)


def unread_bytes(pipe: int) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]  # type: ignore[no-any-return]


async def test_after_an_unread_acceptance_a_new_hello_is_needed(
    interface: ControlInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ankaios.agent.fifo.REOPEN_PAUSE", 0.002)
    end = os.open(interface.folder / "output", os.O_WRONLY | os.O_NONBLOCK)
    os.write(end, bytes.fromhex("090a071205312e302e30"))
    await until(lambda: not unread_bytes(end))
    await until(lambda: not interface._session.accepted)
    assert not interface._session.dead
    os.close(end)
    with a_workload_at(interface) as pipes:
        pipes.hello()
        assert (await pipes.receive()).HasField("controlInterfaceAccepted")


def test_the_session_continues_only_for_the_same_instance_and_rules() -> None:
    other_rules = a_workload("nav", "A", access=ControlInterfaceAccess())
    other_id = a_workload("nav", "A", config="image: two", access=SPEC.access)
    tagged = a_workload("nav", "A", access=SPEC.access, tags={"a": "b"})

    def serves(spec: WorkloadSpec) -> bool:
        interface = object.__new__(ControlInterface)
        interface.spec = SPEC
        return interface.serves(spec)

    assert [serves(spec) for spec in (SPEC, tagged, other_rules, other_id)] == [True, True, False, False]
