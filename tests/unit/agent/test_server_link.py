"""What leaves the agent, when, and how often; the network itself is in the integration tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ankaios.agent.load_reporter import LoadReporter
from ankaios.agent.resource_monitor import Load, ResourceMonitor
from ankaios.agent.server_link import Connected, Disconnected, LinkChannel, Outbox, ServerLink, agent_hello
from ankaios.common.execution_state import REMOVED, RUNNING_OK
from ankaios.common.pb.ank_base_pb2 import Request
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer, UpdateWorkloadState
from ankaios.common.proto_conversion import workload_state_to_pb
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.common.workload import InstanceName
from ankaios.middleware.connecting import ConnectionLost, ConnectionSettings

NAME = InstanceName("web", "1", "A")
GONE, BACK = (
    ToServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[workload_state_to_pb(NAME, state)]))
    for state in (REMOVED, RUNNING_OK)
)


def test_the_hello_says_who_the_agent_is() -> None:
    hello = agent_hello("A", {"zone": "front"}, ["podman", "native"], devices=True).agentHello
    assert (hello.agentName, hello.protocolVersion, dict(hello.tags.tags), hello.devices) == (
        "A",
        PROTOCOL_VERSION,
        {"zone": "front"},
        True,
    )


async def test_a_message_that_comes_later_is_waited_for() -> None:
    outbox = Outbox()
    taking = asyncio.create_task(outbox.take())
    await asyncio.sleep(0)
    outbox.put(ToServer(request=Request(requestId="1")))
    assert (await taking).request.requestId == "1"


async def test_the_last_word_on_a_workload_is_repeated_if_it_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = Outbox()
    outbox.go_online()
    outbox.put_state(NAME, GONE, is_last=True)
    assert await outbox.take() == GONE
    outbox.go_offline()
    outbox.go_online()
    assert await outbox.take() == GONE
    monkeypatch.setattr("ankaios.agent.server_link.HEARD_AFTER", 0.0)
    outbox.go_offline()
    outbox.put(ToServer())
    assert await outbox.take() == ToServer()


async def test_newer_news_make_a_last_word_pointless() -> None:
    outbox = Outbox()
    outbox.go_online()
    outbox.put_state(NAME, GONE, is_last=True)
    outbox.put_state(NAME, BACK)
    assert [await outbox.take(), await outbox.take()] == [GONE, BACK]
    outbox.go_offline()
    outbox.put(ToServer())
    assert await outbox.take() == ToServer()


async def test_only_so_many_last_words_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.agent.server_link.MAX_LAST_WORDS", 3)
    outbox = Outbox()
    outbox.go_online()
    for number in range(10):
        outbox.put_state(InstanceName(f"w{number}", "1", "A"), ToServer(), is_last=True)
        await outbox.take()
    outbox.go_offline()
    assert len(outbox._queue) == 3


class StillMachine(ResourceMonitor):
    def __init__(self) -> None:
        super().__init__()
        self.samples = 0

    def sample(self) -> Load:
        self.samples += 1
        return Load(self.samples, 1024)


async def test_the_load_is_reported_at_once_and_then_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.agent.load_reporter.REPORT_INTERVAL", 0.001)
    outbox = Outbox()
    outbox.go_online()
    running = asyncio.create_task(LoadReporter("A", outbox, StillMachine()).run())
    first = (await outbox.take()).AgentLoadStatus
    assert (first.agent_name, first.cpu_usage.cpu_usage, first.free_memory.free_memory) == ("A", 1, 1024)
    assert (await outbox.take()).AgentLoadStatus.cpu_usage.cpu_usage == 2
    running.cancel()


async def test_each_hello_begins_the_interval_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[float] = []

    def endless(seconds: float) -> asyncio.Timeout:
        begun.append(seconds)
        return asyncio.Timeout(None)

    monkeypatch.setattr("ankaios.agent.load_reporter.asyncio.timeout", endless)
    machine = StillMachine()
    reporter = LoadReporter("A", Outbox(), machine)
    running = asyncio.create_task(reporter.run())
    for _ in range(3):
        await asyncio.sleep(0)
        reporter.connected()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert begun == [2.0] * 4
    assert machine.samples == 1
    running.cancel()


class TalkativeServer:
    """Says something as often as it is asked, then is gone."""

    def __init__(self, messages: int) -> None:
        self._messages = messages

    async def send(self, message: ToServer) -> None:
        del message

    async def receive(self) -> FromServer:
        if self._messages == 0:
            raise ConnectionLost("gone")
        self._messages -= 1
        return FromServer()


def a_link_to(server: TalkativeServer, inbox: LinkChannel, monkeypatch: pytest.MonkeyPatch) -> ServerLink:
    @asynccontextmanager
    async def connect(*_: object) -> AsyncIterator[TalkativeServer]:
        yield server

    monkeypatch.setattr("ankaios.agent.server_link.connect", connect)
    return ServerLink(ConnectionSettings("http://x"), ToServer(), Outbox(), inbox)


async def test_an_agent_that_ends_does_not_wait_for_its_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = LinkChannel(2)
    running = asyncio.create_task(a_link_to(TalkativeServer(1000), inbox, monkeypatch).run())
    async with asyncio.timeout(5):
        while len(inbox) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=5)
    assert done == {running}


async def test_the_manager_learns_when_a_session_begins_and_when_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = LinkChannel(1)
    running = asyncio.create_task(a_link_to(TalkativeServer(1), inbox, monkeypatch).run())
    async with asyncio.timeout(5):
        assert [await inbox.receive() for _ in range(3)] == [Connected(), FromServer(), Disconnected()]
    running.cancel()
