"""Limit: after `kill -9` of the leader, agents are connected again and `ank apply` succeeds within lease + 1 s.

Usage: benchmarks/failover.py [AGENTS] [REPEATS]. Two servers share three etcd members on this machine, lease 2 s. The
median of the repeats counts. Workloads must keep their process ids.
"""

import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.device_manifests import native
from tests.support.shared_state_cluster import SharedStateCluster

LEASE, MARGIN = 2, 1.0


def manifest(cluster: SharedStateCluster, name: str, agent: str) -> str:
    command = ["sh", "-c", f"echo $$ >> {cluster.folder}/{name}.pids; exec sleep 1000"]
    return json.dumps({"apiVersion": "v1", "workloads": {name: {"agent": agent, **native(command)}}})


def one_failover(cluster: SharedStateCluster, number: int, agents: list[str]) -> float:
    path = cluster.write("next.yaml", manifest(cluster, f"w{number}", agents[0]))
    leader = cluster.leader()
    began = time.monotonic()
    cluster.kill(leader)
    cluster.ank("--no-wait", "apply", str(path))
    cluster.wait_until(
        "all agents are connected", lambda: set(agents) <= set(cluster.state("agents").get("agents", {}))
    )
    seconds = time.monotonic() - began
    cluster.wait_for(f"w{number}", "Running(Ok)", seconds=60)
    cluster.launch(leader)
    log = cluster.folder / f"{leader}.log"
    cluster.wait_until("it is on standby", lambda: log.read_text().count("is ready") > number // 2)
    return seconds


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    agents = [f"node{number}" for number in range(count)]
    cluster = SharedStateCluster(("s1", "s2"), lease=LEASE)
    with cluster:
        for name in cluster.ports:
            cluster.launch(name)
        cluster.leader()
        for agent in agents:
            cluster.start_agent(agent, runtimes=["native"])
        times = [one_failover(cluster, number, agents) for number in range(repeats)]
        restarted = [path.name for path in cluster.folder.glob("*.pids") if len(path.read_text().split()) != 1]
    value, limit = statistics.median(times), LEASE + MARGIN
    print("failovers:", ", ".join(f"{seconds:.2f} s" for seconds in times))
    is_kept = value <= limit and not restarted
    print(f"workloads that were started again: {restarted or 'none'}")
    print(f"failover with {count} agents: {value:.2f} s, limit {limit:g} s: {'ok' if is_kept else 'not ok'}")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
