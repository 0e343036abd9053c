"""Limit: an agent that starts again resumes 50 running containers in less time than two `podman ps --all`.

The time is measured from the start of the process until the last of the 50 workloads is reported `Running(Ok)` to a
subscriber. The part after the connection of the agent is printed too; the rest is the start of the program, which is
the same without any container. No container may be touched: all keep their ids and main processes. Restarts and
listings alternate; medians count.
"""

import signal
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.real_cluster import (
    AGENT,
    CONNECTED,
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


@dataclass
class Times:
    restarts: list[float] = field(default_factory=list)
    resumptions: list[float] = field(default_factory=list)
    listings: list[float] = field(default_factory=list)


def measure(cluster: RealCluster) -> Times:
    names = [f"workload-{number}" for number in range(COUNT)]
    cluster.apply_and_wait(names)
    before = cluster.pids()
    times = Times()
    with Listener(cluster) as listener:
        for _ in range(ROUNDS):
            times.listings.append(seconds_of(PODMAN_PS, cluster.environ))
            listener.skip()
            cluster.kill_agent(AGENT, signal.SIGTERM)
            listener.wait_for_all(names, DISCONNECTED)
            begin = time.monotonic()
            cluster.launch_installed_agent()
            connected = listener.wait_for(AGENT, CONNECTED)
            end = listener.wait_for_all(names, RUNNING)
            times.restarts.append(end - begin)
            times.resumptions.append(end - connected)
    if len(before) != COUNT or cluster.pids() != before:
        raise SystemExit("the containers are not the same any more")
    return times


def main() -> int:
    with real_cluster() as cluster:
        times = measure(cluster)
    print(spread(f"start until {COUNT} are resumed", times.restarts))
    print(spread("connected until they are resumed", times.resumptions))
    print(spread("podman ps --all", times.listings))
    listing = statistics.median(times.listings)
    ratio, resumption = statistics.median(times.restarts) / listing, statistics.median(times.resumptions) / listing
    print(f"{ratio:.2f} listings, {resumption:.2f} of them after the connection; limit: less than {MAX_LISTINGS}")
    return verdict(ratio < MAX_LISTINGS)


if __name__ == "__main__":
    sys.exit(main())
