"""Limit: 20 workloads applied at once run after at most 1.2 times the time plain parallel `podman run -d` needs.

Plain podman is tried with 1, 2, 4 and 20 calls at a time, and the best of these counts. All start 20 containers of the
same image with the same options on a podman without any other container. `ank apply` is timed from the start of the
program until it ends, when all 20 are reported `Running(Ok)`. Each round tries everything once; medians count.
"""

import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.real_cluster import PODMAN_RUN, RealCluster, real_cluster, seconds_of, spread, verdict

MAX_RATIO, ROUNDS, COUNT = 1.2, 3, 20
WIDTHS = (1, 2, 4, 20)


def plain(cluster: RealCluster, width: int) -> float:
    with ThreadPoolExecutor(width) as pool:
        begin = time.monotonic()
        for call in [pool.submit(seconds_of, PODMAN_RUN, cluster.environ) for _ in range(COUNT)]:
            call.result()
        seconds = time.monotonic() - begin
    cluster.podman.clear()
    return seconds


def applied(cluster: RealCluster) -> float:
    names = [f"workload-{number}" for number in range(COUNT)]
    seconds = cluster.apply_and_wait(names)
    cluster.ank("delete", "workload", *names)
    return seconds


def main() -> int:
    ours: list[float] = []
    bare: dict[int, list[float]] = {width: [] for width in WIDTHS}
    with real_cluster() as cluster:
        for _ in range(ROUNDS):
            for width in WIDTHS:
                bare[width].append(plain(cluster, width))
            ours.append(applied(cluster))
    for width, measured in bare.items():
        print(spread(f"podman run -d, {width} at a time", measured))
    print(spread(f"ank apply of {COUNT} workloads", ours))
    ratio = statistics.median(ours) / min(statistics.median(measured) for measured in bare.values())
    print(f"ratio to the best {ratio:.2f}, limit: at most {MAX_RATIO}")
    return verdict(ratio <= MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
