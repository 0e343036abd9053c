"""Damages the files of a server and of an agent at each byte: benchmarks/damaged_files.py [STEP] [SAMPLES]

1. The database, its WAL, its copy and the file with the last commit are truncated at every STEP-th byte (default 1:
   every byte), and one bit is flipped at the same positions. Each time a store is opened in this process: it must have
   the state of a revision, report everything that is lost, and accept commits.
2. The state file and a claim file of an agent in the same way: a damaged file is ignored.
3. SAMPLES times (default 6) real processes start with damaged files: the server responds and reports the loss in its
   log, the agent connects to it.
"""

import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ankaios.agent.offline_store import OfflineStore
from ankaios.common.workload import InstanceName
from ankaios.devices.claim_store import Allocation, ClaimRecord, ClaimStore
from tests.integration.storage.sqlite_states import COPY, DATABASE, HEAD, WAL, Files, Machine, files_in, files_with
from tests.integration.storage.test_sqlite_damage import check_start
from tests.support.cluster import Cluster
from tests.support.device_manifests import native

IN_DATABASE, IN_WAL = 2, 2


def damages(data: bytes, step: int) -> Iterator[bytes]:
    for position in range(0, len(data), step):
        yield data[:position]
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        yield bytes(flipped)


def check_store(folder: Path, step: int) -> None:
    """In memory, because each start writes to the disk."""
    intact = asyncio.run(files_with(folder / "origin", IN_DATABASE, IN_WAL))
    machine = Machine(folder / "machine")
    for name in (DATABASE, WAL, HEAD, COPY):
        began, starts, reports, losses = time.monotonic(), 0, 0, 0
        for data in damages(intact[name], step):
            opened = check_start(machine, {**intact, name: data}, IN_DATABASE + IN_WAL)
            starts += 1
            reports += opened.report is not None
            losses += opened.report is not None and bool(opened.report.lost)
        seconds = time.monotonic() - began
        print(f"{name}: {len(intact[name])} bytes, {starts} starts in {seconds:.0f} s,", end=" ")
        print(f"{reports} reported, {losses} with a loss", flush=True)


def check_agent(folder: Path, state: bytes, step: int) -> None:
    store = OfflineStore(folder / "agent", "node")
    (folder / "agent").mkdir(mode=0o700)
    store.path.write_bytes(state)
    store.path.chmod(0o600)
    assert store.load() is not None
    starts = 0
    for data in damages(state, step):
        store.path.write_bytes(data)
        assert store.load() is None, "a damaged state was used"
        starts += 1
    print(f"{store.path.name}: {len(state)} bytes, {starts} starts, all reported", flush=True)
    claims = ClaimStore(folder / "devices")
    assert list(claims.load()) == []
    claims.save(ClaimRecord(str(InstanceName("web", "id", "node")), (Allocation("camera", None, ("a",)),)))
    (path,) = (folder / "devices/claims").iterdir()
    intact, starts, kept = path.read_bytes(), 0, 0
    for data in damages(intact, step):
        path.write_bytes(data)
        kept += len(list(claims.load()))
        starts += 1
    # A record without its last byte, a newline, is complete.
    assert kept <= 1, f"{kept} damaged claims were used"
    print(f"claims: {len(intact)} bytes, {starts} starts, {starts - kept} reported", flush=True)


def real_files(cluster: Cluster) -> tuple[Files, bytes]:
    """The files that a killed server and agent leave."""
    storage = ("--storage", f"sqlite:{cluster.folder / DATABASE}")
    cluster.start_server(None, *storage)
    cluster.start_agent("node", "--state-dir", str(cluster.folder / "agent"), runtimes=["native"])
    for name in ("web", "db"):
        form = {"agent": "node", **native(["sleep", "100000"])}
        cluster.apply(json.dumps({"apiVersion": "v1", "workloads": {name: form}}))
        cluster.wait_for(name, "Running(Ok)")
    path = cluster.folder / "agent/node.state"
    cluster.wait_until("the state is stored", lambda: path.exists() and b'"db"' in path.read_bytes())
    cluster.kill_server()
    cluster.kill_agent("node")
    return files_in(cluster.folder), path.read_bytes()


def check_processes(cluster: Cluster, files: Files, state: bytes, samples: int) -> None:
    """Damaged files of both; the server must report what is missing."""
    path, log = cluster.folder / "agent/node.state", cluster.folder / "server.log"
    for _ in range(samples):
        for old in cluster.folder.glob(f"{DATABASE}*"):
            old.unlink()
        for name, data in files.items():
            (cluster.folder / name).write_bytes(data)
        name = random.choice([DATABASE, WAL])
        (cluster.folder / name).write_bytes(random.choice(list(damages(files[name], random.randrange(50, 500)))))
        path.write_bytes(random.choice(list(damages(state, 7))))
        log.write_text("")
        cluster.start_server(None, "--storage", f"sqlite:{cluster.folder / DATABASE}")
        cluster.start_agent("node", "--state-dir", str(cluster.folder / "agent"), runtimes=["native"])
        workloads = cluster.state("desiredState.workloads").get("desiredState", {}).get("workloads", {})
        is_reported = "The stored state was damaged" in log.read_text()
        assert is_reported or set(workloads) == {"web", "db"}, "lost without a report"
        assert "is ignored" in (cluster.folder / "node.log").read_text()
        result = "reported" if is_reported else "intact"
        print(f"processes with a damaged {name}: {sorted(workloads)}, {result}", flush=True)
        cluster.kill_server()
        cluster.kill_agent("node")


def main() -> None:
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    samples = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    logging.disable(logging.WARNING)
    with Cluster() as cluster:
        files, state = real_files(cluster)
        check_processes(cluster, files, state, samples)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        check_agent(Path(folder), state, step)
        check_store(Path(folder), step)
    print("ok")


if __name__ == "__main__":
    main()
