"""Limit: storing one change costs the same with 10,000 workloads as with 100, and 1,000 changes a minute are stored.

For each store: one commit with 100 and with 10,000 stored entries (ratio at most 3), a commit of 10,000 entries, 1,000
commits from 20 tasks, each of which waits for its commit, and the time and memory of loading 10,000 entries. etcd is
a cluster of three members on this machine, and left out if it is not installed.
"""

import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ankaios.storage.etcd.etcd_storage import make_etcd_storage
from ankaios.storage.leader_election import Candidate, SoleElection
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.state_store import EntryChange, JsonValue, Revision, StateChange
from ankaios.storage.storage import Storage
from tests.integration.storage.etcd_cluster import EtcdCluster, has_etcd
from tests.support.memory_store import MemoryStore

SMALL, LARGE, ROUNDS, TASKS, COMMITS = 100, 10_000, 300, 20, 1000
MAX_RATIO, MAX_SECONDS = 3.0, 60.0
OWN = Candidate("benchmark", "http://localhost:1")
MakeStorage = Callable[[str], Storage]


def a_workload(number: int) -> JsonValue:
    return {
        "agent": f"agent_{number % 20}",
        "runtime": "podman",
        "restartPolicy": "ALWAYS",
        "tags": {"owner": "team", "release": str(number)},
        "dependencies": {"database": "ADD_COND_RUNNING"},
        "runtimeConfig": f"image: registry/app-{number}:1\ncommandOptions: ['-p', '{number}:80', '-e', 'A=b']\n",
    }


class Changes:
    """Changes of single workloads, with their revisions."""

    def __init__(self) -> None:
        self._number = 0

    def of(self, *names: str) -> StateChange:
        self._number += 1
        entries = tuple(EntryChange("workload", name, None, a_workload(self._number)) for name in names)
        dropped = (self._number - 100,) if self._number > 100 else ()
        return StateChange(entries, Revision(self._number, time.time(), "ank", (), entries), dropped)


async def loaded(storage: Storage) -> Storage:
    await storage.election.campaign()
    await storage.store.load()
    return storage


async def commit_times(storage: Storage, changes: Changes) -> list[float]:
    times = []
    for turn in range(ROUNDS):
        change = changes.of(f"w{turn % SMALL}")
        started = time.perf_counter()
        await storage.store.commit([change])
        times.append(time.perf_counter() - started)
    return sorted(times)


async def commit_from_tasks(storage: Storage, changes: Changes) -> tuple[float, int]:
    """Changes that arrive while a commit is under way are stored together by the next one, as the server does it."""
    waiting: list[tuple[StateChange, asyncio.Future[None]]] = []
    arrived, commits = asyncio.Event(), 0

    async def store() -> None:
        nonlocal commits
        while True:
            await arrived.wait()
            arrived.clear()
            batch, waiting[:] = list(waiting), []
            await storage.store.commit([change for change, _ in batch])
            commits += 1
            for _, done in batch:
                done.set_result(None)

    async def request(task: int) -> None:
        for turn in range(COMMITS // TASKS):
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting.append((changes.of(f"w{task * 100 + turn}"), done))
            arrived.set()
            await done

    started = time.perf_counter()
    storing = asyncio.create_task(store())
    await asyncio.gather(*(request(task) for task in range(TASKS)))
    storing.cancel()
    return time.perf_counter() - started, commits


def resident_memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def load_cost(storage: Storage) -> tuple[float, float]:
    """Seconds, and how many MiB this process is larger while it keeps what was loaded."""
    await storage.election.campaign()
    gc.collect()
    before, started = resident_memory(), time.perf_counter()
    stored = await storage.store.load()
    seconds = time.perf_counter() - started
    assert len(stored.entries) == LARGE, len(stored.entries)
    growth = (resident_memory() - before) / 2**20
    await storage.close()
    return seconds, growth


async def measure(name: str, make: MakeStorage) -> bool:
    medians = []
    for count in (SMALL, LARGE):
        storage, changes = await loaded(make(str(count))), Changes()
        started = time.perf_counter()
        await storage.store.commit([changes.of(*(f"w{number}" for number in range(count)))])
        filled = time.perf_counter() - started
        times = await commit_times(storage, changes)
        medians.append(statistics.median(times))
        if count == LARGE:
            seconds, commits = await commit_from_tasks(storage, changes)
        await storage.close()
    ratio = medians[1] / medians[0]
    print(
        f"{name:7} one commit {medians[1] * 1000:6.2f} ms (99 %: {times[-ROUNDS // 100] * 1000:.1f} ms),"
        f" {ratio:.1f} times that with {SMALL} entries; {LARGE} entries at once {filled:.2f} s;"
        f" {COMMITS} changes of {TASKS} tasks {seconds:.2f} s in {commits} commits",
        flush=True,
    )
    return ratio <= MAX_RATIO and seconds <= MAX_SECONDS


async def measure_load(name: str, make: MakeStorage) -> None:
    seconds, growth = await load_cost(make(str(LARGE)))
    print(f"{name:7} load {LARGE} entries {seconds * 1000:.0f} ms, {growth:.0f} MiB", flush=True)


def in_child(work: Callable[[], None]) -> None:
    """In another process, so that memory of earlier measurements is not used again."""
    if (child := os.fork()) == 0:
        work()
        os._exit(0)
    os.waitpid(child, 0)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        stores: dict[str, MakeStorage] = {
            "memory": lambda name: Storage(MemoryStore(), SoleElection()),
            "sqlite": lambda name: Storage(SqliteStore(Path(folder) / name / "state.db"), SoleElection()),
        }
        cluster = EtcdCluster(Path(folder) / "etcd") if has_etcd() else None
        if cluster is not None:
            cluster.wait_until_healthy()
            stores["etcd"] = lambda name: make_etcd_storage(cluster.location(f"/{name}"), OWN)
        try:
            kept = [asyncio.run(measure(name, make)) for name, make in stores.items()]
            for name in ("sqlite", "etcd"):
                if name in stores:
                    in_child(lambda name=name: asyncio.run(measure_load(name, stores[name])))  # type: ignore[misc]
        finally:
            if cluster is not None:
                cluster.close()
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
