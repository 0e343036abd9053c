"""An agent and a server, over real gRPC."""

import asyncio
import socket
import time
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from ankaios.agent.agent import run_agent
from ankaios.agent.server_link import LINK_CAPACITY, LinkChannel, Outbox, ServerLink, agent_hello
from ankaios.common.errors import StartupFailed
from ankaios.common.execution_state import SUCCEEDED_OK
from ankaios.common.pb.ank_base_pb2 import LogsRequest as BaseLogsRequest
from ankaios.common.pb.ank_base_pb2 import WorkloadInstanceName
from ankaios.common.pb.grpc_api_pb2 import FromServer, LogsRequest
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.common.workload import WorkloadSpec
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.runtimes.connectors import Connectors
from tests.integration.agent.running_agent import an_agent_at, settings_for
from tests.integration.agent.scripted_server import a_server
from tests.support.builders import a_workload
from tests.support.fake_runtime import FakeRuntime
from tests.unit.agent.fake_devices import no_devices
from tests.unit.agent.harness import server_hello, update_workload

WEB = a_workload("web", "A")


async def test_an_agent_sends_its_hello_and_its_load(tmp_path: Path) -> None:
    """[itest->swdd~agent-sends-hello~1]
    [itest->swdd~agent-default-communication-grpc~1]
    [itest->swdd~communication-to-from-agent-middleware~1]
    """
    async with a_server() as server, an_agent_at(server.url, tmp_path):
        session = await server.session()
        hello = session.hello.agentHello
        assert (hello.agentName, hello.protocolVersion, dict(hello.tags.tags)) == (
            "A",
            PROTOCOL_VERSION,
            {"zone": "front"},
        )
        load = await session.receive("AgentLoadStatus", 0.5)
        assert load.AgentLoadStatus.agent_name == "A"
        assert load.AgentLoadStatus.free_memory.free_memory > 1024
        with pytest.raises(TimeoutError):
            await session.receive("AgentLoadStatus", 1.5)
        await session.receive("AgentLoadStatus", 1.5)


async def test_workloads_are_created_and_deleted_as_the_server_requests(tmp_path: Path) -> None:
    """[itest->swdd~agent-manager-listens-requests-from-server~1]
    [itest->swdd~agent-shall-use-interfaces-to-server~1]
    [itest->swdd~podman-workload-sends-workload-state~1]
    """
    async with a_server() as server, an_agent_at(server.url, tmp_path) as podman:
        session = await server.session()
        session.send(server_hello(WEB))
        assert await session.states(2) == ["web PENDING_STARTING", "web RUNNING_OK"]
        podman.set_state(podman.named("web").id, SUCCEEDED_OK)
        assert await session.states(1) == ["web SUCCEEDED_OK"]
        session.send(update_workload(deleted={WEB.instance_name: {}}))
        assert await session.states(2) == ["web STOPPING_REQUESTED_AT_RUNTIME", "web REMOVED"]


async def test_an_agent_rejects_a_server_with_an_older_term(tmp_path: Path) -> None:
    """Commands of a former leader are rejected; those of a later leader are executed."""
    async with a_server() as server, an_agent_at(server.url, tmp_path) as podman:
        first = await server.session()
        first.send(hello_with_term(7, WEB))
        await first.states(2)
        first.end()
        former = await server.session()
        former.send(hello_with_term(6))  # would delete the workload
        async with asyncio.timeout(30):
            await former.gone.wait()
        later = await server.session()
        assert [call for call, _ in podman.calls if call == "delete"] == []
        later.send(hello_with_term(8))
        assert await later.states(2, 30) == ["web STOPPING_REQUESTED_AT_RUNTIME", "web REMOVED"]


def hello_with_term(term: int, *added: WorkloadSpec) -> FromServer:
    hello = server_hello(*added)
    hello.serverHello.term = term
    return hello


async def test_an_agent_reconnects_after_a_second_and_loses_no_state(tmp_path: Path) -> None:
    async with a_server() as server, an_agent_at(server.url, tmp_path) as podman:
        first = await server.session()
        first.send(server_hello(WEB))
        await first.states(2)
        await server.stop()
        await asyncio.sleep(0.2)
        podman.set_state(podman.named("web").id, SUCCEEDED_OK)
        await asyncio.sleep(2.5)  # some attempts fail
        await server.start()
        second = await server.session()
        assert await second.states(1) == ["web SUCCEEDED_OK"]
        await second.receive("AgentLoadStatus", 0.5)  # only the newest one, not a burst
        second.send(server_hello(WEB))
        assert await second.states(1) == ["web SUCCEEDED_OK"]
        assert [call for call, _ in podman.calls if call == "create"] == ["create"]
        with pytest.raises(TimeoutError):
            await second.receive("AgentLoadStatus", 1.0)


async def test_the_end_of_a_workload_is_reported_again_after_a_lost_connection(tmp_path: Path) -> None:
    async with a_server() as server, an_agent_at(server.url, tmp_path):
        session = await server.session()
        session.send(server_hello(WEB))
        await session.states(2)
        session.send(update_workload(deleted={WEB.instance_name: {}}))
        await session.states(2)
        session.end()
        session = await server.session()
        assert await session.states(1) == ["web REMOVED"]


async def test_an_agent_connects_at_most_once_a_second_if_the_server_disconnects_it(tmp_path: Path) -> None:
    """As happens when two agents have the same name."""
    async with a_server() as server, an_agent_at(server.url, tmp_path) as podman:
        begin = time.monotonic()
        for _ in range(3):
            session = await server.session()
            session.send(server_hello(WEB))
            session.end()
        assert time.monotonic() - begin > 1.9
        session = await server.session()
        session.send(server_hello(WEB))
        assert (await session.states(1))[-1].startswith("web")
        assert [call for call, _ in podman.calls if call == "create"] == ["create"]


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INTERNAL])
async def test_a_rejected_agent_connects_again(tmp_path: Path, status: grpc.StatusCode) -> None:
    async with a_server() as server:
        server.refuse = (status, "not you")
        async with an_agent_at(server.url, tmp_path):
            while server.hellos < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            server.refuse = None
            await server.session()


async def test_a_server_of_another_version_ends_the_agent(tmp_path: Path) -> None:
    async with a_server() as server:
        text = "Unsupported protocol version '1.1.0'. Currently supported '2'"
        server.refuse = (grpc.StatusCode.FAILED_PRECONDITION, text)
        podman = FakeRuntime("podman")
        connectors = Connectors({"podman": lambda: podman})
        assert connectors["podman"] is podman
        with pytest.raises(StartupFailed, match=f"Ankaios version mismatch: '{text}'"):
            async with asyncio.timeout(5):
                await run_agent(settings_for(server.url, tmp_path), connectors, no_devices)
        assert podman.closed


async def test_logs_are_sent_and_end_with_the_connection(tmp_path: Path) -> None:
    async with a_server() as server, an_agent_at(server.url, tmp_path) as podman:
        session = await server.session()
        session.send(server_hello(WEB))
        await session.states(2)
        web = podman.named("web").id
        names = [WorkloadInstanceName(workloadName="web", agentName="A", id=WEB.instance_name.id)]
        request = BaseLogsRequest(workloadNames=names, follow=True)
        session.send(FromServer(logsRequest=LogsRequest(requestId="cli-conn-1@7", logsRequest=request)))
        await asyncio.sleep(0.05)
        podman.print(web, b"hello\nworld\n")
        entries = (await session.receive("logEntriesResponse")).logEntriesResponse
        assert entries.requestId == "cli-conn-1@7"
        assert [entry.message for entry in entries.logEntriesResponse.logEntries] == ["hello", "world"]
        session.end()
        again = await server.session()
        podman.print(web, b"too late\n")
        with pytest.raises(TimeoutError):
            await again.receive("logEntriesResponse", 0.3)


async def test_an_agent_that_ends_keeps_workloads_and_fifos(tmp_path: Path) -> None:
    async with a_server() as server:
        async with an_agent_at(server.url, tmp_path) as podman:
            session = await server.session()
            session.send(server_hello(WEB))
            await session.states(2)
        async with asyncio.timeout(3):
            await session.gone.wait()
        assert len(podman.workloads) == 1
        async with an_agent_at(server.url, tmp_path, podman):
            session = await server.session()
            session.send(server_hello(WEB))
            assert await session.states(1) == ["web RUNNING_OK"]
        assert [call for call, _ in podman.calls if call == "create"] == ["create"]


async def run_until_attempted(url: str) -> None:
    hello = agent_hello("A", {}, ["podman"], devices=False)
    link = ServerLink(ConnectionSettings(url), hello, Outbox(), LinkChannel(LINK_CAPACITY))
    running = asyncio.create_task(link.run())
    async with asyncio.timeout(30):
        await link.attempted.wait()
    running.cancel()
    await asyncio.wait([running])


async def test_the_first_attempt_ends_with_the_hello() -> None:
    """The server need not have accepted it: the agent loads its other modules meanwhile."""
    unresponsive = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with unresponsive:
        await run_until_attempted(f"http://127.0.0.1:{unresponsive.sockets[0].getsockname()[1]}")


async def test_the_first_attempt_ends_with_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    await run_until_attempted(f"http://127.0.0.1:{port}")
