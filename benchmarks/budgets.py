"""Limit: start-up, memory and cost at rest stay within their budgets. One line for each: value, limit, ok.

- `ank-server` accepts connections within 40 ms of its start.
- `ank get workloads` takes at most 70 ms, with ten workloads.
- `ank-agent` sends its hello within 180 ms of its start.
- Server and agent each hold at most 24 MiB (PSS) at rest.
- With 20 running containers the agent with its children uses less than 0.5 % of a core, and so does the server. The
  window contains one of the listings that are made every 30 s.
- `podman pause` is reported within 1.5 s.

The programs run as they are installed, without the packages of a development environment. The figures are meaningful
on an idle machine only. Takes a minute. Needs root rights and podman for the last three.
"""

import asyncio
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import agent_start, cli_get_workloads, server_listen
from benchmarks.cluster_idle import processor_time
from benchmarks.cluster_memory import pss
from benchmarks.installed import installed_python
from benchmarks.real_cluster import RUNNING, Listener, RealCluster, real_cluster
from tests.support.isolated_podman import why_no_podman

CONTAINERS, SETTLE, WINDOW = 20, 3.0, 31.0
PAUSED = "Failed(Unknown)"


class Budgets:
    def __init__(self) -> None:
        self.holds = True

    def show(self, what: str, value: float, limit: float, unit: str) -> None:
        within = value <= limit
        self.holds &= within
        print(f"{what:44}{value:8.2f} {unit:4} limit {limit:7g} {unit:4} {'ok' if within else 'NOT OK'}", flush=True)


def show_start_times(budgets: Budgets) -> None:
    listening = [server_listen.one_start()[0] for _ in range(server_listen.ROUNDS)]
    budgets.show("ank-server: start to first connection", statistics.median(listening) * 1000, 40, "ms")
    with cli_get_workloads.running_server() as port:
        command = (str(installed_python().with_name("ank")), "-k", "-s", f"http://127.0.0.1:{port}", "get", "workloads")
        reading = [cli_get_workloads.seconds(*command) for _ in range(cli_get_workloads.ROUNDS)]
    budgets.show("ank get workloads", statistics.median(reading) * 1000, 70, "ms")
    greeting = [seconds for _, seconds in asyncio.run(agent_start.measure("agentHello"))]
    budgets.show("ank-agent: start to hello", statistics.median(greeting) * 1000, 180, "ms")


def show_rest(budgets: Budgets, cluster: RealCluster) -> None:
    programs = {"server": cluster.server_pid, "agent": cluster.agent_pid}
    time.sleep(SETTLE)
    for name, pid in programs.items():
        budgets.show(f"ank-{name}: memory at rest", pss(pid), 24, "MiB")
    cluster.apply_and_wait([f"workload-{number}" for number in range(CONTAINERS)])
    time.sleep(SETTLE)
    before, begin = {name: processor_time(pid) for name, pid in programs.items()}, time.monotonic()
    time.sleep(WINDOW)
    seconds = time.monotonic() - begin
    for name, pid in programs.items():
        share = (processor_time(pid) - before[name]) / seconds
        budgets.show(f"ank-{name}: CPU at rest, {CONTAINERS} containers", share * 100, 0.5, "%")


def show_pause(budgets: Budgets, cluster: RealCluster) -> None:
    container, *_ = cluster.pids()
    (name,) = (entry["Names"][0] for entry in cluster.podman.containers() if entry["Id"] == container)
    workload = name.partition(".")[0]
    with Listener(cluster) as listener:
        for call, state in (("pause", PAUSED), ("unpause", RUNNING)):
            listener.skip()
            cluster.podman.podman(call, container)
            done = time.monotonic()
            budgets.show(f"podman {call}: reported after", max(listener.wait_for(workload, state) - done, 0), 1.5, "s")


def main() -> int:
    budgets = Budgets()
    show_start_times(budgets)
    if reason := why_no_podman():
        print(f"memory, rest and pause were not measured: {reason}")
        return 1
    with real_cluster() as cluster:
        show_rest(budgets, cluster)
        show_pause(budgets, cluster)
    return 0 if budgets.holds else 1


if __name__ == "__main__":
    sys.exit(main())
