"""The test kit, used as its users use it."""

import subprocess
import sys

import pytest

from ankaios.testing import TestCluster
from ankaios.testing.cluster import RejectedByServer

TWO = """
apiVersion: v1
workloads:
  db:
    runtime: podman
    agent: zone1
    restartPolicy: ALWAYS
    runtimeConfig: "image: db:1"
  web:
    runtime: podman
    agent: hpc
    restartPolicy: ALWAYS
    runtimeConfig: "image: web:1"
    dependencies: {db: ADD_COND_RUNNING}
"""


def test_a_node_that_returns_runs_its_workloads_again(cluster: TestCluster) -> None:
    cluster.apply(TWO)
    cluster.advance(5)
    cluster.kill("zone1")
    cluster.advance(10)
    cluster.workload("db").should_be("AgentDisconnected")
    cluster.workload("web").should_be_running(on="hpc")
    cluster.start("zone1")
    cluster.advance(10)
    cluster.workload("db").should_be_running(on="zone1")


def test_a_rejected_manifest_raises_with_the_reason(cluster: TestCluster) -> None:
    cycle = TWO.replace('runtimeConfig: "image: db:1"', 'runtimeConfig: "x"\n    dependencies: {web: ADD_COND_RUNNING}')
    with pytest.raises(RejectedByServer, match="cycle"):
        cluster.apply(cycle)


def test_a_failed_assertion_shows_the_timeline(cluster: TestCluster) -> None:
    cluster.apply(TWO)
    with pytest.raises(AssertionError, match=r"should run on one node. Timeline:[\s\S]*the agent starts"):
        cluster.workload("missing").should_be_running()


def test_workloads_continue_without_their_agent_and_without_the_server(cluster: TestCluster) -> None:
    cluster.apply(TWO)
    cluster.advance(5)
    cluster.kill_agent("zone1")
    cluster.advance(5)
    assert cluster.running_on("db") == ["zone1"]
    cluster.start("zone1")
    cluster.advance(5)
    starts = [line for line in cluster.timeline if "db started" in line]
    assert len(starts) == 1
    assert cluster.internal_errors == []


def test_two_runs_are_the_same() -> None:
    def timeline() -> list[str]:
        with TestCluster(seed=3) as cluster:
            cluster.apply(TWO)
            cluster.advance(30)
            return cluster.timeline

    assert timeline() == timeline()


def test_an_unknown_node_is_named(cluster: TestCluster) -> None:
    with pytest.raises(ValueError, match="unknown node 'zone9'"):
        cluster.kill("zone9")


def test_the_plugin_loads_nothing_but_itself() -> None:
    """pytest loads it for every user of the package, also for those who do not use it."""
    code = "import sys, ankaios.testing.plugin; print(*[name for name in sys.modules if name.startswith('ankaios')])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["ankaios", "ankaios.testing", "ankaios.testing.plugin"]
