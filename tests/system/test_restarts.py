"""Restart policies with real processes, containers and pods: delays, lost workloads, and jobs that have ended.

Needs: podman and root rights.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

pytestmark = needs_podman

AGENT = "agent_A"


def native(script: str, folder: Path) -> str:
    return f'command: [sh, -c, "{script.replace("/shared", str(folder))}"]'


def podman(script: str, folder: Path) -> str:
    return f'image: {IMAGE}\ncommandOptions: ["-v", "{folder}:/shared"]\ncommandArgs: [sh, -c, "{script}"]'


def podman_kube(script: str, folder: Path) -> str:
    return f"""playOptions: [--network, none]
manifest: |
  apiVersion: v1
  kind: Pod
  metadata: {{name: restarts}}
  spec:
    restartPolicy: Never
    containers:
    - name: main
      image: {IMAGE}
      command: [/bin/sh, -c, "{script}"]
      volumeMounts: [{{name: shared, mountPath: /shared}}]
    volumes: [{{name: shared, hostPath: {{path: {folder}, type: Directory}}}}]"""


RUNTIMES: dict[str, Callable[[str, Path], str]] = {"native": native, "podman": podman, "podman-kube": podman_kube}


def a_manifest(runtime: str, script: str, folder: Path, policy: str) -> str:
    config = RUNTIMES[runtime](script, folder).replace("\n", "\n      ")
    return f"""apiVersion: v1
workloads:
  web:
    agent: {AGENT}
    runtime: {runtime}
    restartPolicy: {policy}
    runtimeConfig: |
      {config}
"""


@pytest.fixture
def cluster(podman_env: PodmanEnv) -> Iterator[Cluster]:  # noqa: F811
    with Cluster(podman_env.environ) as made:
        yield made
    podman_env.clear()


def runs(folder: Path) -> int:
    log = folder / "runs"
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.mark.parametrize("runtime", list(RUNTIMES))
def test_a_workload_that_ends_immediately_is_restarted_with_growing_delays(
    cluster: Cluster, tmp_path: Path, runtime: str
) -> None:
    cluster.start_server(a_manifest(runtime, "echo run >> /shared/runs; exit 7", tmp_path, "ALWAYS"))
    cluster.start_agent(AGENT, runtimes=[runtime])
    announced = "Exit code: '7', restart 3 in 1 s"
    expected = ("Failed(ExecFailed)", announced)
    cluster.wait_until(announced, lambda: cluster.state_of("web") == expected, more=cluster.states)
    assert runs(tmp_path) == 3
    cluster.wait_until("it is restarted", lambda: runs(tmp_path) == 4)


@pytest.mark.parametrize("runtime", list(RUNTIMES))
def test_a_job_that_ended_is_not_run_again_by_a_restarted_agent(cluster: Cluster, tmp_path: Path, runtime: str) -> None:
    cluster.start_server(a_manifest(runtime, "echo run >> /shared/runs; exit 7", tmp_path, "NEVER"))
    cluster.start_agent(AGENT, runtimes=[runtime])
    cluster.wait_for("web", "Failed(ExecFailed)")
    cluster.kill_agent(AGENT)
    cluster.wait_for("web", "AgentDisconnected")
    cluster.start_agent(AGENT, runtimes=[runtime])
    assert cluster.wait_for("web", "Failed(ExecFailed)", "Running(Ok)") == "Exit code: '7'"
    assert runs(tmp_path) == 1
    cluster.ank("delete", "workload", "web")


@pytest.mark.parametrize("runtime", ["podman", "podman-kube"])
def test_a_lost_container_is_created_again_with_policy_always(
    cluster: Cluster,
    podman_env: PodmanEnv,  # noqa: F811
    tmp_path: Path,
    runtime: str,
) -> None:
    cluster.start_server(a_manifest(runtime, "echo run >> /shared/runs; sleep 1000", tmp_path, "ALWAYS"))
    cluster.start_agent(AGENT, runtimes=[runtime])
    cluster.wait_for("web", "Running(Ok)")
    if runtime == "podman":
        podman_env.podman("rm", "--force", "--time", "0", "--all")
    else:
        podman_env.podman("pod", "stop", "--time", "0", "--all")
        podman_env.podman("pod", "rm", "--force", "--all")
    cluster.wait_until("it runs again", lambda: runs(tmp_path) >= 2)
    cluster.wait_for("web", "Running(Ok)")


def test_a_process_whose_end_was_not_observed_is_restarted_with_policy_always(cluster: Cluster, tmp_path: Path) -> None:
    script = "echo run >> /shared/runs; echo $PPID $$ > /shared/pids; sleep 1000"
    cluster.start_server(a_manifest("native", script, tmp_path, "ALWAYS"))
    cluster.start_agent(AGENT, runtimes=["native"])
    cluster.wait_for("web", "Running(Ok)")
    cluster.wait_until("it runs", lambda: (tmp_path / "pids").exists() and runs(tmp_path) == 1)
    keeper, process = map(int, (tmp_path / "pids").read_text().split())
    os.kill(keeper, signal.SIGKILL)
    os.kill(process, signal.SIGKILL)
    cluster.wait_until("it runs again", lambda: runs(tmp_path) == 2)
    cluster.wait_for("web", "Running(Ok)")
