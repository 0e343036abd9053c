"""Limit: with 50 running containers, the end of a container reaches a subscriber of `ank get events` immediately.

Immediately: the median is less than 20 ms, the 99th percentile less than 100 ms. The main process of a container is
killed at a known moment; the event has arrived when a reader of the output of `ank get events` has its line. More
containers are started than end, so 50 continue to run. The same run measures how long the machine takes to report the
end of a plain process, which shows its load, and how long a `podman ps` takes, with which other programs poll for
changes.
"""

import os
import select
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.real_cluster import LIMIT, PODMAN_PS, Listener, RealCluster, real_cluster, seconds_of, spread, verdict

MAX_MEDIAN, MAX_PERCENTILE, STAYING, ENDING, PAUSE = 0.020, 0.100, 50, 100, 0.15
KILLED = "Failed(ExecFailed)"


def pids_by_workload(cluster: RealCluster) -> dict[str, int]:
    containers = cluster.podman.containers()
    return {container["Labels"]["name"].partition(".")[0]: container["Pid"] for container in containers}


def end_of_plain_process() -> float:
    """From the kill until its process descriptor reports the end."""
    process = subprocess.Popen(["sleep", "100"])
    descriptor = os.pidfd_open(process.pid)
    begin = time.monotonic()
    process.kill()
    select.select([descriptor], [], [], LIMIT)
    seconds = time.monotonic() - begin
    os.close(descriptor)
    process.wait()
    return seconds


def measure(cluster: RealCluster) -> tuple[list[float], list[float]]:
    names = [f"workload-{number}" for number in range(STAYING + ENDING)]
    cluster.apply_and_wait(names)
    pids = pids_by_workload(cluster)
    delays, plain = [], []
    with Listener(cluster) as listener:
        for name in names[:ENDING]:
            begin = time.monotonic()
            os.kill(pids[name], signal.SIGKILL)
            delays.append(listener.wait_for(name, KILLED) - begin)
            plain.append(end_of_plain_process())
            time.sleep(PAUSE)  # podman cleans up after each
    return sorted(delays), plain


def main() -> int:
    with real_cluster() as cluster:
        delays, plain = measure(cluster)
        listing = [seconds_of(PODMAN_PS, cluster.environ) for _ in range(5)]
    median, percentile = statistics.median(delays), delays[len(delays) * 99 // 100 - 1]
    print(spread(f"exit to event, {len(delays)} times", delays))
    print(spread("end of a plain process", plain))
    print(spread("podman ps --all", listing))
    print(f"median {median * 1000:.1f} ms, limit: less than {MAX_MEDIAN * 1000:g} ms")
    print(f"99th percentile {percentile * 1000:.1f} ms, limit: less than {MAX_PERCENTILE * 1000:g} ms")
    print(f"polling podman each 500 ms would take {(0.25 + statistics.median(listing)) / median:.0f} times as long")
    return verdict(median < MAX_MEDIAN and percentile < MAX_PERCENTILE)


if __name__ == "__main__":
    sys.exit(main())
