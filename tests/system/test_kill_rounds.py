"""The agent is killed at random times of updates: nothing runs twice, no update is lost, no slot is claimed twice.

A process holds a lock while it runs; a second process of the workload would fail to get the lock. After each
round there is one container for each workload. `scripts/kill-rounds agent 200` runs more rounds than the suite.
Needs: podman and root rights for containers, nothing for processes.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.device_manifests import a_cluster, a_user, cameras, joined, native, users
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

ROUNDS = int(os.environ.get("ANKAIOS_KILL_ROUNDS", "3"))
AGENT = "node-a"
LIMIT = 90.0
NAMES = ("one", "two", "three")
LOCK = "exec 9>>{folder}/{name}.lock; flock -n 9 || echo {name} >> {folder}/double; "
SCRIPT = "echo {version} > {folder}/{name}.version; trap 'exit 0' TERM; while :; do sleep 0.05; done"


def a_manifest(runtime: str, folder: Path, version: int) -> str:
    workloads: dict[str, Any] = {}
    for name in NAMES:
        values = {"folder": folder if runtime == "native" else "/shared", "name": name, "version": version}
        script = SCRIPT.format(**values)
        config: dict[str, Any] = {"command": ["sh", "-c", LOCK.format(**values) + script]}
        if runtime == "podman":
            options = ["-v", f"{folder}:/shared", "--network=none"]
            config = {"image": IMAGE, "commandOptions": options, "commandArgs": ["sh", "-c", script]}
        workloads[name] = {"agent": AGENT, "runtime": runtime, "runtimeConfig": json.dumps(config)}
    return json.dumps({"apiVersion": "v1", "workloads": workloads})


def versions(folder: Path) -> set[str]:
    return {(folder / f"{name}.version").read_text().strip() for name in NAMES if (folder / f"{name}.version").exists()}


def wait_for_version(cluster: Cluster, folder: Path, version: str) -> None:
    cluster.wait_until(f"version {version} runs", lambda: versions(folder) == {version}, LIMIT, cluster.states)
    for name in NAMES:
        cluster.wait_until(
            f"{name} runs", lambda name=name: "Running" in states_of(cluster, name), LIMIT, cluster.states
        )


def states_of(cluster: Cluster, workload: str) -> set[str]:
    """Return the states of all instances."""
    found = cluster.state("workloadStates").get("workloadStates", {}).get(AGENT, {}).get(workload, {})
    return {str(state["state"]) for state in found.values()}


def rounds(cluster: Cluster, runtime: str, folder: Path, check: Callable[[], None]) -> None:
    chance = random.Random(ROUNDS)
    cluster.start_server(a_manifest(runtime, folder, 0))
    cluster.start_agent(AGENT, runtimes=[runtime])
    for version in range(1, ROUNDS + 1):
        cluster.ank("--no-wait", "apply", str(cluster.write("next.yaml", a_manifest(runtime, folder, version))))
        time.sleep(chance.uniform(0, 0.6))
        cluster.kill_agent(AGENT)
        cluster.start_agent(AGENT, runtimes=[runtime])
        wait_for_version(cluster, folder, str(version))
        check()
    print(f"{ROUNDS} rounds with {len(NAMES)} workloads of {runtime}: no double start, no lost update")


def test_killed_agents_and_processes(tmp_path: Path) -> None:
    def nothing_ran_twice() -> None:
        assert not (tmp_path / "double").exists(), (tmp_path / "double").read_text()

    with Cluster() as cluster:
        rounds(cluster, "native", tmp_path, nothing_ran_twice)


@pytest.fixture
def podman_cluster(podman_env: PodmanEnv) -> Iterator[Cluster]:  # noqa: F811
    with Cluster(podman_env.environ) as cluster:
        yield cluster
    podman_env.clear()


@needs_podman
def test_killed_agents_and_containers(podman_cluster: Cluster, podman_env: PodmanEnv, tmp_path: Path) -> None:  # noqa: F811
    def there_is_one_container_for_each() -> None:
        names = [each["Labels"]["name"].split(".")[0] for each in podman_env.containers()]
        assert sorted(names) == sorted(NAMES)

    rounds(podman_cluster, "podman", tmp_path, there_is_one_container_for_each)


def test_killed_agents_and_devices() -> None:
    """Two slots and three workloads: at most two of them run, and the slots belong to those that do."""
    chance = random.Random(ROUNDS)
    with a_cluster() as cluster:
        cluster.start_server()
        cluster.start_agent(AGENT, runtimes=["native"])
        for version in range(1, ROUNDS + 1):
            command = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done", str(version)]
            parts = [a_user(name, **native(command)) for name in NAMES]
            manifest = json.dumps(joined(cameras("foo0", capacity=2), *parts))
            cluster.ank("--no-wait", "apply", str(cluster.write("next.yaml", manifest)))
            time.sleep(chance.uniform(0, 0.6))
            cluster.kill_agent(AGENT)
            cluster.start_agent(AGENT, runtimes=["native"])
            cluster.wait_until("two of three run", lambda: holders(cluster) == running(cluster), seconds=90)
    print(f"{ROUNDS} rounds with {len(NAMES)} workloads for 2 slots: no slot was given twice")


def running(cluster: Cluster) -> set[str]:
    found = {name for name, (state, _) in cluster.states().items() if state == "Running(Ok)"}
    assert len(found) <= 2, f"{found} share two slots"
    return found


def holders(cluster: Cluster) -> set[str]:
    found = set(users(cluster).values())
    return found if len(found) == 2 else {"too few"}
