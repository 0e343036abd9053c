"""Agents, a server, podman and `ank`, all real.

Needs: podman and root rights.
"""

import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

pytestmark = needs_podman

FOREVER = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


def a_workload(name: str, agent: str, script: str, **more: str) -> str:
    """One entry of a manifest; `more` are further keys as YAML text in one line."""
    quoted = script.replace("'", "''")
    lines = [
        f"  {name}:",
        f"    agent: {agent}",
        "    runtime: podman",
        *(f"    {key}: {value}" for key, value in more.items()),
        "    runtimeConfig: |",
        f"      image: {IMAGE}",
        f"      commandArgs: [sh, -c, '{quoted}']",
    ]
    return "\n".join(lines)


def a_manifest(*workloads: str) -> str:
    return "\n".join(["apiVersion: v1", "workloads:", *workloads, ""])


@pytest.fixture
def cluster(podman_env: PodmanEnv) -> Iterator[Cluster]:  # noqa: F811
    with Cluster(podman_env.environ) as made:
        yield made
    podman_env.clear()


def started(env: PodmanEnv) -> dict[str, str]:
    """Return the container id of each running workload."""
    running = [each for each in env.containers() if each["State"] == "running"]
    return {each["Labels"]["name"].split(".")[0]: each["Id"] for each in running}


def test_workloads_continue_without_agent_and_server(cluster: Cluster, podman_env: PodmanEnv) -> None:  # noqa: F811
    """kill -9 of server or agent does not affect running workloads; later changes are applied after the restart."""
    manifest = a_manifest(
        a_workload("stays", "agent_A", FOREVER),
        a_workload("goes", "agent_A", FOREVER),
        a_workload("ends", "agent_A", "sleep 1; exit 3"),
    )
    cluster.start_server(manifest)
    cluster.start_agent("agent_A", runtimes=["podman"])
    cluster.wait_for("stays", "Running(Ok)")
    cluster.wait_for("goes", "Running(Ok)")
    before = started(podman_env)

    cluster.kill_agent("agent_A")
    cluster.wait_for("stays", "AgentDisconnected")
    assert started(podman_env)["stays"] == before["stays"]
    cluster.ank("--no-wait", "delete", "workload", "goes")
    cluster.start_agent("agent_A", runtimes=["podman"])
    cluster.wait_for("stays", "Running(Ok)")
    cluster.wait_until("'goes' is removed", lambda: "goes" not in started(podman_env))
    assert started(podman_env)["stays"] == before["stays"]
    cluster.wait_for("ends", "Failed(ExecFailed)")

    ended = [each["Id"] for each in podman_env.containers() if each["Labels"]["name"].startswith("ends.")]
    cluster.kill_server()
    again = (a_workload("stays", "agent_A", FOREVER), a_workload("ends", "agent_A", "sleep 1; exit 3"))
    cluster.start_server(a_manifest(*again))
    cluster.wait_for("stays", "Running(Ok)")
    # a running agent reports the state of an ended workload and does not restart it
    assert cluster.wait_for("ends", "Failed(ExecFailed)") == "Exit code: '3'"
    assert started(podman_env) == {"stays": before["stays"]}
    assert [each["Id"] for each in podman_env.containers() if each["Labels"]["name"].startswith("ends.")] == ended


def test_a_signal_ends_the_agent_but_not_its_workloads(
    cluster: Cluster,
    podman_env: PodmanEnv,  # noqa: F811
) -> None:
    cluster.start_server(a_manifest(a_workload("web", "agent_A", FOREVER)))
    cluster.start_agent("agent_A", runtimes=["podman"])
    cluster.wait_for("web", "Running(Ok)")
    assert cluster.kill_agent("agent_A", signal.SIGTERM) == 0
    cluster.wait_for("web", "AgentDisconnected")
    assert list(started(podman_env)) == ["web"]


def test_failed_workloads_are_restarted_and_failed_starts_are_retried(cluster: Cluster, podman_env: PodmanEnv) -> None:  # noqa: F811
    cluster.start_server(
        a_manifest(
            a_workload("always", "agent_A", "sleep 0.3", restartPolicy="ALWAYS"),
            a_workload("failing", "agent_A", "sleep 0.3; exit 1", restartPolicy="ON_FAILURE"),
            a_workload("once", "agent_A", "sleep 0.3", restartPolicy="ON_FAILURE"),
            a_workload("broken", "agent_A", FOREVER).replace(IMAGE, "localhost/no-such-image"),
        )
    )
    cluster.start_agent("agent_A", runtimes=["podman"])
    cluster.wait_for("once", "Succeeded(Ok)")
    cluster.wait_until("it is tried again", lambda: "Retry 2:" in cluster.state_of("broken")[1])

    def container(name: str) -> str | None:
        found = [each["Id"] for each in podman_env.containers() if each["Labels"]["name"].startswith(f"{name}.")]
        return found[0] if found else None

    first = container("failing")
    cluster.wait_until("a new container is made", lambda: container("failing") not in (None, first))
    # the image becomes available, and the next attempt succeeds
    subprocess.run(
        ["podman", "tag", IMAGE, "localhost/no-such-image"], env=podman_env.environ, check=True, capture_output=True
    )
    cluster.wait_for("broken", "Running(Ok)")
    subprocess.run(
        ["podman", "untag", IMAGE, "localhost/no-such-image"], env=podman_env.environ, check=True, capture_output=True
    )


def test_dependencies_are_observed_over_two_agents(cluster: Cluster, podman_env: PodmanEnv) -> None:  # noqa: F811
    cluster.start_server()
    for agent in ("agent_A", "agent_B"):
        cluster.start_agent(agent, runtimes=["podman"])
    manifest = a_manifest(
        a_workload("init", "agent_B", "sleep 1"),
        a_workload("store", "agent_B", FOREVER, dependencies="{init: ADD_COND_SUCCEEDED}"),
        a_workload("ui", "agent_A", FOREVER, dependencies="{store: ADD_COND_RUNNING}"),
        a_workload("alarm", "agent_A", FOREVER, dependencies="{store: ADD_COND_FAILED}"),
    )
    cluster.ank("--no-wait", "apply", str(cluster.write("chain.yaml", manifest)))
    cluster.wait_for("ui", "Running(Ok)")
    assert cluster.states()["alarm"][0] == "Pending(WaitingToStart)"
    assert set(started(podman_env)) == {"store", "ui"}
    cluster.ank("delete", "workload", "store", "ui")
    cluster.wait_for("store", "Removed")
    assert started(podman_env) == {}
    cluster.ank("delete", "workload", "alarm", "init")
    assert podman_env.containers() == []
