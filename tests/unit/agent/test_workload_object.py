"""The control interface of a workload that can change the content of its folder."""

import os
import stat
from pathlib import Path

import pytest

from ankaios.agent.core.framing import encode
from ankaios.common.execution_state import exited
from ankaios.common.pb.ank_base_pb2 import CompleteStateRequest, CompleteStateResponse, Request, Response
from ankaios.common.pb.control_api_pb2 import ToAnkaios
from ankaios.common.pb.grpc_api_pb2 import FromServer
from ankaios.common.workload import ControlInterfaceAccess, Operation, RestartPolicy, StateRule, WorkloadSpec
from tests.support.builders import a_workload
from tests.unit.agent.harness import AgentScenario, an_agent, server_hello, update_workload
from tests.unit.agent.pipes import Pipes

ACCESS = ControlInterfaceAccess((StateRule(Operation.READ, ("desiredState",)),))
NAV = a_workload("nav", "A", access=ACCESS, restart_policy=RestartPolicy.ON_FAILURE)


async def restart(scenario: AgentScenario) -> None:
    scenario.podman.set_state(scenario.podman.named("nav").id, exited(1))
    await scenario.until(lambda: [call for call, _ in scenario.podman.calls].count("check") == 2)


def interface_of(scenario: AgentScenario) -> Path:
    return scenario.folder.control_interface(NAV.instance_name)


async def test_the_folder_of_an_instance_is_closed_to_others() -> None:
    before = os.umask(0)
    try:
        async with an_agent() as a:
            await a.handle(server_hello(NAV))
            folder, interface = a.folder.of(NAV.instance_name), interface_of(a)
            modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, interface, interface / "input")]
            assert modes == [0o700, 0o755, 0o700]
    finally:
        os.umask(before)


@pytest.mark.parametrize("trap", ["link", "file", "full folder", "nothing"])
async def test_fifos_that_the_workload_replaced_are_created_again_with_its_next_start(
    trap: str, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("unchanged")
    async with an_agent() as a:
        await a.handle(server_hello(NAV))
        path = interface_of(a) / "input"
        path.unlink()
        match trap:
            case "link":
                path.symlink_to(tmp_path / "outside")
            case "file":
                path.write_text("")
            case "full folder":
                (path / "a/b/c").mkdir(parents=True)
        await restart(a)
        assert path.is_fifo()
        pipes = Pipes(interface_of(a))
        pipes.hello()
        assert (await pipes.receive()).HasField("controlInterfaceAccepted")
        pipes.close()
    assert (tmp_path / "outside").read_text() == "unchanged"


async def test_unchanged_fifos_are_kept() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(NAV))
        before = (interface_of(a) / "input").stat().st_ino
        await restart(a)
        assert (interface_of(a) / "input").stat().st_ino == before


async def repeated_requests(scenario: AgentScenario, *workloads: WorkloadSpec) -> list[str]:
    """Return the ids of the requests that the agent sends when it connects to a server with these workloads."""
    scenario.disconnect()
    scenario.connect()
    scenario.manager.handle(server_hello(*workloads))
    return [message.request.requestId for message in await scenario.messages() if message.HasField("request")]


async def test_a_subscription_is_sent_to_each_server_until_its_workload_is_deleted() -> None:
    subscription = CompleteStateRequest(fieldMask=["desiredState"], subscribeForEvents=True)
    request = ToAnkaios(request=Request(requestId="1", completeStateRequest=subscription))
    async with an_agent() as a:
        await a.handle(server_hello(NAV))
        pipes = Pipes(interface_of(a))
        pipes.hello()
        await pipes.receive()
        pipes.write(encode(request.SerializeToString()))
        await a.until(lambda: len(a.outbox._queue))
        assert [message.request.requestId for message in await a.messages()] == ["nav@1"]
        accepted = Response(requestId="nav@1", completeStateResponse=CompleteStateResponse())
        a.manager.handle(FromServer(response=accepted))
        assert await repeated_requests(a, NAV) == ["nav@1"]
        assert await repeated_requests(a, NAV) == ["nav@1"]
        await a.handle(update_workload(deleted={NAV.instance_name: {}}))
        assert await repeated_requests(a, NAV) == []
        pipes.close()
