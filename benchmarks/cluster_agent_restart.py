"""Promise: an agent that starts again takes up 50 running containers in less time than two `podman ps --all`.

Timed is from the start of the process until the last of the 50 workloads is reported `Running(Ok)` to a subscriber.
No container may be touched: all keep their ids and main processes. Restarts and listings alternate; medians count.
"""

import signal
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.real_cluster import (
    AGENT,
    PODMAN_PS,
    RUNNING,
    Listener,
    RealCluster,
    real_cluster,
    seconds_of,
    spread,
    verdict,
)

MAX_LISTINGS, COUNT, ROUNDS = 2, 50, 9
DISCONNECTED = "AgentDisconnected(AgentDisconnected)"


def measure(cluster: RealCluster) -> tuple[list[float], list[float]]:
    names = [f"workload-{number}" for number in range(COUNT)]
    cluster.apply_and_wait(names)
    before = cluster.pids()
    restarts, listings = [], []
    with Listener(cluster) as listener:
        for _ in range(ROUNDS):
            listings.append(seconds_of(PODMAN_PS, cluster.environ))
            listener.skip()
            cluster.kill_agent(AGENT, signal.SIGTERM)
            listener.wait_for_all(names, DISCONNECTED)
            begin = time.monotonic()
            cluster.launch_agent()
            restarts.append(listener.wait_for_all(names, RUNNING) - begin)
    if cluster.pids() != before:
        raise SystemExit("the containers are not the same any more")
    return restarts, listings


def main() -> int:
    with real_cluster() as cluster:
        restarts, listings = measure(cluster)
    print(spread(f"start until {COUNT} are resumed", restarts))
    print(spread("podman ps --all", listings))
    ratio = statistics.median(restarts) / statistics.median(listings)
    print(f"{ratio:.2f} listings, promised less than {MAX_LISTINGS}; no container was touched")
    return verdict(ratio < MAX_LISTINGS)


if __name__ == "__main__":
    sys.exit(main())
