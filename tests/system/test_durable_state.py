"""A server with SQLite that is killed: nothing acknowledged is lost, workloads keep their process ids.

Needs: nothing but the repository.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.device_manifests import delete, native


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster
        delete(cluster, "web", "db")


def storage(cluster: Cluster) -> list[str]:
    return ["--storage", f"sqlite:{cluster.folder}/state.db"]


def workload(cluster: Cluster, name: str, seconds: int = 1000) -> dict[str, Any]:
    command = ["sh", "-c", f"echo $$ >> {cluster.folder}/{name}.pids; exec sleep {seconds}"]
    return {"agent": "node", **native(command)}


def manifest(cluster: Cluster, *names: str, seconds: int = 1000) -> str:
    workloads = {name: workload(cluster, name, seconds) for name in names}
    return json.dumps({"apiVersion": "v1", "workloads": workloads})


def pids(cluster: Cluster, name: str) -> list[int]:
    """Return the ids of all processes that were started for the workload."""
    file = cluster.folder / f"{name}.pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def test_applied_changes_are_kept_after_a_restart_of_the_server_and_workloads_continue(cluster: Cluster) -> None:
    startup = manifest(cluster, "web")
    cluster.start_server(startup, *storage(cluster))
    cluster.start_agent("node", runtimes=["native"])
    cluster.apply(manifest(cluster, "db"))
    for name in ("web", "db"):
        cluster.wait_for(name, "Running(Ok)")

    cluster.kill_server()
    cluster.start_server(startup, *storage(cluster))
    cluster.wait_until("the agent is back", lambda: "node" in cluster.state("agents").get("agents", {}))
    for name in ("web", "db"):
        cluster.wait_for(name, "Running(Ok)")
        (pid,) = pids(cluster, name)
        os.kill(pid, 0)
    assert "The startup manifest is not applied" in cluster.logs()


def test_changes_are_listed_compared_and_reverted(cluster: Cluster) -> None:
    cluster.start_server(manifest(cluster, "web"), *storage(cluster))
    cluster.start_agent("node", runtimes=["native"])
    cluster.wait_for("web", "Running(Ok)")
    cluster.apply(manifest(cluster, "web", seconds=2000))
    cluster.apply(manifest(cluster, "db"))

    lines = cluster.ank("history").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["REVISION", "1", "2", "3"]
    assert "startup manifest" in lines[1]
    assert "+db" in lines[3]
    assert [line.split()[0] for line in cluster.ank("history", "-w", "web").stdout.splitlines()[1:]] == ["1", "2"]
    assert "exec sleep 2000" in cluster.ank("history", "show", "2").stdout
    assert "workload db:" in cluster.ank("diff", "1").stdout
    assert "workload db:" not in cluster.ank("diff", "1", "2").stdout

    path = cluster.write("web.yaml", manifest(cluster, "web", seconds=3000))
    refused = cluster.ank("apply", "--if-revision", "1", str(path), check=False)
    assert refused.returncode == 1
    assert "workload 'web' was changed after revision 1, in revision 2" in refused.stderr

    cluster.ank("rollback", "1")
    cluster.wait_for("web", "Running(Ok)")
    cluster.wait_for("db", "Removed")
    assert "restores revision 1" in cluster.ank("history").stdout
    state = cluster.state("desiredState.workloads")["desiredState"]["workloads"]
    assert "sleep 1000" in state["web"]["runtimeConfig"]
    assert state.keys() == {"web"}


def test_a_lost_database_deletes_no_workload_until_an_operator_confirms(cluster: Cluster) -> None:
    startup = manifest(cluster, "web")
    cluster.start_server(startup, *storage(cluster))
    cluster.start_agent("node", runtimes=["native"])
    cluster.apply(manifest(cluster, "db"))
    cluster.wait_for("db", "Running(Ok)")
    cluster.kill_server()
    for name in ("state.db", "state.db-wal", "state.db-shm", "state.db.copy"):
        (cluster.folder / name).unlink(missing_ok=True)

    for _ in range(2):  # the loss is still known after another restart
        cluster.start_server(startup, *storage(cluster))
        cluster.wait_until("the agent is back", lambda: "node" in cluster.state("agents").get("agents", {}))
        cluster.wait_for("web", "Running(Ok)")
        (pid,) = pids(cluster, "db")
        os.kill(pid, 0)
        assert "is missing" in cluster.ank("get", "servers").stdout
        assert "is missing" in cluster.ank("doctor", check=False).stdout.replace("\n", " ")
        cluster.kill_server()

    cluster.start_server(startup, *storage(cluster), "--accept-loss")
    cluster.wait_until("the unknown workload is deleted", lambda: not is_alive(pid))
    (web,) = pids(cluster, "web")
    os.kill(web, 0)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_backup_of_a_running_server_can_be_restored(cluster: Cluster) -> None:
    cluster.start_server(manifest(cluster, "web"), *storage(cluster))
    cluster.start_agent("node", runtimes=["native"])
    cluster.wait_for("web", "Running(Ok)")
    backup = cluster.folder / "backup.db"
    command = [sys.executable, "-m", "ankaios.server", "backup", str(backup), *storage(cluster)]
    subprocess.run(command, env=cluster.environ, check=True, timeout=60)
    cluster.apply(manifest(cluster, "db"))
    cluster.wait_for("db", "Running(Ok)")
    cluster.kill_server()
    for name in ("state.db-wal", "state.db-shm"):
        (cluster.folder / name).unlink(missing_ok=True)
    backup.replace(cluster.folder / "state.db")
    cluster.start_server(None, *storage(cluster))
    cluster.wait_until("the agent is back", lambda: "node" in cluster.state("agents").get("agents", {}))
    cluster.wait_for("web", "Running(Ok)")
    assert cluster.state("desiredState.workloads")["desiredState"]["workloads"].keys() == {"web"}
    cluster.wait_until("what is not in the backup is deleted", lambda: not is_alive(pids(cluster, "db")[0]))
