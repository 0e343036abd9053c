"""CPU and memory of real workloads, only on request.

Needs: nothing but the repository; containers need podman and root rights.
"""

from tests.support.cluster import Cluster
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

BUSY = """
apiVersion: v1
workloads:
  busy:
    agent: n1
    runtime: native
    runtimeConfig: |
      command: ["/bin/busybox", "sh", "-c", "while true; do :; done"]
  idle:
    agent: n1
    runtime: native
    runtimeConfig: |
      command: ["/bin/busybox", "sleep", "1000"]
"""


def cpu_of(cluster: Cluster, workload: str) -> float:
    """0 if it is not known yet: an agent on a busy machine may report late."""
    lines = cluster.ank("get", "workloads", "-o", "wide").stdout.splitlines()
    (line,) = (line for line in lines if line.startswith(f"{workload} "))
    cpu = line.split()[4]
    return 0.0 if cpu == "-" else float(cpu)


def test_usage_is_shown_on_request_and_removed_from_the_state_later() -> None:
    with Cluster() as cluster:
        cluster.start_server(BUSY)
        cluster.start_agent("n1", runtimes=["native"])
        cluster.wait_for("busy", "Running(Ok)")
        cluster.wait_for("idle", "Running(Ok)")
        assert "usage" not in str(cluster.state("workloadStates"))
        cluster.wait_until("the loop uses a processor", lambda: cpu_of(cluster, "busy") > 0.05)
        header, _, idle = cluster.ank("get", "workloads", "-o", "wide").stdout.splitlines()
        assert header.split()[-6:] == ["STATE", "CPU", "MEMORY", "UPTIME", "ADDITIONAL", "INFO"]
        assert idle.split()[4] == "0.00"
        assert " KiB" in idle or " MiB" in idle
        cluster.wait_until("the usage is removed", lambda: "usage" not in str(cluster.state("workloadStates")))


@needs_podman
def test_usage_of_a_container_includes_all_its_processes(podman_env: PodmanEnv) -> None:  # noqa: F811
    """Also after the agent was started again, and without a call of podman."""
    container = f"""
apiVersion: v1
workloads:
  busy:
    agent: n1
    runtime: podman
    runtimeConfig: |
      image: {IMAGE}
      commandOptions: ["--entrypoint", "/bin/sh"]
      commandArgs: ["-c", "(while true; do :; done) & sleep 1000"]
"""
    with Cluster(podman_env.environ) as cluster:
        cluster.start_server(container)
        cluster.start_agent("n1", runtimes=["podman"])
        cluster.wait_for("busy", "Running(Ok)")
        for _ in range(2):
            cluster.wait_until("the child of the first process is counted", lambda: cpu_of(cluster, "busy") > 0.05)
            cluster.kill_agent("n1")
            cluster.start_agent("n1", runtimes=["podman"])
            cluster.wait_for("busy", "Running(Ok)")
        cluster.ank("delete", "workload", "busy")
    podman_env.clear()
