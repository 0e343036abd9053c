"""Configurations and log requests that once ended an agent: the agent and all other workloads continue.

Server, agent and `ank` are real, workloads are native processes.
Needs: nothing but the repository.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.runtimes.native.processes import NativeFolder
from tests.support.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
SLEEPS = "command: [sleep, '1000']"
TIMES = (["--since", "0001-01-01T00:00:00+23:59"], ["--until", "0001-01-01T00:00:00"])

# Requests logs through its control interface with values that `ank` does not send, and records each answer.
REQUESTS_LOGS = """
import asyncio, json, os, sys
from pathlib import Path
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.control_api_pb2 import ToAnkaios
from tests.unit.agent.pipes import Pipes

async def main():
    out = Path(sys.argv[1])
    pipes = Pipes(Path(os.environ["ANKAIOS_CONTROL_INTERFACE"]))
    pipes.hello()
    await pipes.receive(30)
    names = [base.WorkloadInstanceName(**name) for name in json.loads(sys.argv[2])]
    for number, times in enumerate([{"since": "0001-01-01T00:00:00+23:59"}, {"until": "0001-01-01T00:00:00"}]):
        request = base.LogsRequest(workloadNames=names, **times)
        pipes.send(ToAnkaios(request=base.Request(requestId=str(number), logsRequest=request)))
        while True:
            response = (await pipes.receive(30)).response
            with out.open("a") as file:
                file.write(f"{response.requestId} {response.WhichOneof('ResponseContent')} {response}\\n")
            if response.HasField("logsStopResponse"):
                break
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster({**os.environ, "TZ": "EAST-3"}) as made:  # where the first moment of year 1 is in no year of UTC
        made.start_server()
        made.start_agent("agent_A", runtimes=["native"])
        yield made


def a_manifest(**workloads: str) -> str:
    """Workloads with a runtimeConfig, and further keys after an empty line."""
    lines = ["apiVersion: v1", "workloads:"]
    for name, text in workloads.items():
        config, _, more = text.partition("\n\n")
        lines += [f"  {name}:", "    agent: agent_A", "    runtime: native", "    runtimeConfig: |"]
        lines += [f"      {line}" for line in config.splitlines()] + [f"    {line}" for line in more.splitlines()]
    return "\n".join([*lines, ""])


def apply(cluster: Cluster, **workloads: str) -> None:
    cluster.ank("--no-wait", "apply", str(cluster.write("next.yaml", a_manifest(**workloads))))


def process_of(cluster: Cluster, workload: str) -> int:
    (folder,) = (cluster.folder / "run/agent_A_native").glob(f"{workload}.*")
    found = NativeFolder(folder).processes()
    assert found is not None
    return found[0].pid


class Bystander:
    """The processes of a workload and the agent, which are the same at the end as at the start."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        apply(cluster, stays=SLEEPS)
        cluster.wait_for("stays", "Running(Ok)")
        self._pids = self._now()

    def _now(self) -> tuple[int, int | None, int]:
        agent = self._cluster.agents["agent_A"]
        return agent.pid, agent.poll(), process_of(self._cluster, "stays")

    def check(self) -> None:
        assert self._now() == self._pids
        assert self._cluster.states()["stays"] == ("Running(Ok)", "")
        assert "Traceback" not in self._cluster.logs()


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ('command: ["true"]\nuser: "²"', "user: '²' is neither a name nor a number"),
        ('command: ["true"]\nuser: "a\\0b"', "user: a NUL character"),
        ('command: ["true"]\nuser: "root:\\0"', "user: a NUL character"),
        (f'command: ["true"]\nlimits: {{openFiles: {"1" * 5000}}}', "limits.openFiles: expected a number"),
        (f'command: ["true"]\n\nfiles: [{{mountPoint: "{"/a" * 1500}", data: x}}]', "path has 1500 levels"),
    ],
    ids=["digit", "NUL in user", "NUL in group", "limit", "mount point"],
)
def test_an_invalid_configuration_fails_only_its_workload(cluster: Cluster, config: str, why: str) -> None:
    bystander = Bystander(cluster)
    apply(cluster, stays=SLEEPS, odd=config)
    assert why in cluster.wait_for("odd", "Pending(StartingFailed)")
    bystander.check()
    apply(cluster, stays=SLEEPS, odd=SLEEPS)
    cluster.wait_for("odd", "Running(Ok)")
    cluster.ank("delete", "workload", "odd")
    bystander.check()


@pytest.mark.parametrize("times", TIMES, ids=" ".join)
def test_an_invalid_time_is_reported_to_the_requester_of_logs(cluster: Cluster, times: list[str]) -> None:
    bystander = Bystander(cluster)
    done = cluster.ank("logs", *times, "stays")
    assert f"cannot read the time '{times[1]}': expected RFC 3339" in done.stdout
    bystander.check()


def test_a_workload_that_may_read_logs_cannot_end_the_agent(cluster: Cluster) -> None:
    bystander = Bystander(cluster)
    answers = cluster.folder / "answers"
    states = cluster.state("workloadStates")["workloadStates"]["agent_A"]["stays"]
    names = [{"workloadName": "stays", "agentName": "agent_A", "id": instance} for instance in states]
    command = json.dumps(
        [sys.executable, str(cluster.write("requests_logs.py", REQUESTS_LOGS)), str(answers), json.dumps(names)]
    )
    access = 'controlInterfaceAccess: {allowRules: [{type: LogRule, workloadNames: ["*"]}]}'
    config = f"command: {command}\nenv: {{PYTHONPATH: '{ROOT}/src:{ROOT}'}}\n\n{access}"
    apply(cluster, stays=SLEEPS, requester=config)
    cluster.wait_until(
        "both requests are answered",
        lambda: answers.exists() and answers.read_text().count("logsStopResponse {") == 2,
        more=lambda: cluster.ank("logs", "requester").stdout,
    )
    bystander.check()
