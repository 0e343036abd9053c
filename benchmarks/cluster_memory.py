"""Limit: the server and the agent each hold at most 24 MiB of memory at rest.

This is the proportional set size (PSS): the private memory of a process, and its part of the shared memory.
It is measured right after the start, and at rest when 10 containers run and each program has answered a request. A
bare interpreter is measured in the same run. Above the limit, the memory that each package adds is printed.
"""

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.installed import installed_python
from benchmarks.real_cluster import RealCluster, real_cluster, verdict

GOAL, COUNT, REST = 24.0, 10, 5.0
BARE = "import sys, time; print(flush=True); time.sleep(100)"
MODULES = {
    "server": ["ankaios.server.program", "ankaios.server.shell"],
    "agent": [
        "ankaios.agent.__main__",
        "ankaios.agent.agent",
        "ankaios.runtimes.podman.podman_runtime",
        "ankaios.runtimes.podman.podman_kube_runtime",
        "ankaios.runtimes.native.native_runtime",
    ],
}
# Prints the memory that each package adds without its imports, in multiples of pages of 4 KiB.
EXPLAIN = """
import builtins, collections, importlib, sys
grown, open_imports, real = collections.Counter(), [], builtins.__import__
statm = open("/proc/self/statm")
def resident():
    statm.seek(0)
    return int(statm.read().split()[1]) * 4096
def counting(name, *more):
    before, known = resident(), len(sys.modules)
    open_imports.append(0)
    try:
        return real(name, *more)
    finally:
        whole, inner = resident() - before, open_imports.pop()
        if len(sys.modules) > known:
            grown[name.partition(".")[0] or "ankaios"] += whole - inner
        if open_imports:
            open_imports[-1] += whole
builtins.__import__ = counting
for module in sys.argv[1:]:
    __import__(module)
for name, size in grown.most_common(12):
    print(f"    {size / 2**20:5.1f} MiB  {name}")
"""


def pss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("the kernel does not report the proportional set size")


def bare_interpreter() -> float:
    with subprocess.Popen([installed_python(), "-c", BARE], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        size = pss(process.pid)
        process.kill()
    return size


def sizes(cluster: RealCluster) -> dict[str, float]:
    return {"server": pss(cluster.server_pid), "agent": pss(cluster.agent_pid)}


def explain(name: str) -> None:
    print(f"  what imports add to the {name}:")
    subprocess.run([installed_python(), "-c", EXPLAIN, *MODULES[name]], check=True)


def main() -> int:
    with real_cluster() as cluster:
        started = sizes(cluster)
        names = [f"workload-{number}" for number in range(COUNT)]
        cluster.apply_and_wait(names)
        cluster.ank("get", "workloads")
        time.sleep(REST)
        rest = sizes(cluster)
        bare = bare_interpreter()
    for name in rest:
        print(
            f"{name:<8} after the start {started[name]:5.1f} MiB   at rest {rest[name]:5.1f} MiB"
            f"   {rest[name] / bare:.1f} times a bare interpreter"
        )
    print(f"bare interpreter {bare:.1f} MiB; limit: less than {GOAL:g} MiB each")
    for name in rest:
        if rest[name] >= GOAL:
            explain(name)
    return verdict(max(rest.values()) < GOAL)


if __name__ == "__main__":
    sys.exit(main())
