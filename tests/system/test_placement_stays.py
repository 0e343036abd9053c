"""A workload whose agent the server chose stays where it is when the server is killed and started again.

It has no devices, so only the workload itself shows its placement. Both agents are equally suitable, and the agent
without the workload sorts first by name.
Needs: nothing but the repository.
"""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster
from tests.support.device_manifests import delete, native

HAS_IT, OTHER = "node-b", "node-a"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster
        delete(cluster, "web")


def manifest(cluster: Cluster) -> str:
    command = ["sh", "-c", f"echo $$ >> {cluster.folder}/pids; exec sleep 1000"]
    return json.dumps({"apiVersion": "v1", "workloads": {"web": {"placement": {}, **native(command)}}})


def pids(cluster: Cluster) -> list[int]:
    """Return the ids of all processes that were started."""
    file = cluster.folder / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def agents(cluster: Cluster) -> set[str]:
    return set(cluster.state("agents").get("agents", {}))


def place(cluster: Cluster) -> dict[str, tuple[str, str]]:
    found = cluster.state("workloadStates")["workloadStates"]
    return {
        agent: (state["state"], state["additionalInfo"]) for agent, it in found.items() for state in it["web"].values()
    }


def running(cluster: Cluster) -> Cluster:
    cluster.start_server(manifest(cluster))
    cluster.start_agent(HAS_IT, runtimes=["native"])
    cluster.wait_for("web", "Running(Ok)")
    cluster.wait_until("the workload has written its process id", lambda: pids(cluster))
    cluster.start_agent(OTHER, runtimes=["native"])
    return cluster


def is_untouched(cluster: Cluster) -> None:
    cluster.wait_until("it runs where it was", lambda: place(cluster) == {HAS_IT: ("Running", "")})
    (pid,) = pids(cluster)
    os.kill(pid, 0)


@pytest.mark.parametrize(("first", "second"), [(HAS_IT, OTHER), (OTHER, HAS_IT)])
def test_placement_is_kept_for_any_order_of_returning_agents(cluster: Cluster, first: str, second: str) -> None:
    running(cluster)
    cluster.agents[second].send_signal(signal.SIGSTOP)
    cluster.kill_server()
    cluster.start_server(manifest(cluster))
    cluster.wait_until("the first one is back", lambda: agents(cluster) == {first})
    cluster.agents[second].send_signal(signal.SIGCONT)
    cluster.wait_until("both are back", lambda: agents(cluster) == {first, second})
    is_untouched(cluster)


def test_the_server_waits_for_the_agent_of_a_placed_workload(cluster: Cluster) -> None:
    """The other agent has received its placement."""
    running(cluster)
    cluster.agents[HAS_IT].send_signal(signal.SIGSTOP)
    cluster.kill_server()
    cluster.start_server(manifest(cluster))
    cluster.wait_until("the other one is back", lambda: agents(cluster) == {OTHER})
    expected = {HAS_IT: ("Pending", f"it was on agent '{HAS_IT}' according to another agent")}
    cluster.wait_until("the server has received the placement", lambda: place(cluster) == expected)
    cluster.agents[HAS_IT].send_signal(signal.SIGCONT)
    is_untouched(cluster)


def test_placement_is_kept_if_all_agents_were_killed_with_the_server(cluster: Cluster) -> None:
    """No process has stored the placement, but the agent with the workload lists its runtimes."""
    running(cluster)
    cluster.kill_server()
    for agent in (HAS_IT, OTHER):
        cluster.kill_agent(agent)
        (cluster.folder / f"{agent}.log").unlink()
    for agent in (HAS_IT, OTHER):
        cluster.launch_agent(agent, runtimes=["native"])
    for agent in (HAS_IT, OTHER):
        log = cluster.folder / f"{agent}.log"
        cluster.wait_until("they look for a server", lambda log=log: "no connection to the server" in log.read_text())
    cluster.start_server(manifest(cluster))
    is_untouched(cluster)
