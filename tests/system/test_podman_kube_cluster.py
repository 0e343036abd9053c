"""Kubernetes manifests in a whole cluster: server, agent, `ank` and podman, all real.

Needs: podman and root rights.
"""

import json
from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

pytestmark = needs_podman

FOREVER = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
SHOP, COUNTER = f"echo shop is open; {FOREVER}", f"echo bank is open; {FOREVER}"


def a_pod(name: str, **containers: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _pod_spec(containers)}


def a_deployment(name: str, **containers: str) -> dict[str, object]:
    template = {"metadata": {"labels": {"app": name}}, "spec": _pod_spec(containers)}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _pod_spec(containers: dict[str, str]) -> dict[str, object]:
    """Containers of a name and a shell script. Without a separate network, which the test machine may not support."""
    made = [{"name": name, "image": IMAGE, "command": ["/bin/sh", "-c", script]} for name, script in containers.items()]
    return {"restartPolicy": "Never", "hostNetwork": True, "containers": made}


def a_manifest(**workloads: dict[str, object]) -> str:
    """JSON is YAML."""
    made = {
        name: {
            "agent": "agent_A",
            "runtime": "podman-kube",
            "runtimeConfig": json.dumps({"manifest": json.dumps(manifest)}),
        }
        for name, manifest in workloads.items()
    }
    return json.dumps({"apiVersion": "v1", "workloads": made})


@pytest.fixture
def cluster(podman_env: PodmanEnv) -> Iterator[Cluster]:  # noqa: F811
    with Cluster(podman_env.environ) as made:
        made.start_server()
        made.start_agent("agent_A")  # with all runtimes, as by default
        yield made
    podman_env.clear()


def processes(env: PodmanEnv) -> dict[str, int]:
    """The main process of each container, infra containers included."""
    return {each["Id"]: each["Pid"] for each in env.containers()}


def states(env: PodmanEnv) -> dict[str, str]:
    return {each["Names"][0]: each["State"] for each in env.containers()}


def pods(env: PodmanEnv) -> list[str]:
    return sorted(env.podman("pod", "ls", "--format", "{{.Name}}").split())


def test_a_pod_and_a_deployment_run_in_a_cluster(cluster: Cluster, podman_env: PodmanEnv) -> None:  # noqa: F811
    """[stest->swdd~agent-supports-podman-kube-runtime~1]
    [stest->swdd~podman-kube-create-workload-apply-manifest~1]
    [stest->swdd~podman-kube-delete-workload-downs-manifest-file~1]
    [stest->swdd~podman-kube-delete-removes-volumes~1]
    """
    applied = cluster.apply(a_manifest(shop=a_pod("shop", web=SHOP), bank=a_deployment("bank", counter=COUNTER)))
    assert applied.count("Running(Ok)") >= 2, applied
    assert len(pods(podman_env)) == 2
    before = processes(podman_env)

    assert "shop is open" in cluster.ank("logs", "shop").stdout
    assert "bank is open" in cluster.ank("logs", "bank").stdout

    cluster.kill_agent("agent_A")
    cluster.wait_for("shop", "AgentDisconnected")
    cluster.start_agent("agent_A")
    cluster.wait_for("shop", "Running(Ok)")
    cluster.wait_for("bank", "Running(Ok)")
    assert processes(podman_env) == before
    assert "shop is open" in cluster.ank("logs", "shop").stdout

    cluster.ank("delete", "workload", "shop")
    cluster.wait_for("shop", "Removed")
    assert [name for name in pods(podman_env) if name.startswith("shop")] == []
    assert len(pods(podman_env)) == 1
    cluster.wait_for("bank", "Running(Ok)")
    cluster.ank("delete", "workload", "bank")
    assert (pods(podman_env), podman_env.containers()) == ([], [])
    assert podman_env.podman("volume", "ls", "--quiet") == ""


def test_the_end_of_a_container_of_a_pod_is_reported(cluster: Cluster, podman_env: PodmanEnv) -> None:  # noqa: F811
    """By the agent that started it, and by the next agent."""
    cluster.apply(a_manifest(shop=a_pod("shop", web=FOREVER, till=FOREVER), bank=a_pod("bank", counter=FOREVER)))
    podman_env.podman("kill", "--signal", "KILL", "shop-till")
    assert cluster.wait_for("shop", "Failed(ExecFailed)") == "Exit code: '137'"
    cluster.kill_agent("agent_A")
    cluster.start_agent("agent_A")
    cluster.wait_for("bank", "Running(Ok)")
    podman_env.podman("kill", "--signal", "TERM", "bank-counter")
    cluster.wait_for("bank", "Succeeded(Ok)")


def test_a_pod_that_failed_without_an_agent_is_run_again(cluster: Cluster, podman_env: PodmanEnv) -> None:  # noqa: F811
    """Pods cannot be restarted, so the new agent removes the ended pod and plays the manifest again."""
    manifest = json.loads(a_manifest(shop=a_pod("shop", web=FOREVER)))
    manifest["workloads"]["shop"]["restartPolicy"] = "ON_FAILURE"
    cluster.apply(json.dumps(manifest))
    before = processes(podman_env)
    cluster.kill_agent("agent_A")
    podman_env.podman("kill", "--signal", "KILL", "shop-web")
    cluster.wait_until("podman has cleaned up", lambda: states(podman_env)["shop-web"] == "exited")
    cluster.start_agent("agent_A")
    cluster.wait_for("shop", "Running(Ok)")
    assert processes(podman_env).keys().isdisjoint(before)
