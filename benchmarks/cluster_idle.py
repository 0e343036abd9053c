"""Limit: with 50 running containers and nothing to do, the agent and its children use less than 0.5 % of one core.

This is the processor time of the agent and of all children it has waited for, over a minute in which nothing changes:
long enough for the slow listing of all containers, which detects changes that caused no event. For comparison the same
containers are watched by polling: `podman ps` every 500 ms.
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.real_cluster import PODMAN_PS, RealCluster, real_cluster, verdict

MAX_SHARE, COUNT, SETTLE, WINDOW = 0.005, 50, 5.0, 62.0
POLLING_INTERVAL, POLLING_WINDOW = 0.5, 10.0


def processor_time(pid: int) -> float:
    """Of the process, exactly, and of the children it has waited for, in clock ticks."""
    own = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return own + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def agent_share(cluster: RealCluster) -> float:
    time.sleep(SETTLE)
    before, begin = processor_time(cluster.agent_pid), time.monotonic()
    time.sleep(WINDOW)
    return (processor_time(cluster.agent_pid) - before) / (time.monotonic() - begin)


def polling_share(cluster: RealCluster) -> float:
    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before, begin = used(), time.monotonic()
    while time.monotonic() < begin + POLLING_WINDOW:
        subprocess.run(PODMAN_PS, env=cluster.environ, stdout=subprocess.DEVNULL, check=True)
        time.sleep(POLLING_INTERVAL)
    return (used() - before) / (time.monotonic() - begin)


def main() -> int:
    with real_cluster() as cluster:
        cluster.apply_and_wait([f"workload-{number}" for number in range(COUNT)])
        ours = agent_share(cluster)
        polling = polling_share(cluster)
    print(f"agent with its children  {ours * 100:6.2f} % of a core over {WINDOW:g} s, {COUNT} running containers")
    print(f"polling every 500 ms     {polling * 100:6.2f} % of a core: {polling / ours:.0f} times as much")
    print(f"limit: less than {MAX_SHARE * 100} %")
    return verdict(ours < MAX_SHARE)


if __name__ == "__main__":
    sys.exit(main())
