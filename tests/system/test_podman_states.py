"""States that are visible only in a listing of podman are reported soon, without frequent calls of podman.

Needs: podman and root rights.
"""

import json
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

pytestmark = needs_podman

STUBBORN = "trap '' TERM; while :; do sleep 0.2; done"
SOON = 10.0  # the documented limit is 1.5 s; a busy machine is slower, and the periodic resync takes 30 s
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod"},
    "spec": {"containers": [{"name": "main", "image": IMAGE, "command": ["/bin/sh", "-c", STUBBORN]}]},
}
CONFIGS = {
    "web": ("podman", {"image": IMAGE, "commandArgs": ["sh", "-c", STUBBORN]}),
    "pod": ("podman-kube", {"playOptions": ["--network", "none"], "manifest": json.dumps(POD)}),
}


@pytest.fixture
def cluster(podman_env: PodmanEnv) -> Iterator[Cluster]:  # noqa: F811
    workloads = {
        name: {"agent": "agent_A", "runtime": runtime, "runtimeConfig": json.dumps(config)}
        for name, (runtime, config) in CONFIGS.items()
    }
    with Cluster(podman_env.environ) as made:
        made.start_server(json.dumps({"apiVersion": "v1", "workloads": workloads}))
        made.start_agent("agent_A", runtimes=["podman", "podman-kube"])
        for name in CONFIGS:
            made.wait_for(name, "Running(Ok)")
        yield made
    podman_env.clear()


def container_of(env: PodmanEnv, workload: str) -> str:
    begin = "pod-main" if workload == "pod" else f"{workload}."
    names: list[str] = [name for each in env.containers() for name in each["Names"]]
    return next(name for name in names if name.startswith(begin))


@pytest.mark.parametrize(("workload", "text"), [("web", "paused"), ("pod", "paused container")])
def test_pause_and_unpause_are_reported_soon(
    cluster: Cluster,
    podman_env: PodmanEnv,  # noqa: F811
    workload: str,
    text: str,
) -> None:
    container = container_of(podman_env, workload)
    podman_env.podman("pause", container)
    began = time.monotonic()
    assert cluster.wait_for(workload, "Failed(Unknown)", seconds=SOON) == text
    print(f"paused after {time.monotonic() - began:.2f} s")
    podman_env.podman("unpause", container)
    began = time.monotonic()
    cluster.wait_for(workload, "Running(Ok)", seconds=SOON)
    print(f"unpaused after {time.monotonic() - began:.2f} s")


def test_a_container_that_takes_long_to_stop_is_reported_as_stopping(
    cluster: Cluster,
    podman_env: PodmanEnv,  # noqa: F811
) -> None:
    container = container_of(podman_env, "web")
    command = ["podman", "stop", "--time", "12", container]
    with subprocess.Popen(command, env=cluster.environ, stdout=subprocess.DEVNULL) as stop:
        began = time.monotonic()
        assert cluster.wait_for("web", "Stopping", seconds=SOON) == "stopping"
        print(f"stopping after {time.monotonic() - began:.2f} s")
        podman_env.podman("kill", container)
        assert stop.wait(30) in (0, 125)
    cluster.wait_for("web", "Failed(ExecFailed)", seconds=SOON)
