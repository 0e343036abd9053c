"""A node starts its workloads without a server after a power failure.

Needs: nothing but the repository; the agents and the processes are real.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.agent.core.offline_state import decode_offline_state
from ankaios.common.execution_state import RUNNING_OK, ExecutionState
from tests.support.cluster import Cluster
from tests.support.device_manifests import a_cluster, a_user, apply, cameras
from tests.support.leftovers import end_native_workloads

MANIFEST = """
apiVersion: v1
workloads:
  db: {agent: A, runtime: native, runtimeConfig: 'command: [sleep, "1001"]'}
  web:
    agent: A
    runtime: native
    dependencies: {db: ADD_COND_RUNNING}
    runtimeConfig: 'command: [sleep, "1002"]'
  far: {agent: B, runtime: native, runtimeConfig: 'command: [sleep, "1003"]'}
  near:
    agent: A
    runtime: native
    dependencies: {far: ADD_COND_RUNNING}
    runtimeConfig: 'command: [sleep, "1004"]'
  never:
    agent: A
    runtime: native
    dependencies: {far: ADD_COND_FAILED}
    runtimeConfig: 'command: [sleep, "1005"]'
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


def launch(cluster: Cluster, *more: str, after: int = 1) -> None:
    config = cluster.write("offline.conf", f"version = 'v1'\nruntimes = ['native']\noffline_start_after = {after}\n")
    cluster.launch_agent("A", "--agent-config", str(config), *more)


def state_file(cluster: Cluster) -> Path:
    return cluster.folder / "state" / "A.state"


def is_stored(cluster: Cluster, *names: bytes) -> bool:
    """The file may not exist yet: the agent writes it after it has reported the states."""
    path = state_file(cluster)
    return path.exists() and all(name in path.read_bytes() for name in names)


def stored_states(cluster: Cluster) -> dict[str, ExecutionState]:
    """The states of the workloads of other agents."""
    path = state_file(cluster)
    states = decode_offline_state(path.read_bytes(), "A").states if path.exists() else ()
    return {it.name.workload: it.state for it in states}


def running(cluster: Cluster) -> dict[str, int]:
    """The process of each native workload of agent A."""
    found = {}
    for path in (cluster.folder / "run" / "A_native").glob("*/process"):
        pid = int(path.read_text().split()[0])
        if Path(f"/proc/{pid}").exists():
            found[path.parent.name.partition(".")[0]] = pid
    return found


def start_time(pid: int) -> int:
    """In ticks since the start of the machine."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def cut_the_power(cluster: Cluster) -> None:
    """Server, agents and workloads end immediately, and the content of the run folder is lost."""
    cluster.kill_server()
    for name in list(cluster.agents):
        cluster.kill_agent(name)
    end_native_workloads(cluster.folder / "run")
    for path in sorted((cluster.folder / "run").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def begin(cluster: Cluster) -> None:
    cluster.start_server(MANIFEST)
    launch(cluster, "--state-dir", str(cluster.folder / "state"))
    cluster.start_agent("B", runtimes=["native"])
    for name in ("db", "web", "far", "near"):
        cluster.wait_for(name, "Running(Ok)")
    cluster.wait_until("the state of 'far' is stored", lambda: stored_states(cluster) == {"far": RUNNING_OK})


def test_workloads_start_without_a_server_and_are_kept_when_it_returns(cluster: Cluster) -> None:
    begin(cluster)
    cut_the_power(cluster)
    launch(cluster, "--state-dir", str(cluster.folder / "state"))
    cluster.wait_until("all that may run does", lambda: set(running(cluster)) == {"db", "web", "near"})
    before = running(cluster)
    assert start_time(before["db"]) < start_time(before["web"])
    cluster.start_server(MANIFEST)
    for name in before:
        cluster.wait_for(name, "Running(Ok)")
    cluster.wait_for("never", "Pending(WaitingToStart)")
    assert running(cluster) == before
    assert oct(state_file(cluster).stat().st_mode & 0o777) == "0o600"
    cluster.ank("delete", "workload", "web")
    cluster.wait_until("the deletion is stored", lambda: b'"web"' not in state_file(cluster).read_bytes())


def test_a_damaged_state_file_does_not_prevent_the_start(cluster: Cluster) -> None:
    begin(cluster)
    cut_the_power(cluster)
    damaged = bytearray(state_file(cluster).read_bytes())
    damaged[len(damaged) // 2] ^= 4
    state_file(cluster).write_bytes(damaged)
    launch(cluster, "--state-dir", str(cluster.folder / "state"))
    log = cluster.folder / "A.log"
    cluster.wait_until("it is reported", lambda: "A.state' is ignored: it is damaged" in log.read_text())
    cluster.start_server(MANIFEST)
    cluster.wait_for("web", "Running(Ok)")


def test_without_a_state_folder_nothing_is_started(cluster: Cluster) -> None:
    """As in Ankaios: the agent waits for its server."""
    begin(cluster)
    cut_the_power(cluster)
    launch(cluster, after=0)
    log = cluster.folder / "A.log"
    cluster.wait_until("it has no server", lambda: "Connection refused" in log.read_text())
    assert running(cluster) == {}
    assert cluster.kill_agent("A", signal.SIGTERM) == 0
    assert "stored workloads" not in log.read_text()


def test_a_shared_device_is_used_without_a_server_only_by_the_workload_that_had_claimed_it() -> None:
    """The workload that waits for the device still waits: its slot may be in use on another node."""
    with a_cluster(shared=True) as cluster:
        cluster.start_server()
        launch(cluster, "--state-dir", str(cluster.folder / "state"))
        apply(cluster, cameras("foo0", capacity=1), a_user("first", agent="A"))
        cluster.wait_for("first", "Running(Ok)")
        apply(cluster, a_user("second", agent="A"))
        cluster.wait_for("second", "Pending(WaitingToStart)")
        cluster.wait_until("both are stored", lambda: is_stored(cluster, b"first", b"second"))
        cut_the_power(cluster)
        launch(cluster, "--state-dir", str(cluster.folder / "state"))
        cluster.wait_until("the first one runs", lambda: set(running(cluster)) == {"first"})
        log = cluster.folder / "A.log"
        assert "starting 2 stored workloads" in log.read_text()
        assert set(running(cluster)) == {"first"}
