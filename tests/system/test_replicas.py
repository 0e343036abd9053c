"""Workloads with several instances, and requests that select devices, in a real cluster.

Needs: nothing but the repository.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.device_manifests import CONFIGURATION, FOO1, a_cluster, a_user, apply, cameras, delete, native, users


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with a_cluster() as cluster:
        cluster.start_server()
        for agent in ("node-a", "node-b"):
            cluster.start_agent(agent, runtimes=["native"])
        yield cluster
        delete(cluster, *cluster.state("desiredState")["desiredState"]["workloads"])


def replicated(name: str, **placement: Any) -> dict[str, Any]:
    return {"workloads": {name: {"placement": placement, **native()}}}


def running(cluster: Cluster) -> dict[str, str]:
    """Workloads that run, with their agents."""
    states = cluster.state("workloadStates").get("workloadStates", {})
    return {
        name: agent
        for agent, workloads in states.items()
        for name, it in workloads.items()
        if all(state["state"] == "Running" for state in it.values())
    }


def test_replicas_are_spread_scaled_and_deleted_with_the_command_line(cluster: Cluster) -> None:
    """The command line lists all instances by name."""
    manifest = cluster.write("web.yaml", json.dumps({"apiVersion": "v1", **replicated("web", replicas=3, spread=True)}))
    cluster.ank("apply", str(manifest))
    spread = {"web-0": "node-a", "web-1": "node-b", "web-2": "node-a"}
    cluster.wait_until("all instances run", lambda: running(cluster) == spread)
    assert "web-1" in cluster.ank("get", "workloads").stdout
    fewer = {"apiVersion": "v1", **replicated("web", replicas=1, spread=True)}
    cluster.ank("apply", str(cluster.write("web.yaml", json.dumps(fewer))))
    cluster.wait_until("one instance is left", lambda: running(cluster) == {"web-0": "node-a"})
    cluster.ank("delete", "workload", "web")
    assert cluster.states() == {}
    apply(cluster, replicated("web", replicas=1))


def test_every_agent_runs_an_instance_and_keeps_it_over_a_restart(cluster: Cluster) -> None:
    apply(cluster, replicated("probe", everyAgent=True))
    both = {"probe-node-a": "node-a", "probe-node-b": "node-b"}
    cluster.wait_until("both agents run it", lambda: running(cluster) == both)
    cluster.start_agent("node-c", runtimes=["native"])
    cluster.wait_for("probe-node-c", "Running(Ok)")
    cluster.kill_agent("node-c")
    cluster.wait_for("probe-node-c", "AgentDisconnected")
    cluster.start_agent("node-c", runtimes=["native"])
    cluster.wait_until("all agents run it", lambda: running(cluster) == {**both, "probe-node-c": "node-c"})


def test_replicas_share_devices_and_a_selector_chooses_among_them(cluster: Cluster) -> None:
    """[stest->akri~replicas-spread-over-devices~1]"""
    selected = a_user("one", agent="node-a")
    selected["workloads"]["one"]["resources"][0]["where"] = {"DEBUG_ECHO_DESCRIPTION": "foo1"}
    apply(cluster, cameras("foo0", "foo1", capacity=1), selected)
    cluster.wait_for("one", "Running(Ok)")
    assert users(cluster) == {f"{FOO1}-0": "one"}
    web = a_user("web", agent="", placement={"replicas": 2})
    apply(cluster, web)
    cluster.wait_for("web-0", "Running(Ok)")
    reason = f"no agent has enough free devices for 1 x akri.sh/{CONFIGURATION}"
    cluster.wait_until("the other waits", lambda: cluster.state_of("web-1") == ("NotScheduled", reason))
    delete(cluster, "one")
    cluster.wait_for("web-1", "Running(Ok)")
    apply(cluster, selected)
