"""Limit: an update with `startNewFirst` has at most 20 ms without a running instance.

A client connects to the port of a native workload again and again. Instances share the port (SO_REUSEPORT), and each
has a health check on another port. The longest time between two successful connections with a refused one in between
counts, so that a delay of the client on a busy machine is not a gap. An update that stops the old instance first is
measured as well, for comparison. Needs no rights.
"""

import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.real_cluster import verdict
from tests.support.cluster import Cluster, free_port

LIMIT, ROUNDS = 0.020, 3
SERVER = """\
import select, socket, sys
listening = []
for port in map(int, sys.argv[1:]):
    listening.append(socket.socket())
    listening[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening[-1].bind(("127.0.0.1", port))
    listening[-1].listen(128)
while True:
    for ready in select.select(listening, [], [])[0]:
        ready.accept()[0].close()
"""


class ProbingClient:
    """Connects to the port until it is stopped, and measures the longest time in which connections were refused."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._last = time.monotonic()
        self._longest = 0.0
        self._is_running = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        was_refused = False
        while self._is_running:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    now = time.monotonic()
                    if was_refused:
                        self._longest = max(self._longest, now - self._last)
                    self._last, was_refused = now, False
                else:
                    was_refused = True
            time.sleep(0.001)

    def stop(self) -> float:
        self._is_running = False
        self._thread.join()
        return self._longest


def manifest(script: Path, port: int, *, new_first: bool) -> str:
    own = free_port()
    return f"""\
apiVersion: v1
workloads:
  web:
    agent: a
    runtime: native
    updateStrategy: {{startNewFirst: {str(new_first).lower()}}}
    health: {{tcp: {{port: {own}, interval: 100ms}}}}
    runtimeConfig: |
      command: ["{sys.executable}", "-I", "-S", "{script}", "{port}", "{own}"]
"""


def longest_gap(cluster: Cluster, *, new_first: bool) -> float:
    port, script = free_port(), cluster.write("server.py", SERVER)
    path = cluster.write("web.yaml", manifest(script, port, new_first=new_first))
    cluster.ank("apply", "--atomic", "--settle", "0s", str(path))
    client = ProbingClient(port)
    gaps = []
    for _ in range(ROUNDS):
        path.write_text(manifest(script, port, new_first=new_first))
        cluster.ank("apply", "--atomic", "--settle", "1s", str(path))
        gaps.append(client.stop())
        client = ProbingClient(port)
    client.stop()
    return sorted(gaps)[ROUNDS // 2]


def main() -> int:
    with Cluster() as cluster:
        cluster.start_server()
        cluster.start_agent("a", runtimes=["native"])
        stop_first = longest_gap(cluster, new_first=False)
        cluster.ank("delete", "workload", "web")
        new_first = longest_gap(cluster, new_first=True)
    print(f"stop, then start: {stop_first * 1000:.1f} ms without an instance")
    print(f"startNewFirst: {new_first * 1000:.1f} ms, at most {LIMIT * 1000:.0f} ms")
    return verdict(new_first <= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
