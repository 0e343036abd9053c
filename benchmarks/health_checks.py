"""Limit: http and tcp checks of 50 containers, each every 5 s, cost less than 1 % of one core.

This is the processor time of all threads of the agent and of the children it has waited for. The cost of the checks
is the difference to the same containers without checks. For comparison: a command in a container, as podman runs it.
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.real_cluster import AGENT, RealCluster, real_cluster, verdict
from tests.support.isolated_podman import IMAGE

MAX_SHARE, COUNT, INTERVAL, SETTLE, WINDOW = 0.01, 50, 5.0, 3.0, 15.0
COMMANDS = 5
WORKLOAD = """\
  web-{number}:
    agent: {agent}
    runtime: podman
    runtimeConfig: |
      image: {image}
      commandOptions: [--stop-signal=KILL]
      commandArgs: [sh, -c, "echo ok > /index.html; exec httpd -f -h / -p 8080"]
    {health}
"""
CHECKS = (
    "health: {http: {port: 8080, interval: 5s, startPeriod: 1m}}",
    "health: {tcp: {port: 8080, interval: 5s, startPeriod: 1m}}",
)


def processor_time(pid: int) -> float:
    """Of all threads, exactly, and of the children it has waited for, in clock ticks."""
    own = sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return own + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def share(cluster: RealCluster) -> float:
    time.sleep(SETTLE)
    before, begin = processor_time(cluster.agent_pid), time.monotonic()
    time.sleep(WINDOW)
    return (processor_time(cluster.agent_pid) - before) / (time.monotonic() - begin)


def apply(cluster: RealCluster, *, checked: bool) -> None:
    workloads = (
        WORKLOAD.format(number=number, agent=AGENT, image=IMAGE, health=CHECKS[number % 2] if checked else "")
        for number in range(COUNT)
    )
    path = cluster.write("checked.yaml", "apiVersion: v1\nworkloads:\n" + "".join(workloads))
    cluster.ank("--no-wait", "apply", str(path))
    wanted = "healthy" if checked else ""
    cluster.wait_until(
        "all run" if not checked else "all are healthy",
        lambda: sum(state == ("Running(Ok)", wanted) for state in cluster.states().values()) == COUNT,
        seconds=300,
    )


def command_share(cluster: RealCluster) -> float:
    """Of one core, for as many commands in containers per second."""
    container = next(iter(cluster.pids()))

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    for _ in range(COMMANDS):
        subprocess.run(["podman", "exec", container, "true"], env=cluster.environ, check=True, timeout=60)
    return (used() - before) / COMMANDS * COUNT / INTERVAL


def main() -> int:
    with real_cluster() as cluster:
        apply(cluster, checked=False)
        idle = share(cluster)
        apply(cluster, checked=True)
        checking = share(cluster)
        commands = command_share(cluster)
    cost = max(checking - idle, 0.0)
    print(f"{COUNT} containers without checks        {idle * 100:6.2f} % of a core over {WINDOW:g} s")
    print(f"with http and tcp checks every {INTERVAL:g} s  {checking * 100:6.2f} % of a core")
    print(f"cost of the checks                {cost * 100:6.2f} % of a core, limit: less than {MAX_SHARE * 100:g} %")
    print(
        f"the same as commands of podman    {commands * 100:6.2f} % of a core: {commands / max(cost, 1e-6):.0f} times"
    )
    return verdict(cost < MAX_SHARE)


if __name__ == "__main__":
    sys.exit(main())
