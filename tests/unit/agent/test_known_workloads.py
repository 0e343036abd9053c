"""The workloads that an agent reports to a new server on request."""

import asyncio

import pytest

from ankaios.agent import agent_manager
from ankaios.common.execution_state import RUNNING_OK, SUCCEEDED_OK
from ankaios.common.pb.grpc_api_pb2 import FromServer, TellWorkloads
from ankaios.common.proto_conversion import instance_name_from_pb
from ankaios.common.workload import AddCondition, InstanceName
from ankaios.runtimes.runtime_connector import RuntimeFailed
from tests.support.builders import a_workload
from tests.support.fake_runtime import FakeRuntime
from tests.unit.agent.harness import AgentScenario, an_agent, server_hello, states_of_others

WEB = a_workload("web", "A")
TELL = FromServer(tellWorkloads=TellWorkloads())
ELSEWHERE = InstanceName("db", "1", "B")


async def known_workloads(agent: AgentScenario) -> list[set[str]]:
    agent.manager.handle(TELL)
    return await answers(agent)


async def answers(agent: AgentScenario) -> list[set[str]]:
    known = [it.knownWorkloads for it in await agent.messages() if it.HasField("knownWorkloads")]
    return [{str(instance_name_from_pb(name)) for name in message.instanceNames} for message in known]


async def test_an_agent_reports_its_workloads_and_the_known_ones_of_others() -> None:
    waits = a_workload("late", "A", dependencies={"never": AddCondition.ADD_COND_RUNNING})
    done = a_workload("done", "A")
    async with an_agent() as a:
        await a.handle(states_of_others((ELSEWHERE, RUNNING_OK)), server_hello(WEB, waits, done))
        a.podman.set_state(a.podman.named("done").id, SUCCEEDED_OK)
        await a.reports()
        a.disconnect()
        a.connect()
        before = len(a.podman.calls)
        assert await known_workloads(a) == [{str(it.instance_name) for it in (WEB, waits, done)} | {str(ELSEWHERE)}]
        assert a.podman.calls[before:] == []


async def test_states_of_the_new_session_are_not_reported_as_known_before() -> None:
    """The requesting server knows only the desired workloads of other agents."""
    async with an_agent() as a:
        await a.handle(states_of_others((ELSEWHERE, RUNNING_OK)), server_hello())
        a.disconnect()
        a.connect()
        a.manager.handle(TELL)
        await a.handle(states_of_others((InstanceName("db", "1", "C"), RUNNING_OK)))
        a.manager.handle(TELL)
        assert await answers(a) == [{"db.1.C"}]


async def test_a_new_agent_lists_its_runtimes() -> None:
    def prepare(runtime: FakeRuntime) -> None:
        runtime.add_existing(WEB.instance_name)

    async with an_agent(prepare=prepare) as a:
        assert await known_workloads(a) == [{str(WEB.instance_name)}]
        assert [call for call, _ in a.podman.calls] == ["existing"]
        assert await a.handle(server_hello(WEB)) == ["web Running(Ok)"]


async def test_a_runtime_that_cannot_be_listed_is_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fails and one hangs; the third is reported, because the server waits only briefly."""
    monkeypatch.setattr(agent_manager, "LISTING_LIMIT", 0.0)
    async with an_agent(runtimes=("podman", "native", "containerd")) as a:
        a.podman.fail_next("existing", RuntimeFailed("no podman"))
        a.runtimes["native"].hold("existing")
        a.runtimes["containerd"].add_existing(WEB.instance_name)
        a.manager.handle(TELL)
        found: list[set[str]] = []
        async with asyncio.timeout(5):
            while not found:
                found = await answers(a)
        assert found == [{str(WEB.instance_name)}]


async def test_only_the_last_request_is_answered() -> None:
    async with an_agent() as a:
        a.podman.hold("existing")
        a.manager.handle(TELL)
        await a.messages()
        a.disconnect()
        a.connect()
        a.manager.handle(TELL)
        a.podman.release("existing")
        assert await answers(a) == [set()]
