"""The server with its middleware on a real socket, with agents and command lines as gRPC clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ankaios.common.execution_state import REMOVED, RUNNING_OK
from ankaios.common.model.state import COMPLETE_STATE, STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.proto_conversion import instance_name_to_pb, workload_state_to_pb
from ankaios.common.workload import InstanceName
from ankaios.middleware.client import ServerConnection, connect
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from ankaios.server.mutating_hooks import MutatingHook
from ankaios.server.shell import ServerShell
from tests.unit.server.scenario import Form, a_form, a_state, web

TIME_LIMIT = 15.0


@dataclass
class Peer:
    connection: ServerConnection

    async def receive(self) -> grpc.FromServer:
        async with asyncio.timeout(TIME_LIMIT):
            message = await self.connection.receive()
        assert message is not None
        return message

    async def response(self) -> base.Response:
        """The next response; states that are sent to all clients are skipped."""
        while True:
            message = await self.receive()
            if message.HasField("response"):
                return message.response

    async def update(self, state: Form, *masks: str) -> base.Response:
        content = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form(state), updateMask=masks)
        await self.connection.send(grpc.ToServer(request=base.Request(requestId="u", updateStateRequest=content)))
        return await self.response()

    async def greeting(self, *known: InstanceName) -> list[str]:
        """The workloads in the server hello; the agent first answers a `TellWorkloads` request."""
        while not (message := await self.receive()).HasField("serverHello"):
            assert not message.HasField("updateWorkload"), "nothing is sent before the server hello"
            if message.HasField("tellWorkloads"):
                answer = grpc.KnownWorkloads(instanceNames=map(instance_name_to_pb, known))
                await self.connection.send(grpc.ToServer(knownWorkloads=answer))
                await self.connection.send(grpc.ToServer(deviceReport=grpc.DeviceReport(complete=True)))
        return [added.instanceName.workloadName for added in message.serverHello.addedWorkloads]

    async def report(self, *states: base.WorkloadState) -> None:
        content = grpc.UpdateWorkloadState(workloadStates=states)
        await self.connection.send(grpc.ToServer(updateWorkloadState=content))


@dataclass
class Running:
    shell: ServerShell

    @property
    def settings(self) -> ConnectionSettings:
        return ConnectionSettings(f"http://127.0.0.1:{self.shell.middleware.port}")

    @asynccontextmanager
    async def agent(self, name: str, devices: bool = False) -> AsyncIterator[Peer]:
        hello = grpc.ToServer(agentHello=grpc.AgentHello(agentName=name, protocolVersion="1.0.0", devices=devices))
        async with connect(self.settings, Method.AGENT, hello) as connection:
            yield Peer(connection)

    @asynccontextmanager
    async def cli(self) -> AsyncIterator[Peer]:
        hello = grpc.ToServer(commanderHello=grpc.CommanderHello(protocolVersion="1.0.0"))
        async with connect(self.settings, Method.CLI, hello) as connection:
            yield Peer(connection)


@asynccontextmanager
async def running_server(*hooks: MutatingHook, startup: Form | None = None) -> AsyncIterator[Running]:
    shell = ServerShell(None, hooks)
    if startup is not None:
        await shell.load(startup)
    await shell.middleware.start("127.0.0.1", 0)
    task = asyncio.create_task(shell.run(), name="server under test")
    try:
        yield Running(shell)
    finally:
        task.cancel()
        await asyncio.wait([task])
        await shell.middleware.close()


async def test_new_changed_and_deleted_workloads_reach_their_agent() -> None:
    """[itest->swdd~communication-to-from-server-middleware~1]
    [itest->swdd~server-default-communication-grpc~1]
    [itest->swdd~server-detects-new-workload~1]
    [itest->swdd~server-detects-changed-workload~1]
    [itest->swdd~server-detects-deleted-workload~1]
    """
    async with running_server() as server, server.agent("n1") as agent, server.cli() as cli:
        assert (await agent.receive()).HasField("serverHello")
        mask = "desiredState.workloads.web"

        assert (await cli.update(a_state({"web": a_form()}), mask)).HasField("UpdateStateSuccess")
        added = (await agent.receive()).updateWorkload
        assert [workload.instanceName.id for workload in added.addedWorkloads] == [web().id]

        await cli.update(a_state({"web": a_form(config="new")}), mask)
        changed = (await agent.receive()).updateWorkload
        assert [workload.instanceName.id for workload in changed.deletedWorkloads] == [web().id]
        assert [workload.instanceName.id for workload in changed.addedWorkloads] == [web(config="new").id]

        await cli.update({}, mask)
        deleted = (await agent.receive()).updateWorkload
        assert [workload.instanceName.id for workload in deleted.deletedWorkloads] == [web(config="new").id]


async def test_reported_states_reach_command_lines_and_other_agents_but_not_their_sender() -> None:
    async with running_server() as server, server.agent("n1") as n1, server.agent("n2") as n2, server.cli() as cli:
        for agent in (n1, n2):
            assert (await agent.receive()).HasField("serverHello")
        await cli.update(a_state({"web": a_form()}), "desiredState.workloads.web")
        await n1.report(workload_state_to_pb(web(), RUNNING_OK), base.WorkloadState())
        await n1.report(workload_state_to_pb(web(), REMOVED))
        for peer in (cli, n2):
            for expected in (RUNNING_OK, REMOVED):
                (state,) = (await peer.receive()).updateWorkloadState.workloadStates
                assert state == workload_state_to_pb(web(), expected)
        assert (await n1.receive()).HasField("updateWorkload"), "n1 received no state"


@pytest.mark.parametrize("order", [("n1", "n2"), ("n2", "n1")])
async def test_a_restarted_server_keeps_the_placement_of_a_workload(order: tuple[str, str]) -> None:
    """It stays on the agent with the greater name in any order of connections; the same manifest, no devices."""
    startup = STATE.read(a_state({"web": a_form("", placement={})})["desiredState"])
    async with running_server(startup=startup) as server, AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(server.agent(name, devices=True)) for name in order]
        greetings = await asyncio.gather(*(agent.greeting(web("n2")) for agent in agents))
    assert dict(zip(order, greetings, strict=True)) == {"n1": [], "n2": ["web"]}


async def test_a_slow_hook_delays_only_updates(tmp_path: Path) -> None:
    hook, gate = tmp_path / "hook", tmp_path / "gate"
    hook.write_text(f"#!/bin/sh\nwhile [ ! -e '{gate}' ]; do sleep 0.02; done\ncat\n")
    hook.chmod(0o755)
    async with running_server(MutatingHook("hook", path=str(tmp_path))) as server, server.cli() as slow:
        content = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form(a_state({"web": a_form()})))
        request = base.Request(requestId="slow", updateStateRequest=content)
        await slow.connection.send(grpc.ToServer(request=request))
        async with server.agent("n1") as agent:
            assert (await agent.receive()).HasField("serverHello")
        gate.touch()
        assert (await slow.response()).HasField("UpdateStateSuccess")
