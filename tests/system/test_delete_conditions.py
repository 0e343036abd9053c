"""A workload that others need is deleted after them, also after updates of it.

Needs: nothing but the repository. Workloads are plain processes.
"""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.support.cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        made.start_server()
        made.start_agent("agent_A", runtimes=["native"])
        yield made


def a_manifest(**seconds: int) -> str:
    """`late` needs `web`."""
    workloads = {
        name: {
            "agent": "agent_A",
            "runtime": "native",
            "dependencies": {"web": "ADD_COND_RUNNING"} if name == "late" else {},
            "runtimeConfig": json.dumps({"command": ["sleep", str(number)]}),
        }
        for name, number in seconds.items()
    }
    return json.dumps({"apiVersion": "v1", "workloads": workloads})


def instances(cluster: Cluster, workload: str) -> set[str]:
    return set(cluster.state("workloadStates")["workloadStates"]["agent_A"].get(workload, {}))


def update_both(cluster: Cluster) -> None:
    first = instances(cluster, "web")
    cluster.apply(a_manifest(web=1001, late=1001))
    cluster.wait_until("web is the new one", lambda: not instances(cluster, "web") & first)
    cluster.wait_for("web", "Running(Ok)")


def set_tags_and_update(cluster: Cluster) -> None:
    """Both updates wait for the end of `late`."""
    tagged = json.loads(a_manifest(web=1000))
    tagged["workloads"]["web"]["tags"] = {"a": "b"}
    file = cluster.write("tags.yaml", json.dumps({"desiredState": tagged}))
    cluster.ank("--no-wait", "set", "state", "desiredState.workloads.web.tags", str(file))
    cluster.wait_for("web", "Stopping(WaitingToStop)")
    cluster.ank("--no-wait", "apply", str(cluster.write("next.yaml", a_manifest(web=1001))))


@pytest.mark.parametrize("update", [update_both, set_tags_and_update])
def test_a_workload_waits_for_its_dependents_after_an_update(
    cluster: Cluster, update: Callable[[Cluster], None]
) -> None:
    """[stest->swdd~server-state-adds-delete-conditions-to-deleted-workload~1]"""
    cluster.apply(a_manifest(web=1000, late=1000))
    update(cluster)
    cluster.wait_for("late", "Running(Ok)")
    cluster.ank("--no-wait", "delete", "workload", "web")
    cluster.wait_for("web", "Stopping(WaitingToStop)")
    # A later change of the same agent: when it is done, nothing that was decided before is still on its way.
    cluster.apply(a_manifest(next=1000))
    states = cluster.states()
    assert (states["web"][0], states["late"][0]) == ("Stopping(WaitingToStop)", "Running(Ok)")
    assert len(instances(cluster, "web")) == 1
    cluster.ank("delete", "workload", "late")
    cluster.wait_for("web", "Removed")
