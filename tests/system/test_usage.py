"""CPU and memory of real workloads, on request and never otherwise."""

from tests.support.cluster import Cluster

BUSY = """
apiVersion: v1
workloads:
  busy:
    agent: n1
    runtime: native
    runtimeConfig: |
      command: ["/bin/busybox", "sh", "-c", "while true; do :; done"]
  calm:
    agent: n1
    runtime: native
    runtimeConfig: |
      command: ["/bin/busybox", "sleep", "1000"]
"""


def test_usage_is_shown_on_request_and_leaves_the_state_again() -> None:
    with Cluster() as cluster:
        cluster.start_server(BUSY)
        cluster.start_agent("n1", runtimes=["native"])
        cluster.wait_for("busy", "Running(Ok)")
        cluster.wait_for("calm", "Running(Ok)")
        assert "usage" not in str(cluster.state("workloadStates"))
        header, busy, calm = cluster.ank("get", "workloads", "-o", "wide").stdout.splitlines()
        assert header.split()[-6:] == ["STATE", "CPU", "MEMORY", "UPTIME", "ADDITIONAL", "INFO"]
        cpu = {name: float(line.split()[4]) for name, line in (("busy", busy), ("calm", calm))}
        assert cpu["busy"] > cpu["calm"]
        assert " KiB" in calm or " MiB" in calm
        cluster.wait_until("the usage is removed", lambda: "usage" not in str(cluster.state("workloadStates")))
