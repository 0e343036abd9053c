"""Several servers share their state in etcd: one leads, another one continues when it is killed.

Needs: etcd.
"""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.cli.connection import commander_hello
from ankaios.middleware.client import connect
from ankaios.middleware.connecting import CannotConnect, ConnectionSettings, NotLeading
from ankaios.middleware.methods import Method
from tests.support.cluster import Cluster
from tests.support.device_manifests import delete, native
from tests.support.shared_state_cluster import SharedStateCluster

LEASE, MARGIN = 2.0, 1.0
SDK = Path(__file__).resolve().parents[2] / ".venv/sdk"


@pytest.fixture
def cluster() -> Iterator[SharedStateCluster]:
    cluster = SharedStateCluster()
    with cluster:
        yield cluster
        delete(cluster, "web", "db")


def manifest(cluster: Cluster, name: str) -> str:
    command = ["sh", "-c", f"echo $$ >> {cluster.folder}/{name}.pids; exec sleep 1000"]
    return json.dumps({"apiVersion": "v1", "workloads": {name: {"agent": "node", **native(command)}}})


def test_another_server_continues_after_the_leader_is_killed(cluster: SharedStateCluster) -> None:
    for name in cluster.ports:
        cluster.launch(name)
    first = cluster.leader()
    cluster.start_agent("node", runtimes=["native"])
    cluster.apply(manifest(cluster, "web"))
    cluster.wait_for("web", "Running(Ok)")

    began = time.monotonic()
    cluster.kill(first)
    cluster.ank("--no-wait", "apply", str(cluster.write("db.yaml", manifest(cluster, "db"))))
    cluster.wait_until("the agent is connected", lambda: "node" in cluster.state("agents").get("agents", {}))
    seconds = time.monotonic() - began
    print(f"failover took {seconds:.2f} s")

    cluster.wait_for("db", "Running(Ok)")
    cluster.wait_for("web", "Running(Ok)")
    (pid,) = map(int, (cluster.folder / "web.pids").read_text().split())
    os.kill(pid, 0)
    servers = cluster.ank("get", "servers").stdout.splitlines()
    assert servers[0].split() == ["NAME", "ROLE", "TERM", "URL", "VERSION", "STORAGE", "REVISION", "LAG"]
    assert [line.split()[1] for line in servers[1:]].count("leader") == 1
    assert "etcd://" in servers[1]
    cluster.wait_until("all members respond", lambda: "3 members respond" in cluster.ank("doctor", check=False).stdout)
    history = cluster.ank("history").stdout
    assert "+web" in history
    assert "+db" in history
    dead = cluster.etcd.members[0]
    dead.kill()
    cluster.wait_until(
        "the dead member is named",
        lambda: f"member '127.0.0.1:{dead.client_port}' does not respond"
        in " ".join(cluster.ank("doctor", check=False).stdout.split()),
    )
    # The limit is lease + 1 s on an idle machine; tests run on busy ones.
    assert seconds < LEASE + MARGIN + 5


FOLLOWER = """
import sys, threading
from ankaios_sdk import Ankaios

def write(name, queue):
    while True:
        with open(sys.argv[1] + name, "a") as file:
            file.write(str(getattr(queue.get(), "message", "event")) + "\\n")

ankaios = Ankaios()
states = ankaios.get_workload_states().get_as_list()
(web,) = [state for state in states if state.workload_instance_name.workload_name == "web"]
logs = ankaios.request_logs([web.workload_instance_name], follow=True)
threading.Thread(target=write, args=("/lines-of-workload", logs.queue), daemon=True).start()
write("/events-of-workload", ankaios.register_event(["desiredState.configs"]))
"""


def followed_workloads(cluster: Cluster) -> str:
    """`web` writes numbered lines on one agent, `db` follows them and the configs from another agent."""
    lines = ["sh", "-c", "n=0; while :; do n=$((n+1)); echo line $n; sleep 0.2; done"]
    follower = [str(SDK / "bin/python"), str(cluster.write("follower.py", FOLLOWER)), str(cluster.folder)]
    rules = [
        {"type": "StateRule", "operation": "Read", "filterMasks": ["workloadStates", "desiredState.configs"]},
        {"type": "LogRule", "workloadNames": ["web"]},
    ]
    db = {"agent": "node", "controlInterfaceAccess": {"allowRules": rules}, **native(follower)}
    return json.dumps({"apiVersion": "v1", "workloads": {"web": {"agent": "far", **native(lines)}, "db": db}})


def test_the_next_server_continues_an_atomic_change(cluster: SharedStateCluster) -> None:
    """The leader is killed while the new workload runs; it fails under the next one, which restores the old one."""
    for name in list(cluster.ports)[:2]:
        cluster.launch(name)
    first = cluster.leader()
    cluster.start_agent("node", runtimes=["native"])
    cluster.apply(manifest(cluster, "web"))
    before = cluster.state("desiredState")
    fails = ["sh", "-c", f"until test -e {cluster.folder}/fail; do sleep 0.1; done; echo no config; exit 3"]
    change = json.dumps({"apiVersion": "v1", "workloads": {"web": {"agent": "node", **native(fails)}}})
    path = cluster.write("change.yaml", change)
    cluster.ank("--no-wait", "apply", "--atomic", "--settle", "2m", str(path))
    cluster.wait_until("the new workload runs", lambda: rollout(cluster)["phase"] == "settling")
    cluster.kill(first)
    assert cluster.leader() != first
    cluster.wait_until("it is monitored again", lambda: rollout(cluster)["phase"] == "settling")
    (cluster.folder / "fail").touch()
    cluster.wait_until("it is restored", lambda: rollout(cluster)["phase"] == "restored")
    assert "workload 'web' on agent 'node' is Failed(ExecFailed): Exit code: '3'" in rollout(cluster)["reason"]
    assert cluster.state("desiredState") == before
    cluster.wait_for("web", "Running(Ok)")
    assert "last output: no config" in cluster.ank("get", "events", "--since", "5m", "web").stdout


def rollout(cluster: Cluster) -> dict[str, str]:
    (found,) = json.loads(cluster.ank("rollout", "status", "-o", "json").stdout)
    return dict(found)


def test_followed_events_and_logs_continue_with_the_next_server(cluster: SharedStateCluster) -> None:
    """For commands and workloads, also if the agent of the followed workload connects later than the follower."""
    for name in list(cluster.ports)[:2]:
        cluster.launch(name)
    first = cluster.leader()
    cluster.start_agent("far", runtimes=["native"])
    cluster.ank("--no-wait", "apply", str(cluster.write("both.yaml", followed_workloads(cluster))))
    cluster.wait_for("web", "Running(Ok)")
    cluster.start_agent("node", runtimes=["native"])
    with (cluster.folder / "events").open("w") as events, (cluster.folder / "lines").open("w") as logs:
        watching = [
            subprocess.Popen(
                cluster.ank_command("get", "events", "-o", "json", "desiredState.configs"),
                env=cluster.environ, stdout=events, stderr=subprocess.DEVNULL,
            ),
            subprocess.Popen(
                cluster.ank_command("logs", "-f", "web"), env=cluster.environ, stdout=logs, stderr=subprocess.DEVNULL
            ),
        ]  # fmt: skip
    outputs = [cluster.folder / name for name in ("lines", "lines-of-workload")]
    try:
        cluster.wait_until("logs arrive", lambda: all(map(last_line, outputs)), 60)
        os.kill(cluster.agents["far"].pid, signal.SIGSTOP)
        cluster.kill(first)
        cluster.leader()
        cluster.wait_until("the follower is back", lambda: "node" in connected(cluster))
        assert "far" not in connected(cluster)
        os.kill(cluster.agents["far"].pid, signal.SIGCONT)
        cluster.wait_until("the other agent is back", lambda: "far" in connected(cluster))
        before = max(map(last_line, outputs))
        cluster.wait_until(
            "logs continue", lambda: all(last_line(path) > before + 3 for path in outputs), 60, lambda: outputs
        )

        def events_arrive() -> bool:
            """The subscription may follow the change, so change it until it is seen."""
            cluster.apply(
                json.dumps({"apiVersion": "v1", "configs": {"c": f"under the next leader {time.monotonic()}"}})
            )
            return (
                "under the next leader" in (cluster.folder / "events").read_text() and seen_by_workload() > seen_before
            )

        def seen_by_workload() -> int:
            path = cluster.folder / "events-of-workload"
            return path.read_text().count("event") if path.exists() else 0

        seen_before = seen_by_workload()
        cluster.wait_until("events continue", events_arrive, 60)
    finally:
        for process in watching:
            process.kill()
            process.wait()


def connected(cluster: Cluster) -> dict[str, object]:
    found: dict[str, object] = cluster.state("agents").get("agents", {})
    return found


def last_line(path: Path) -> int:
    found = path.read_text().splitlines() if path.exists() else []
    return int(found[-1].split()[-1]) if found else 0


async def named_leader(url: str) -> str:
    try:
        async with connect(ConnectionSettings(url), Method.CLI, commander_hello()):
            return "itself"
    except NotLeading as refused:
        return refused.leader
    except CannotConnect:
        return "not started"


def test_a_server_on_standby_names_the_leader(cluster: SharedStateCluster) -> None:
    for name in list(cluster.ports)[:2]:
        cluster.launch(name)
    leader = cluster.leader()
    (standby,) = set(cluster.servers) - {leader}
    standby_url = f"http://127.0.0.1:{cluster.ports[standby]}"
    leader_url = f"http://127.0.0.1:{cluster.ports[leader]}"
    cluster.wait_until("the standby names the leader", lambda: asyncio.run(named_leader(standby_url)) == leader_url)
    command = [*cluster._python, "-m", "ankaios", "-k", "-s", standby_url, "get", "agents"]
    done = subprocess.run(command, env=cluster.environ, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert "NAME" in done.stdout
