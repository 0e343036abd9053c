"""The cost of durable state, one limit for each argument: benchmarks/durable_state.py apply|rate|start [WORKLOADS]

- `apply`: `ank apply` with SQLite takes at most 1.3 times as long as with `memory:`. Both servers run at the same time
  and get the commands alternately.
- `rate`: 1,000 updates from 20 clients with 10,000 workloads take at most a minute, with SQLite and with etcd.
- `start`: the time until the stored state of 10,000 workloads can be read after `kill -9`, and the server's memory.

The workloads belong to an agent that is not connected, so that only the server works. `benchmarks/failover.py` measures
the time until another server leads.
"""

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ankaios.cli.connection import commander_hello
from ankaios.cli.session import Session
from ankaios.common.errors import AnkaiosError
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from tests.integration.storage.etcd_cluster import EtcdCluster
from tests.support.cluster import Cluster

CLIENTS, UPDATES, COMMANDS = 20, 1000, 25
MOST_TIMES_MEMORY, RATE_SECONDS, START_SECONDS, START_MIB = 1.3, 60.0, 5.0, 300.0


def form(config: str) -> dict[str, str]:
    return {"agent": "absent", "runtime": "podman", "runtimeConfig": config}


def state(workloads: dict[str, dict[str, str]]) -> dict[str, object]:
    return {"desiredState": {"apiVersion": "v1", "workloads": workloads}}


class Client:
    def __init__(self, cluster: Cluster) -> None:
        self._connection = connect_blocking(ConnectionSettings(cluster.url), Method.CLI, commander_hello())
        self._session = Session(self._connection, 60_000)

    def update(self, name: str, config: str) -> None:
        self._session.update(COMPLETE_STATE.from_form(state({name: form(config)})), [f"desiredState.workloads.{name}"])

    def fill(self, count: int) -> None:
        workloads = {f"w{number}": form(f"image: x{number}") for number in range(count)}
        self._session.update(COMPLETE_STATE.from_form(state(workloads)), ["desiredState.workloads"])

    def close(self) -> None:
        self._connection.close()


@contextmanager
def filled_server(kind: str, count: int) -> Iterator[tuple[Cluster, list[str]]]:
    """A cluster with a server that has this many workloads, and the options of the server."""
    with Cluster() as cluster, ExitStack() as stack:
        options = []
        if kind == "sqlite":
            options = ["--storage", f"sqlite:{cluster.folder / 'state.db'}"]
        elif kind == "etcd":
            etcd = EtcdCluster(cluster.folder / "etcd")
            stack.callback(etcd.close)
            etcd.wait_until_healthy()
            options = ["--storage", str(etcd.location("/benchmark"))]
        start_until_ready(cluster, options, "agents")
        client = Client(cluster)
        client.fill(count)
        client.close()
        yield cluster, options


def start_until_ready(cluster: Cluster, options: list[str], mask: str) -> float:
    """Until the state can be read. A server with etcd rejects calls until it leads."""
    began = time.perf_counter()
    cluster.start_server(None, *options)
    while True:
        try:
            cluster.state(mask)
            return time.perf_counter() - began
        except AnkaiosError:
            time.sleep(0.02)


def shown(what: str, value: float, unit: str, limit: float) -> bool:
    is_kept = value <= limit
    print(f"{what}: {value:.2f} {unit}, limit {limit:g} {unit}: {'ok' if is_kept else 'not ok'}", flush=True)
    return is_kept


def apply_seconds(cluster: Cluster, number: int) -> float:
    path = cluster.write("apply.yaml", "apiVersion: v1\nworkloads: " + str({"w1": form(f"apply {number}")}))
    command = cluster.ank_command("--no-wait", "apply", str(path))
    began = time.perf_counter()
    subprocess.run(command, env=cluster.environ, check=True, capture_output=True)
    return time.perf_counter() - began


def measure_apply(count: int) -> bool:
    times: dict[str, list[float]] = {"memory": [], "sqlite": []}
    with ExitStack() as stack:
        clusters = {kind: stack.enter_context(filled_server(kind, count))[0] for kind in times}
        for number in range(COMMANDS):
            for kind, cluster in clusters.items():
                times[kind].append(apply_seconds(cluster, number))
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    for kind, value in medians.items():
        print(f"ank apply with {kind}: {value * 1000:.0f} ms")
    return shown("ank apply with SQLite", medians["sqlite"] / medians["memory"], "x memory", MOST_TIMES_MEMORY)


def seconds_of_updates(cluster: Cluster) -> float:
    def work(index: int) -> None:
        client = Client(cluster)
        for number in range(UPDATES // CLIENTS):
            client.update(f"w{index * 100 + number}", f"by {index}, {number}")
        client.close()

    threads = [threading.Thread(target=work, args=(index,), name=f"client {index}") for index in range(CLIENTS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def measure_rate(count: int) -> bool:
    kept = []
    for kind in ("sqlite", "etcd"):
        with filled_server(kind, count) as (cluster, _):
            seconds = seconds_of_updates(cluster)
        what = f"{UPDATES} updates from {CLIENTS} clients with {count} workloads, {kind}"
        kept.append(shown(what, seconds, "s", RATE_SECONDS))
    return all(kept)


def measure_start(count: int) -> bool:
    kept = []
    for kind in ("sqlite", "etcd"):
        with filled_server(kind, count) as (cluster, options):
            cluster.kill_server()
            seconds = start_until_ready(cluster, options, "desiredState.workloads.w1")
            assert cluster.server is not None
            text = Path(f"/proc/{cluster.server.pid}/status").read_text()
            memory = int(text.partition("VmRSS:")[2].split()[0]) / 1024
        kept.append(shown(f"start with {count} workloads, {kind}", seconds, "s", START_SECONDS))
        kept.append(shown(f"memory with {count} workloads, {kind}", memory, "MiB", START_MIB))
    return all(kept)


def main() -> int:
    measures = {"apply": (measure_apply, 1000), "rate": (measure_rate, 10_000), "start": (measure_start, 10_000)}
    if len(sys.argv) < 2 or sys.argv[1] not in measures:
        print(f"usage: {sys.argv[0]} {'|'.join(measures)} [WORKLOADS]", file=sys.stderr)
        return 2
    measure, count = measures[sys.argv[1]]
    return 0 if measure(int(sys.argv[2]) if len(sys.argv) > 2 else count) else 1


if __name__ == "__main__":
    sys.exit(main())
