"""A workload that others need is deleted after them, also after updates of it.

Needs: nothing but the repository. Workloads are plain processes.
"""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.support.cluster import Cluster
from tests.support.leftovers import native_processes


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
