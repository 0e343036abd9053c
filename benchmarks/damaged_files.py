"""Damages the files of a server and of an agent at each byte.

    benchmarks/damaged_files.py [--step N] [--samples N] [PART ...]

Each file is truncated at every N-th byte (default 1: every byte), and bits are flipped at the same positions. Parts:

- `processes`: real processes start with damaged files, as many times as `--samples` for each kind of file. The server
  responds and reports the loss in its log, the agent connects to it, and each workload runs once.
- `agent`: all files that a real agent left in its state folder and its run folder are read in this process. Each file
  with a checksum is used unchanged or reported.
- `state.db`, `state.db-wal`, `state.db.head`, `state.db.copy`: a store is opened in this process. It must have the
  state of a revision, report everything that is lost, and accept commits.
"""

import argparse
import asyncio
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ankaios.agent.agent_records import RecordFile
from ankaios.agent.offline_store import OfflineStore
from ankaios.devices.checked_file import read_checked
from ankaios.devices.claim_store import ClaimStore
from ankaios.runtimes.native.processes import NativeFolder
from tests.integration.storage.sqlite_states import COPY, DATABASE, HEAD, WAL, Files, Machine, files_in, files_with
from tests.integration.storage.test_sqlite_damage import check_start
from tests.support.cluster import Cluster
from tests.support.device_manifests import a_cluster, a_user, apply, cameras, native

IN_DATABASE, IN_WAL = 2, 2
STORE_PARTS = (DATABASE, WAL, HEAD, COPY)
PARTS = ("processes", "agent", *STORE_PARTS)
AGENT = "node"
LIMIT = 60.0
ALL_BITS = range(8)


def damages(data: bytes, step: int, bits: range | None = None) -> Iterator[bytes]:
    """Flip one bit for each position, or each of `bits`."""
    for position in range(0, len(data), step):
        yield data[:position]
        for bit in bits or (position % 8,):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            yield bytes(flipped)


class WarningCounter(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        record.getMessage()
        self.count += 1


# --- the store of the server


def check_store(folder: Path, name: str, step: int) -> None:
    """In memory, because each start writes to the disk."""
    intact = asyncio.run(files_with(folder / "origin", IN_DATABASE, IN_WAL))
    machine = Machine(folder / "machine")
    began, starts, reports, losses = time.monotonic(), 0, 0, 0
    for data in damages(intact[name], step):
        opened = check_start(machine, {**intact, name: data}, IN_DATABASE + IN_WAL)
        starts += 1
        reports += opened.report is not None
        losses += opened.report is not None and bool(opened.report.lost)
    seconds = time.monotonic() - began
    print(f"{name}: {len(intact[name])} bytes, {starts} starts in {seconds:.0f} s,", end=" ")
    print(f"{reports} reported, {losses} with a loss", flush=True)
    shutil.rmtree(folder / "origin")


# --- the files of the agent


def read_agent_file(path: Path) -> object:
    """Read the file as a starting agent does."""
    if path.suffix == ".state":
        return OfflineStore(path.parent, AGENT).load()
    if path.parent.name.endswith("claims"):
        return list(ClaimStore(path.parents[1] / "other", path.parent).load())
    if path.name == "records":
        return list(RecordFile(path).read())
    return read_checked(path, object)


def read_native_folder(path: Path) -> object:
    """Files of a process have no checksum: the workload is then considered as ended or lost."""
    folder = NativeFolder(path.parent)
    assert {Path(cgroup).name.partition(".")[2] for cgroup in folder.cgroups()} <= {folder.path.name}
    return folder.state(), folder.starter(), folder.mount_points()


def check_agent_file(path: Path, name: str, step: int, read: Callable[[Path], object]) -> None:
    """Every damage is reported, or changes nothing."""
    intact, warnings = path.read_bytes(), WarningCounter()
    logging.getLogger().addHandler(warnings)
    expected, results = read(path), Counter[str]()
    assert warnings.count == 0, "the intact file was reported"
    for data in damages(intact, step, ALL_BITS):
        path.write_bytes(data)
        before = warnings.count
        found = read(path)
        results["reported" if warnings.count > before else "unchanged" if found == expected else "different"] += 1
    logging.getLogger().removeHandler(warnings)
    path.write_bytes(intact)
    if read is read_native_folder:
        results = Counter(read=results.total())
    counts = ", ".join(f"{count} {result}" for result, count in sorted(results.items()))
    print(f"{name}: {len(intact)} bytes, {results.total()} starts, {counts}", flush=True)
    # A file of records that ends after a complete line is the file of an earlier time.
    assert results["different"] <= (intact.count(b"\n") if path.name == "records" else 0), "a damaged file was used"


def check_agent(folder: Path, files: Files, step: int) -> None:
    for name, data in sorted(files.items()):
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)
    for name in sorted(files):
        if "_native/" in name:
            check_agent_file(folder / name, name, step, read_native_folder)
        elif "/devices/files/" not in name and not name.endswith("lock"):
            check_agent_file(folder / name, name, step, read_agent_file)


# --- real processes


def start(cluster: Cluster) -> None:
    cluster.start_server(None, "--storage", f"sqlite:{cluster.folder / DATABASE}")
    cluster.start_agent(AGENT, "--state-dir", str(cluster.folder / "state"), runtimes=["native"])


def kill(cluster: Cluster) -> None:
    cluster.kill_server()
    cluster.kill_agent(AGENT)


def agent_files(cluster: Cluster) -> Files:
    found = [path for name in ("state", "run") for path in (cluster.folder / name).rglob("*") if path.is_file()]
    return {str(path.relative_to(cluster.folder)): path.read_bytes() for path in found}


def real_files(cluster: Cluster) -> tuple[Files, Files]:
    """The files that a killed server and agent leave."""
    start(cluster)
    apply(cluster, cameras("foo0", capacity=2), a_user("web", agent=AGENT))
    form = {"agent": AGENT, **native(["sleep", "100000"])}
    cluster.apply(json.dumps({"apiVersion": "v1", "workloads": {"db": form}}))
    for name in ("web", "db"):
        cluster.wait_for(name, "Running(Ok)")
    path = cluster.folder / f"state/{AGENT}.state"
    cluster.wait_until("the state is stored", lambda: path.exists() and b'"db"' in path.read_bytes())
    kill(cluster)
    return files_in(cluster.folder), agent_files(cluster)


def restore(cluster: Cluster, store: Files, agent: Files) -> None:
    for old in cluster.folder.glob(f"{DATABASE}*"):
        old.unlink()
    for name, data in {**store, **{name: data for name, data in agent.items() if name.startswith("state/")}}.items():
        (cluster.folder / name).write_bytes(data)


def check_processes(cluster: Cluster, store: Files, agent: Files, samples: int) -> None:
    """Damage one file of the server and one of the agent; the server must report what is missing."""
    log = cluster.folder / "server.log"
    # Files of native workloads are left out: they belong to processes of an earlier sample.
    of_agent = [name for name in sorted(agent) if name.startswith("state/") or name.endswith("/records")]
    for number in range(samples * len(of_agent)):
        restore(cluster, store, agent)
        first, second = random.choice([DATABASE, WAL, COPY, HEAD]), of_agent[number % len(of_agent)]
        for name, data in ((first, store[first]), (second, agent[second])):
            (cluster.folder / name).write_bytes(random.choice(list(damages(data, max(1, len(data) // 200)))))
        log.write_text("")
        start(cluster)
        found = cluster.state("desiredState.workloads").get("desiredState", {}).get("workloads", {})
        is_reported = "The stored state was damaged" in log.read_text()
        assert is_reported or set(found) == {"web", "db"}, "lost without a report"
        for name in sorted(found):
            cluster.wait_for(name, "Running(Ok)")
        result = "reported" if is_reported else "intact"
        print(f"processes with a damaged {first} and {second}: {sorted(found)} run, {result}", flush=True)
        kill(cluster)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="default: all")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--samples", type=int, default=3)
    chosen = parser.parse_args()
    parts = chosen.parts or PARTS
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown part {sorted(unknown)[0]}; known are {', '.join(PARTS)}")
    logging.getLogger().addHandler(logging.NullHandler())
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        if {"processes", "agent"} & set(parts):
            with a_cluster(shared=True) as cluster:
                store, agent = real_files(cluster)
                if "processes" in parts:
                    check_processes(cluster, store, agent, chosen.samples)
            if "agent" in parts:
                check_agent(Path(folder), agent, chosen.step)
        for name in STORE_PARTS:
            if name in parts:
                check_store(Path(folder), name, chosen.step)
    print("ok")


if __name__ == "__main__":
    main()
