"""A real agent with a kubelet, and a device plugin for Kubernetes with a real agent.

Needs: nothing but the repository.
"""

from collections.abc import Iterator

import pytest

from tests.integration.devices.foreign_plugin import ForeignPlugin
from tests.integration.devices.kubelet_stub import AdmissionError, KubeletStub, pairs
from tests.support.cluster import Cluster
from tests.support.device_manifests import CONFIGURATION, FOO0, FOO1, a_cluster, a_user, apply, cameras, delete, usage

RESOURCE = f"akri.sh/{CONFIGURATION}"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with a_cluster() as cluster:
        cluster.start_server()
        yield cluster


def test_a_kubelet_allocates_devices_of_the_agent_to_its_pods(cluster: Cluster) -> None:
    """[stest->akri~kubelet-device-plugin-api~1]"""
    kubelet = KubeletStub(cluster.folder / "kubelet")
    kubelet.start()
    try:
        cluster.start_agent("node-a", "--kubelet-dir", str(cluster.folder / "kubelet"), runtimes=["native"])
        apply(cluster, cameras("foo0", "foo1", capacity=2), a_user("web"))
        kubelet.wait(lambda: kubelet.healthy(RESOURCE) == ["0", "1"], seconds=30)
        annotations = pairs(kubelet.admit("pod", RESOURCE, 2).annotations)
        assert sorted(annotations.values()) == [f"C:0:{FOO0}-0", f"C:1:{FOO1}-0"]
        with pytest.raises(AdmissionError, match="Insufficient instances"):
            kubelet.admit("large", RESOURCE, 3, ids=["0", "2", "3"])
        taken = {f"{FOO0}-0": "C:0:node-a", f"{FOO0}-1": "", f"{FOO1}-0": "C:1:node-a", f"{FOO1}-1": ""}
        cluster.wait_until("the state shows the slots of the pod", lambda: usage(cluster) == taken)
        assert cluster.wait_for("web", "Pending(WaitingToStart)") == (
            "the devices of this node are allocated by its kubelet"
        )
        kubelet.restart()
        kubelet.wait(lambda: kubelet.healthy(RESOURCE) == ["0", "1", "2", "3"], seconds=30)
        assert usage(cluster) == taken
        kubelet.end_pod("pod")
        cluster.wait_until("its slots are free", lambda: not any(usage(cluster).values()), seconds=60)
    finally:
        kubelet.stop()


def test_a_device_plugin_for_kubernetes_serves_workloads(cluster: Cluster) -> None:
    """[stest->akri~kubelet-device-plugin-api~1]"""
    cluster.start_agent("node-a", runtimes=["native"])
    folder = cluster.folder / "run" / "node-a_io" / "devices" / "plugins"
    cluster.wait_until("plugins can register", (folder / "kubelet.sock").exists)
    plugin = ForeignPlugin(folder, "example.com/gpu", {"g0": "Healthy"})
    plugin.start()
    try:
        apply(cluster, a_user("first", resource="example.com/gpu"), a_user("second", resource="example.com/gpu"))

        def running() -> list[str]:
            return [name for name, (state, _) in cluster.states().items() if state == "Running(Ok)"]

        cluster.wait_until("one of them runs", lambda: len(running()) == 1)
        (waiting,) = {"first", "second"} - set(running())
        assert cluster.wait_for(waiting, "Pending(WaitingToStart)") == (
            "waits for 1 x example.com/gpu, 1 visible, 0 free"
        )
        delete(cluster, *running())
        cluster.wait_for(waiting, "Running(Ok)")
        delete(cluster, waiting)
        assert plugin.allocated == [["g0"], ["g0"]]
    finally:
        plugin.stop()


def test_plugins_register_in_the_folder_of_the_option(cluster: Cluster) -> None:
    folder = cluster.folder / "p"
    cluster.start_agent("node-a", "--plugin-dir", str(folder), runtimes=["native"])
    cluster.wait_until("plugins can register", (folder / "kubelet.sock").exists)
    plugin = ForeignPlugin(folder, "example.com/gpu", {"g0": "Healthy"})
    plugin.start()
    try:
        apply(cluster, a_user("web", resource="example.com/gpu"))
        cluster.wait_for("web", "Running(Ok)")
        delete(cluster, "web")
    finally:
        plugin.stop()
