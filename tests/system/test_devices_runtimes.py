"""A real device of the kernel in workloads of the runtimes that the walk-through of the design does not cover.

A disk, which is a loop device with known content, is added; a workload requests it, reads it through its
device node, and releases it.
Needs: root rights, podman, a free loop device and the Python package pyudev with libudev.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.device_manifests import a_cluster, a_user, apply, delete, native, resources, usage, users
from tests.support.loop_devices import attached, needs_loop_devices, udev_details
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

pytest.importorskip("pyudev", reason="needs the Python package pyudev and libudev")
pytestmark = needs_loop_devices

CONTENT = b"the content of the disk"
READ = (
    f"head -c {len(CONTENT)} $UDEV_DEVNODE; echo; echo node=$UDEV_DEVNODE; echo rate=$RATE; "
    'cat "$ANKAIOS_DEVICES_FILE"; echo done; trap "exit 0" TERM; while :; do sleep 0.1; done'
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Return the file and the device node."""
    image = tmp_path / "disk"
    with attached(image, CONTENT) as node:
        yield image, node


def disks(image: Path) -> dict[str, Any]:
    handler = {"name": "udev", "discoveryDetails": udev_details(image)}
    settings = {"discoveryHandler": handler, "capacity": 1, "brokerProperties": {"RATE": "30"}}
    return {"deviceConfigurations": {"disk": settings}}


def a_reader(runtime: dict[str, Any], container: str | None = None) -> dict[str, Any]:
    request = {"name": "disk", "quantity": 1} | ({"container": container} if container else {})
    return {"workloads": {"reader": {"agent": "node-a", "resources": [request], **runtime}}}


def a_pod(node: str) -> dict[str, Any]:
    """A pod with a container that gets the disk, and one that does not."""

    def container(name: str, script: str) -> dict[str, Any]:
        return {"name": name, "image": IMAGE, "command": ["/bin/sh", "-c", script]}

    look = f"echo other=$UDEV_DEVNODE$ANKAIOS_DEVICES_FILE; [ -e {node} ] && echo leaked; echo looked"
    without = look + "; trap 'exit 0' TERM; while :; do sleep 0.1; done"
    spec = {"containers": [container("with", READ), container("without", without)]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
    config = {"manifest": json.dumps(pod), "downOptions": ["--force"]}
    return {"runtime": "podman-kube", "runtimeConfig": json.dumps(config)}


def read_and_let_go(cluster: Cluster, node: str, last: str = "done") -> str:
    """The common part of the scenario; returns the output of the workload."""
    cluster.wait_for("reader", "Running(Ok)")
    outputs: list[str] = []

    def has_read() -> bool:
        outputs[:] = [cluster.ank("logs", "reader").stdout]
        return "done" in outputs[0] and last in outputs[0]

    cluster.wait_until("the disk was read", has_read)
    (output,) = outputs
    assert CONTENT.decode() in output
    assert f"node={node}" in output
    assert "rate=30" in output
    (slot,) = usage(cluster)
    assert users(cluster) == {slot: "reader"}
    assert resources(cluster, "node-a")["akri.sh/disk"] == (1, 1)
    listed = cluster.ank("get", "devices").stdout
    assert slot.rpartition("-")[0] in listed
    assert "reader" in listed
    apply(cluster, a_user("next", resource="disk"))
    why = cluster.wait_for("next", "Pending(WaitingToStart)")
    assert why == "waits for 1 x akri.sh/disk, 1 visible, 0 free"
    delete(cluster, "reader")
    cluster.wait_for("next", "Running(Ok)")
    assert users(cluster) == {slot: "next"}
    delete(cluster, "next")
    cluster.wait_until("the disk is free", lambda: usage(cluster) == {slot: ""})
    return output


def test_a_process_reads_a_disk_that_it_requested(disk: tuple[Path, str]) -> None:
    """[stest->akri~workload-requests-resources~1]"""
    image, node = disk
    with a_cluster(shared=False) as cluster:
        cluster.start_server()
        cluster.start_agent("node-a", runtimes=["native"])
        apply(cluster, disks(image), a_reader(native(["sh", "-c", READ])))
        output = read_and_let_go(cluster, node)
    assert json.loads(output[output.index("{\n") : output.rindex("done")])["environment"]["UDEV_DEVNODE"] == node


@needs_podman
def test_only_the_container_of_a_pod_that_requested_a_disk_reads_it(
    disk: tuple[Path, str],
    podman_env: PodmanEnv,  # noqa: F811
) -> None:
    """[stest->akri~workload-requests-resources~1]"""
    image, node = disk
    with a_cluster(podman_env.environ, shared=False) as cluster:
        cluster.start_server()
        cluster.start_agent("node-a", runtimes=["podman-kube", "native"])
        apply(cluster, disks(image), a_reader(a_pod(node), "pod/with"))
        output = read_and_let_go(cluster, node, "looked")
    podman_env.clear()
    assert "other=\n" in output
    assert "leaked" not in output
