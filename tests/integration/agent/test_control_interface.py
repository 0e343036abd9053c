"""A workload exchanges messages with the server through its FIFOs and its agent."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ankaios.agent.core.pending_requests import MOST_UNANSWERED
from ankaios.common.pb.ank_base_pb2 import (
    CompleteState,
    CompleteStateResponse,
    Error,
    LogEntriesResponse,
    LogEntry,
    LogsRequestAccepted,
    Response,
    State,
    Workload,
    WorkloadInstanceName,
    WorkloadMap,
)
from ankaios.common.pb.grpc_api_pb2 import FromServer
from ankaios.common.workload import ControlInterfaceAccess, LogRule, Operation, StateRule
from tests.integration.agent.running_agent import an_agent_at
from tests.integration.agent.scripted_server import Session, a_server
from tests.support.builders import a_workload
from tests.unit.agent.harness import server_hello, update_workload
from tests.unit.agent.pipes import Pipes

ACCESS = ControlInterfaceAccess((StateRule(Operation.READ_WRITE, ("desiredState",)), LogRule(("*",))))
NAV = a_workload("nav", "A", access=ACCESS)
SDK_PYTHON = Path(__file__).resolve().parents[3] / ".venv/sdk/bin/python"


def folder_of(run_folder: Path) -> Path:
    return run_folder / f"A_io/nav.{NAV.instance_name.id}/control_interface"


async def test_requests_and_responses_are_forwarded(tmp_path: Path) -> None:
    async with a_server() as server, an_agent_at(server.url, tmp_path) as podman:
        session = await server.session()
        session.send(server_hello(NAV))
        await session.states(2)
        assert podman.named("nav").extras.control_interface == folder_of(tmp_path)
        pipes = Pipes(folder_of(tmp_path))
        pipes.hello()
        assert (await pipes.receive()).HasField("controlInterfaceAccepted")
        pipes.ask("7", "workloadStates")
        assert (await pipes.receive()).response.error.message == "Access denied"
        pipes.ask("8", "desiredState.workloads")
        assert (await session.receive("request")).request.requestId == "nav@8"
        session.send(FromServer(response=Response(requestId="nav@8", error=Error(message="over there"))))
        answer = (await pipes.receive()).response
        assert (answer.requestId, answer.error.message) == ("8", "over there")
        pipes.close()


async def test_requests_wait_until_the_server_is_connected(tmp_path: Path) -> None:
    async with a_server() as server, an_agent_at(server.url, tmp_path):
        session = await server.session()
        session.send(server_hello(NAV))
        await session.states(2)
        pipes = Pipes(folder_of(tmp_path))
        pipes.hello()
        await pipes.receive()
        await server.stop()
        await asyncio.sleep(0.3)
        for number in range(100):
            pipes.ask(str(number), "desiredState")
        await server.start()
        session = await server.session()
        ids = [(await session.receive("request")).request.requestId for _ in range(MOST_UNANSWERED)]
        assert ids == [f"nav@{number}" for number in range(MOST_UNANSWERED)]
        for number in range(100):  # each answer permits one more request
            session.send(FromServer(response=Response(requestId=f"nav@{number}", error=Error(message="late"))))
            assert (await pipes.receive()).response.requestId == str(number)
            if (further := MOST_UNANSWERED + number) < 100:
                assert (await session.receive("request")).request.requestId == f"nav@{further}"
        pipes.close()


async def test_a_workload_sends_its_hello_again_to_the_next_agent(tmp_path: Path) -> None:
    async with a_server() as server:
        async with an_agent_at(server.url, tmp_path) as podman:
            session = await server.session()
            session.send(server_hello(NAV))
            await session.states(2)
            pipes = Pipes(folder_of(tmp_path))
            pipes.hello()
            await pipes.receive()
        async with an_agent_at(server.url, tmp_path, podman):
            session = await server.session()
            session.send(server_hello(NAV))
            await session.states(1)
            pipes.hello()
            assert (await pipes.receive()).HasField("controlInterfaceAccepted")
            pipes.ask("1", "desiredState")
            assert (await session.receive("request")).request.requestId == "nav@1"
            pipes.close()


async def test_a_reconnect_does_not_affect_the_control_interface(tmp_path: Path) -> None:
    async with a_server() as server, an_agent_at(server.url, tmp_path):
        session = await server.session()
        session.send(server_hello(NAV))
        await session.states(2)
        pipes = Pipes(folder_of(tmp_path))
        pipes.hello()
        await pipes.receive()
        inode = (folder_of(tmp_path) / "input").stat().st_ino
        session.end()
        session = await server.session()
        session.send(server_hello(NAV))
        await session.states(1)
        pipes.ask("1", "desiredState")
        assert (await session.receive("request")).request.requestId == "nav@1"
        assert (folder_of(tmp_path) / "input").stat().st_ino == inode
        pipes.close()


async def test_changed_access_rules_restart_the_control_interface_and_removed_ones_close_it(tmp_path: Path) -> None:
    async with a_server() as server, an_agent_at(server.url, tmp_path) as podman:
        session = await server.session()
        session.send(server_hello(NAV))
        await session.states(2)
        inode = (folder_of(tmp_path) / "input").stat().st_ino
        keeper = os.open(folder_of(tmp_path) / "input", os.O_RDONLY | os.O_NONBLOCK)  # so that no inode is used twice
        more = a_workload("nav", "A", access=ControlInterfaceAccess((*ACCESS.allow, *ACCESS.allow)))
        session.send(update_workload((more,), {NAV.instance_name: {}}))
        await session.states(4)
        assert (folder_of(tmp_path) / "input").stat().st_ino != inode
        none = a_workload("nav", "A", access=ControlInterfaceAccess((), ACCESS.allow))
        session.send(update_workload((none,), {NAV.instance_name: {}}))
        await session.states(4)
        assert not folder_of(tmp_path).exists()
        assert podman.named("nav").extras.control_interface is None
        os.close(keeper)


SDK_SCRIPT = """
import json
from ankaios_sdk import Ankaios, AnkaiosException, WorkloadInstanceName
results = {}
with Ankaios() as ankaios:
    state = ankaios.get_state(["desiredState.workloads"])
    results["workloads"] = sorted(workload.name for workload in state.get_workloads())
    big = ankaios.get_state(["desiredState.workloads"])
    results["big"] = [len(workload.to_dict()["runtimeConfig"]) for workload in big.get_workloads()]
    try:
        ankaios.get_agents()
    except AnkaiosException as error:
        results["denied"] = str(error)
    logs = ankaios.request_logs([WorkloadInstanceName("A", "nav", "1")])
    results["logs"] = [logs.queue.get(timeout=5).message for _ in range(100)]
print(json.dumps(results))
"""


def a_log_entry(request_id: str, text: str) -> FromServer:
    entry = LogEntry(workloadName=WorkloadInstanceName(workloadName="nav", agentName="A", id="1"), message=text)
    entries = LogEntriesResponse(logEntries=[entry])
    return FromServer(response=Response(requestId=request_id, logEntriesResponse=entries))


async def a_server_for_the_sdk(session: Session) -> None:
    sizes = iter([1, 700_000])
    while True:
        request = (await session.receive("request", 30)).request
        if request.HasField("logsRequest"):
            accepted = LogsRequestAccepted(workloadNames=request.logsRequest.workloadNames)
            session.send(FromServer(response=Response(requestId=request.requestId, logsRequestAccepted=accepted)))
            await asyncio.sleep(0.3)  # the SDK needs a moment before it takes log entries
            session.send(*(a_log_entry(request.requestId, f"line {number}") for number in range(100)))
            continue
        workload = Workload(agent="A", runtime="podman", runtimeConfig="x" * next(sizes))
        state = State(apiVersion="v1", workloads=WorkloadMap(workloads={"nav": workload}))
        answer = CompleteStateResponse(completeState=CompleteState(desiredState=state))
        session.send(FromServer(response=Response(requestId=request.requestId, completeStateResponse=answer)))


def can_unshare() -> bool:
    if not SDK_PYTHON.exists() or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="needs the SDK in .venv/sdk and the right to make a mount namespace")
async def test_the_unmodified_sdk_works_with_the_agent(tmp_path: Path) -> None:
    """The SDK uses a fixed path, so it runs in a mount namespace in which the FIFOs have this path."""
    async with a_server() as server, an_agent_at(server.url, tmp_path):
        session = await server.session()
        session.send(server_hello(NAV))
        await session.states(2)
        (tmp_path / "script.py").write_text(SDK_SCRIPT)
        script = (
            "mount -t tmpfs tmpfs /run && mkdir -p /run/ankaios/control_interface && "
            f"mount --bind {folder_of(tmp_path)} /run/ankaios/control_interface && "
            f"exec {SDK_PYTHON} {tmp_path}/script.py"
        )
        for _ in range(2):  # the second time like a restarted workload
            answering = asyncio.create_task(a_server_for_the_sdk(session))
            process = await asyncio.create_subprocess_exec(
                *("unshare", "--mount", "sh", "-ec", script), stdout=asyncio.subprocess.PIPE, stderr=sys.stderr
            )
            async with asyncio.timeout(60):
                output, _ = await process.communicate()
            answering.cancel()
            results = json.loads(output.decode().splitlines()[-1])
            assert (results["workloads"], results["big"]) == (["nav"], [700_000])
            assert "Access denied" in results["denied"]
            assert results["logs"] == [f"line {number}" for number in range(100)]
