"""The cost of durable state: benchmarks/durable_state.py [WORKLOADS]

1. The time of one update over the network with `memory:`, SQLite and etcd, and of the command `ank apply`.
2. The rate of updates from 20 clients with many workloads in the state.
3. The time to start and the memory with that state.

The workloads belong to an agent that is not connected, so that only the server works.
"""

import statistics
import subprocess
import sys
import threading
import time
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

CLIENTS, UPDATES = 20, 1000
REPEATS, COMMANDS = 200, 15


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


def median_update(cluster: Cluster) -> float:
    client = Client(cluster)
    times = []
    for number in range(REPEATS):
        began = time.perf_counter()
        client.update(f"w{number}", f"new {number}")
        times.append(time.perf_counter() - began)
    client.close()
    return statistics.median(times)


def median_apply(cluster: Cluster) -> float:
    times = []
    for number in range(COMMANDS):
        path = cluster.write("apply.yaml", "apiVersion: v1\nworkloads: " + str({"w1": form(f"apply {number}")}))
        began = time.perf_counter()
        subprocess.run(
            cluster.ank_command("--no-wait", "apply", str(path)), env=cluster.environ, check=True, capture_output=True
        )
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def updates_per_minute(cluster: Cluster) -> float:
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
    return UPDATES / (time.perf_counter() - began) * 60


def resident_mib(process: "subprocess.Popen[bytes]") -> float:
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def start_until_ready(cluster: Cluster, options: list[str]) -> float:
    """Until the stored state can be read."""
    began = time.perf_counter()
    cluster.start_server(None, *options)
    while True:
        try:
            cluster.state("desiredState.workloads.w1")
            return time.perf_counter() - began
        except AnkaiosError:
            time.sleep(0.02)


def measure(title: str, options: list[str], count: int, base: dict[str, float]) -> None:
    with Cluster() as cluster:
        options = [option.replace("FOLDER", str(cluster.folder)) for option in options]
        cluster.start_server(None, *options)
        client = Client(cluster)
        client.fill(count)
        client.close()
        update, apply = median_update(cluster), median_apply(cluster)
        base.setdefault("update", update)
        base.setdefault("apply", apply)
        rate = updates_per_minute(cluster)
        print(
            f"{title}: update {update * 1000:.2f} ms ({update / base['update']:.2f} x memory), "
            f"ank apply {apply * 1000:.0f} ms ({apply / base['apply']:.2f} x memory), "
            f"{rate:.0f} updates per minute from {CLIENTS} clients",
            flush=True,
        )
        if title != "memory":
            cluster.kill_server()
            seconds = start_until_ready(cluster, options)
            assert cluster.server is not None
            print(f"{title}: start {seconds:.2f} s, {resident_mib(cluster.server):.0f} MiB", flush=True)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{count} workloads")
    base: dict[str, float] = {}
    measure("memory", [], count, base)
    measure("sqlite", ["--storage", "sqlite:FOLDER/state.db"], count, base)
    with Cluster() as folder:
        etcd = EtcdCluster(folder.folder / "etcd")
        try:
            etcd.wait_until_healthy()
            measure("etcd", ["--storage", str(etcd.location("/benchmark"))], count, base)
        finally:
            etcd.close()


if __name__ == "__main__":
    main()
