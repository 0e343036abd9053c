"""Limit: `ank apply` of one workload until it is `Running(Ok)` takes at most 1.35 times a bare `podman run -d`.

Both start a container of the same image with the same options. `ank apply` is timed as a user sees it: from the start
of the program to its end, which it only reaches when the state was reported. Runs alternate, so that other load
affects both equally; medians count. `ank get agents` shows how much of it is the start of the program itself.
"""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.real_cluster import PODMAN_RUN, RealCluster, real_cluster, seconds_of, spread, verdict

MAX_RATIO, ROUNDS, WARM_UP = 1.35, 25, 2


def measure(cluster: RealCluster) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"podman run -d": [], "ank apply": [], "ank get agents": []}
    for number in range(WARM_UP + ROUNDS):
        times["podman run -d"].append(seconds_of(PODMAN_RUN, cluster.environ))
        times["ank apply"].append(cluster.apply_and_wait([f"workload-{number}"]))
        times["ank get agents"].append(seconds_of(cluster.ank_command("get", "agents"), cluster.environ))
    return {name: measured[WARM_UP:] for name, measured in times.items()}


def main() -> int:
    with real_cluster() as cluster:
        times = measure(cluster)
    for name, measured in times.items():
        print(spread(name, measured))
    ratio = statistics.median(times["ank apply"]) / statistics.median(times["podman run -d"])
    start = statistics.median(times["ank get agents"]) / statistics.median(times["podman run -d"])
    print(f"ratio {ratio:.2f}, of which {start:.2f} is any call of ank; limit: at most {MAX_RATIO}")
    return verdict(ratio <= MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
