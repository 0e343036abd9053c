"""The walk-through of the design "Configuration-level Resources", with real processes and a real podman.

The cameras are simulated; they have the names of the design, because the hashes depend on them.
Needs: podman and root rights.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.device_manifests import (
    CONFIGURATION,
    FOO0,
    FOO1,
    a_cluster,
    apply,
    cameras,
    delete,
    resources,
    usage,
)
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

pytestmark = needs_podman

SCRIPT = 'env; cat "$ANKAIOS_DEVICES_FILE"; trap "exit 0" TERM; while :; do sleep 0.1; done'


@pytest.fixture
def cluster(podman_env: PodmanEnv) -> Iterator[Cluster]:  # noqa: F811
    with a_cluster(podman_env.environ) as cluster:
        yield cluster
    podman_env.clear()


def a_pod(name: str, quantity: int, resource: str = CONFIGURATION) -> dict[str, Any]:
    config = f"image: {IMAGE}\ncommandArgs: {json.dumps(['sh', '-c', SCRIPT])}"
    workload = {
        "agent": "node-a",
        "runtime": "podman",
        "runtimeConfig": config,
        "resources": [{"name": f"akri.sh/{resource}", "quantity": quantity}],
    }
    return {"workloads": {name: workload}}


def container(env: PodmanEnv, name: str) -> dict[str, Any]:
    (found,) = [each for each in env.containers() if each["Labels"]["name"].startswith(f"{name}.")]
    inspected: dict[str, Any] = json.loads(env.podman("inspect", found["Id"]))[0]
    return inspected


def test_the_walk_through_of_the_design(cluster: Cluster, podman_env: PodmanEnv) -> None:  # noqa: F811
    """[stest->akri~instance-level-resource~1]
    [stest->akri~configuration-level-resource~1]
    [stest->akri~cl-allocate-unique-instances~1]
    [stest->akri~cl-allocate-denies-too-few-devices~1]
    [stest->akri~workload-requests-resources~1]
    [stest->akri~denied-workload-waits-and-recovers~1]
    """
    cluster.start_server()
    cluster.start_agent("node-a", runtimes=["podman"])

    # "after deploying a onvif Configuration with a capacity of 2, the NodeSpec of a node that could see both cameras"
    apply(cluster, cameras("foo0", "foo1", capacity=2))
    expected = {f"akri.sh/{CONFIGURATION}": (2, 0), f"akri.sh/{FOO0}": (2, 0), f"akri.sh/{FOO1}": (2, 0)}
    cluster.wait_until("both cameras are offered", lambda: resources(cluster, "node-a") == expected)
    assert usage(cluster) == {f"{FOO0}-0": "", f"{FOO0}-1": "", f"{FOO1}-0": "", f"{FOO1}-1": ""}

    # "a Pod could be deployed that requests 2 cameras": "1 slot of each"
    apply(cluster, a_pod("onvif-broker", 2))
    cluster.wait_for("onvif-broker", "Running(Ok)")
    taken = {f"{FOO0}-0": "C:0:node-a", f"{FOO0}-1": "", f"{FOO1}-0": "C:1:node-a", f"{FOO1}-1": ""}
    assert usage(cluster) == taken
    inspected = container(podman_env, "onvif-broker")
    annotations = inspected["Config"]["Annotations"]
    assert annotations[f"akri.agent.slot-{FOO0}-0"] == f"C:0:{FOO0}-0"
    assert annotations[f"akri.agent.slot-{FOO1}-0"] == f"C:1:{FOO1}-0"
    output = cluster.ank("logs", "onvif-broker").stdout
    assert "DEBUG_ECHO_DESCRIPTION_8120FE=foo0" in output
    assert "DEBUG_ECHO_DESCRIPTION_A19705=foo1" in output
    assert "DEBUG_ECHO_DESCRIPTION=foo" not in output
    assert json.loads(output[output.index("{\n") :])["resources"][0]["ids"] == ["0", "1"]
    expected = {f"akri.sh/{CONFIGURATION}": (4, 2), f"akri.sh/{FOO0}": (2, 0), f"akri.sh/{FOO1}": (2, 0)}
    cluster.wait_until("four are listed now", lambda: resources(cluster, "node-a") == expected)

    # "if a Pod requests 3 cameras when only 2 exist with a capacity of 2 each", it is denied, and nothing changes
    apply(cluster, a_pod("three", 3))
    why = cluster.wait_for("three", "Pending(WaitingToStart)")
    assert why == f"waits for 3 x akri.sh/{CONFIGURATION}, 2 visible"
    assert usage(cluster) == taken

    # "until another camera comes online and it can be successfully scheduled"
    apply(cluster, cameras("foo0", "foo1", "foo2", capacity=2))
    cluster.wait_for("three", "Running(Ok)")
    used = [slot for slot, text in usage(cluster).items() if text]
    assert len(used) == 5
    delete(cluster, "three")
    cluster.wait_until("its slots are free", lambda: len([s for s, text in usage(cluster).items() if text]) == 2)

    # instance-level and configuration-level users share the slots of a camera, and one cannot take the other's
    apply(cluster, a_pod("specific", 1, FOO0))
    cluster.wait_for("specific", "Running(Ok)")
    assert usage(cluster)[f"{FOO0}-1"] == "node-a"
    assert container(podman_env, "specific")["Config"]["Annotations"][f"akri.agent.slot-{FOO0}-1"] == f"{FOO0}-1"
    assert "DEBUG_ECHO_DESCRIPTION=foo0" in cluster.ank("logs", "specific").stdout
    apply(cluster, a_pod("too-late", 1, FOO0))
    why = cluster.wait_for("too-late", "Pending(WaitingToStart)")
    assert why == f"waits for 1 x akri.sh/{FOO0}, 2 visible, 0 free"
    delete(cluster, "onvif-broker")
    cluster.wait_for("too-late", "Running(Ok)")
    assert usage(cluster)[f"{FOO0}-0"] == "node-a"
