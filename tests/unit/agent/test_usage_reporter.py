"""The agent measures only while the server requests it."""

import os

from ankaios.common.execution_state import RUNNING_OK
from ankaios.common.pb.grpc_api_pb2 import FromServer, MeasureUsage, ToServer
from tests.support.builders import a_workload
from tests.unit.agent.harness import AgentScenario, an_agent, server_hello


def measure(seconds: int) -> FromServer:
    return FromServer(measureUsage=MeasureUsage(seconds=seconds))


async def next_report(agent: AgentScenario) -> ToServer:
    found: list[ToServer] = []

    def reported() -> bool:
        while (message := agent.outbox._queue.take()) is not None:
            if message.HasField("usageReport"):
                found.append(message)
        return bool(found)

    await agent.until(reported)
    return found[0]


async def test_the_usage_of_a_running_workload_is_reported_on_request() -> None:
    async with an_agent() as agent:
        agent.connect()
        await agent.handle(server_hello(a_workload("web", "A")))
        await agent.until(lambda: agent.podman.workloads)
        (workload,) = agent.podman.workloads
        agent.podman.pids[workload] = [os.getpid()]
        agent.manager.handle(measure(1))
        report = await next_report(agent)
        (entry,) = report.usageReport.workloads
        assert entry.instanceName.workloadName == "web"
        assert entry.usage.memoryBytes > 0
        assert agent.podman.workloads[workload].state == RUNNING_OK


async def test_a_workload_without_known_processes_is_not_reported() -> None:
    async with an_agent() as agent:
        agent.connect()
        await agent.handle(server_hello(a_workload("web", "A")))
        agent.manager.handle(measure(1))
        assert not (await next_report(agent)).usageReport.workloads


async def test_measuring_ends_with_the_connection() -> None:
    async with an_agent() as agent:
        agent.connect()
        agent.manager.handle(measure(60))
        task = agent.manager._usage._task
        assert task is not None
        agent.disconnect()
        await agent.until(task.done)
