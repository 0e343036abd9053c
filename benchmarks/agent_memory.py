"""Limit: an agent at rest takes at most 24 MiB (PSS), and so does the server; 50 workloads add little.

Both run as separate processes, as they are installed, with the `podman` runtime and nothing to do. PSS counts
memory that is shared with other processes in proportion.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.installed import installed_python
from tests.support.cluster import Cluster

LIMIT_MIB, SETTLE, COUNT = 24.0, 3.0, 50


def pss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("this kernel does not report the PSS")


def manifest(count: int) -> str:
    workload = "  w{0}: {{agent: agent_A, runtime: native, runtimeConfig: 'command: [sleep, \"1000\"]'}}"
    return "\n".join(["apiVersion: v1", "workloads:", *(workload.format(number) for number in range(count)), ""])


@contextmanager
def a_cluster(*runtimes: str) -> Iterator[Cluster]:
    with Cluster(python=[str(installed_python())]) as cluster:
        cluster.start_server()
        cluster.start_agent("agent_A", runtimes=runtimes)
        time.sleep(SETTLE)
        yield cluster


def measure(cluster: Cluster) -> tuple[float, float]:
    assert cluster.server is not None
    return pss_mib(cluster.agents["agent_A"].pid), pss_mib(cluster.server.pid)


def main() -> int:
    with a_cluster("podman") as cluster:
        agent, server = measure(cluster)
    print(f"at rest           agent {agent:5.1f} MiB   server {server:5.1f} MiB   limit: less than {LIMIT_MIB} MiB")
    with a_cluster("native") as cluster:
        without_workloads, _ = measure(cluster)
        cluster.apply(manifest(COUNT))
        time.sleep(SETTLE)
        busy, server_busy = measure(cluster)
        each = (busy - without_workloads) * 1024 / COUNT
        print(f"{COUNT} workloads      agent {busy:5.1f} MiB   server {server_busy:5.1f} MiB   {each:.0f} KiB each")
        cluster.ank("delete", "workload", *(f"w{number}" for number in range(COUNT)))
    ok = agent < LIMIT_MIB and server < LIMIT_MIB
    print("kept" if ok else "BROKEN")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
