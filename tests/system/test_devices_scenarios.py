"""Devices of a real cluster: shared by workloads and nodes, lost and found, with processes that crash.

Needs: nothing but the repository.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.device_manifests import (
    CONFIGURATION,
    FOO0,
    FOO1,
    SLEEP,
    a_cluster,
    a_user,
    apply,
    availability,
    cameras,
    delete,
    instances,
    joined,
    native,
    usage,
    users,
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with a_cluster() as cluster:
        yield cluster
        for name in list(cluster.states()):
            delete(cluster, name)


def started(cluster: Cluster, *agents: str) -> Cluster:
    cluster.start_server()
    for agent in agents:
        cluster.start_agent(agent, runtimes=["native"])
    return cluster


def running(cluster: Cluster) -> set[str]:
    return {name for name, (state, _) in cluster.states().items() if state == "Running(Ok)"}


def placed(name: str, quantity: int = 1, **more: Any) -> dict[str, Any]:
    return a_user(name, quantity, agent="", placement={}, **more)


def test_two_replicas_of_two_cameras_each_share_two_cameras(cluster: Cluster) -> None:
    """The deployment of the design: pending while there is one camera, running when there are two.

    [stest->akri~replicas-spread-over-devices~1]
    """
    started(cluster, "node-a")
    apply(cluster, cameras("foo0", capacity=2), a_user("replica-0", 2), a_user("replica-1", 2))
    why = ("Pending(WaitingToStart)", f"waits for 2 x akri.sh/{CONFIGURATION}, 1 visible")
    cluster.wait_until("both wait", lambda: cluster.states() == {"replica-0": why, "replica-1": why})
    apply(cluster, cameras("foo0", "foo1", capacity=2))
    for name in ("replica-0", "replica-1"):
        cluster.wait_for(name, "Running(Ok)")
    shared = users(cluster)
    assert sorted(shared) == [f"{FOO0}-0", f"{FOO0}-1", f"{FOO1}-0", f"{FOO1}-1"]
    for camera in (FOO0, FOO1):
        assert {shared[f"{camera}-0"], shared[f"{camera}-1"]} == {"replica-0", "replica-1"}


def test_a_shared_camera_has_one_user_in_the_whole_cluster(cluster: Cluster) -> None:
    """[stest->akri~replicas-spread-over-devices~1] [stest->akri~denied-workload-waits-and-recovers~1]"""
    started(cluster, "node-a", "node-b")
    apply(cluster, cameras("foo0", capacity=1), a_user("first", agent="node-a"))
    cluster.wait_for("first", "Running(Ok)")
    apply(cluster, a_user("second", agent="node-b"))
    waiting = ("Pending(WaitingToStart)", f"waits for 1 x akri.sh/{CONFIGURATION}, 1 visible, 0 free")
    cluster.wait_until("the second one waits", lambda: cluster.state_of("second") == waiting)
    assert usage(cluster) == {f"{FOO0}-0": "C:0:node-a"}
    delete(cluster, "first")
    cluster.wait_for("second", "Running(Ok)")
    assert usage(cluster) == {f"{FOO0}-0": "C:0:node-b"}


def test_the_camera_of_an_ended_workload_is_granted_to_the_next(cluster: Cluster) -> None:
    """Delete and re-create at capacity 1 never shows a failed start. [stest->akri~workload-requests-resources~1]"""
    started(cluster, "node-a")
    short = native(["sh", "-c", "sleep 0.3"])
    apply(cluster, cameras("foo0", capacity=1), a_user("job", **short))
    cluster.wait_for("job", "Succeeded(Ok)")
    cluster.wait_until("the camera is free", lambda: usage(cluster) == {f"{FOO0}-0": ""})
    apply(cluster, a_user("next"))
    cluster.wait_for("next", "Running(Ok)")
    for number in range(4):
        apply(cluster, a_user("next", **native([*SLEEP, str(number)])))
        cluster.wait_until("the new one runs", lambda: running(cluster) == {"next"} and len(users(cluster)) == 1)
    events = (cluster.folder / "node-a.log").read_text()
    assert "StartingFailed" not in events


def test_claims_are_kept_after_crashes_of_agent_and_server(cluster: Cluster) -> None:
    """kill -9 of server or agent: a workload keeps its camera, and no other workload gets it."""
    started(cluster, "node-a", "node-b")
    apply(cluster, cameras("foo0", capacity=1), a_user("first", agent="node-a"), a_user("second", agent="node-b"))
    cluster.wait_until("one of them runs", lambda: len(running(cluster)) == 1)
    before = usage(cluster)
    holder = next(iter(running(cluster)))
    node = {"first": "node-a", "second": "node-b"}[holder]
    cluster.kill_agent(node)
    cluster.start_agent(node, runtimes=["native"])
    cluster.wait_for(holder, "Running(Ok)")
    assert usage(cluster) == before
    cluster.kill_server()
    parts = (cameras("foo0", capacity=1), a_user("first", agent="node-a"), a_user("second", agent="node-b"))
    manifest = joined(*parts)
    cluster.start_server(json.dumps(manifest))
    cluster.wait_until("both agents are back", lambda: len(cluster.state("agents").get("agents", {})) == 2)
    cluster.wait_for(holder, "Running(Ok)")
    cluster.wait_until("the camera is known again", lambda: usage(cluster) == before)
    assert running(cluster) == {holder}


def test_slots_of_a_workload_that_vanished_with_its_agent_are_freed(cluster: Cluster) -> None:
    """The container is removed and the workload is deleted while the agent does not run.

    [stest->akri~reconciler-frees-unused-slots~1]
    """
    started(cluster, "node-a")
    pid_file = cluster.folder / "pid"
    command = ["sh", "-c", f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000"]
    apply(cluster, cameras("foo0", capacity=1), a_user("gone", **native(command)))
    cluster.wait_for("gone", "Running(Ok)")
    cluster.wait_until("the workload has written its process id", pid_file.exists)
    cluster.kill_agent("node-a")
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    cluster.ank("--no-wait", "delete", "workload", "gone")
    cluster.start_agent("node-a", runtimes=["native"])
    cluster.wait_until("the slot is free", lambda: usage(cluster) == {f"{FOO0}-0": ""}, seconds=60)


def test_a_camera_that_flaps_does_not_affect_others(cluster: Cluster) -> None:
    started(cluster, "node-a")
    apply(cluster, cameras("foo0", capacity=1, offlineGraceSeconds=60), a_user("web"))
    cluster.wait_for("web", "Running(Ok)")
    before = usage(cluster)

    def online() -> bool:
        attributes = cluster.state("deviceInstances")["deviceInstances"][FOO0]["attributes"]
        return bool(attributes["online"])

    availability(cluster).write_text("OFFLINE")
    cluster.wait_until("it is offline", lambda: not online())
    assert usage(cluster) == before
    availability(cluster).unlink()
    cluster.wait_until("it is back", online)
    assert usage(cluster) == before
    assert running(cluster) == {"web"}


@pytest.mark.parametrize(("policy", "left"), [("keep", {"web"}), ("stop", set()), ("restart", set())])
def test_a_workload_that_loses_its_camera_does_as_configured(cluster: Cluster, policy: str, left: set[str]) -> None:
    started(cluster, "node-a")
    settings = {"capacity": 1, "offlineGraceSeconds": 0, "onDeviceLost": policy}
    apply(cluster, cameras("foo0", **settings), a_user("web"))  # type: ignore[arg-type]
    cluster.wait_for("web", "Running(Ok)")
    availability(cluster).write_text("OFFLINE")
    if left:
        reason = f"its device '{FOO0}' is lost since 20"
        cluster.wait_until("its state names the camera", lambda: cluster.state_of("web")[1].startswith(reason))
        assert "node-a (lost)" in cluster.ank("get", "devices").stdout
        for command in (["describe", "workload", "web"], ["why", "web"]):
            assert reason in " ".join(cluster.ank(*command).stdout.split())
        assert ", since 20" in cluster.ank("describe", "device", FOO0).stdout
    else:
        cluster.wait_until("the camera is gone", lambda: not instances(cluster))
    cluster.wait_until("the workload did as configured", lambda: running(cluster) == left)
    if not left:
        assert cluster.wait_for("web", "Pending(WaitingToStart)")
    availability(cluster).unlink()
    cluster.wait_for("web", "Running(Ok)")
    cluster.wait_until("it has its camera again", lambda: set(users(cluster).values()) == {"web"})


def test_the_server_places_workloads_where_the_devices_are(cluster: Cluster) -> None:
    """[stest->akri~replicas-spread-over-devices~1]"""
    cluster.environ["DEBUG_ECHO_INSTANCES_SHARED"] = "false"
    started(cluster, "node-a", "node-b")
    apply(cluster, cameras("foo0", capacity=1), placed("one"), placed("two"), placed("three"))
    cluster.wait_until("two of them run", lambda: len(running(cluster)) == 2)
    owners = cluster.state("deviceInstances")["deviceInstances"]
    assert {instance["nodes"][0] for instance in owners.values()} == {"node-a", "node-b"}
    (waiting,) = {"one", "two", "three"} - running(cluster)
    reason = ("NotScheduled", f"no agent has enough free devices for 1 x akri.sh/{CONFIGURATION}")
    cluster.wait_until("the third reports why it waits", lambda: cluster.state_of(waiting) == reason)
    ended = next(iter(running(cluster)))
    delete(cluster, ended)
    cluster.wait_for(waiting, "Running(Ok)")


def a_broker(strategy: str, **more: Any) -> dict[str, Any]:
    return {"broker": {"strategy": strategy, "workload": native(), **more}}


def test_every_node_that_sees_a_camera_has_a_broker_until_the_camera_vanishes(cluster: Cluster) -> None:
    """[stest->akri~broker-per-node~1] [stest->akri~broker-removed-with-device~1]"""
    started(cluster, "node-a", "node-b")
    apply(cluster, cameras("foo0", "foo1", capacity=2, offlineGraceSeconds=0, **a_broker("perNode")))
    expected = {f"{camera}-broker-{node}" for camera in (FOO0, FOO1) for node in ("node-a", "node-b")}
    cluster.wait_until("all brokers run", lambda: running(cluster) == expected)
    _, *rows = cluster.ank("get", "workloads").stdout.splitlines()
    assert {tuple(row.split()[:3:2]) for row in rows} == {(name, "native") for name in expected}
    assert users(cluster).keys() == {f"{camera}-{index}" for camera in (FOO0, FOO1) for index in (0, 1)}
    apply(cluster, cameras("foo1", capacity=2, offlineGraceSeconds=0, **a_broker("perNode")))
    left = {f"{FOO1}-broker-node-a", f"{FOO1}-broker-node-b"}
    cluster.wait_until("brokers of the vanished camera are removed", lambda: cluster.states().keys() == left)
    apply(cluster, cameras("foo1", capacity=2, offlineGraceSeconds=0))
    cluster.wait_until("no broker is left", lambda: not cluster.states())


def test_every_camera_gets_one_job(cluster: Cluster) -> None:
    """[stest->akri~broker-job-per-device~1] [stest->akri~broker-removed-with-device~1]"""
    started(cluster, "node-a", "node-b")
    job: dict[str, Any] = {"broker": {"strategy": "perDevice", "workload": native(["sh", "-c", "sleep 0.2"])}}
    apply(cluster, cameras("foo0", "foo1", capacity=1, offlineGraceSeconds=0, **job))
    for name in (f"{FOO0}-job", f"{FOO1}-job"):
        cluster.wait_for(name, "Succeeded(Ok)")
    cluster.wait_until("the cameras are free again", lambda: not users(cluster))
    availability(cluster).write_text("OFFLINE")
    cluster.wait_until("jobs of the vanished cameras are removed", lambda: not cluster.states())


def test_replicas_use_any_available_cameras(cluster: Cluster) -> None:
    """[stest->akri~broker-on-configuration-level~1] [stest->akri~broker-removed-with-device~1]"""
    started(cluster, "node-a", "node-b")
    broker = a_broker("perConfiguration", replicas=3)
    apply(cluster, cameras("foo0", "foo1", capacity=1, offlineGraceSeconds=0, **broker))
    names = {f"{CONFIGURATION}-broker-{number}" for number in range(2)}
    cluster.wait_until("two replicas run", lambda: running(cluster) == names)
    assert set(users(cluster).values()) == names
    apply(cluster, cameras("foo1", capacity=1, offlineGraceSeconds=0, **broker))
    cluster.wait_until(
        "one replica is left and has the other camera",
        lambda: cluster.states().keys() == running(cluster) == {f"{CONFIGURATION}-broker-0"}
        and users(cluster) == {f"{FOO1}-0": f"{CONFIGURATION}-broker-0"},
    )
    availability(cluster).write_text("OFFLINE")
    cluster.wait_until("none is left", lambda: not cluster.states())


def test_commands_show_devices_and_what_a_workload_waits_for(cluster: Cluster) -> None:
    started(cluster, "node-a")
    apply(cluster, cameras("foo0", "foo1", capacity=2), a_user("web", 2))
    cluster.wait_for("web", "Running(Ok)")
    listed = cluster.ank("get", "devices").stdout
    assert all(word in listed for word in (FOO0, FOO1, CONFIGURATION, "node-a", "web"))
    assert f"akri.sh/{CONFIGURATION}" in cluster.ank("get", "resources").stdout
    assert f"{FOO0}-0" in cluster.ank("describe", "device", FOO0).stdout
    apply(cluster, a_user("large", 3))
    cluster.wait_for("large", "Pending(WaitingToStart)")
    assert f"waits for 3 x akri.sh/{CONFIGURATION}, 2 visible" in cluster.ank("get", "workloads").stdout


def test_a_workload_reads_its_devices_from_a_file(cluster: Cluster, tmp_path: Path) -> None:
    started(cluster, "node-a")
    copy = tmp_path / "copy.json"
    script = f'cp "$ANKAIOS_DEVICES_FILE" {copy}.new; mv {copy}.new {copy}; while :; do sleep 0.1; done'
    apply(cluster, cameras("foo0"), a_user("web", **native(["sh", "-c", script])))
    cluster.wait_until("the workload has read it", copy.exists)
    content = json.loads(copy.read_text())
    assert content["environment"]["DEBUG_ECHO_DESCRIPTION"] == "foo0"
    assert content["resources"][0]["devices"][0]["instance"] == FOO0
