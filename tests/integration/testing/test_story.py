"""Stories of `ank simulate`: wrong ones are rejected with the step, and expectations decide."""

from pathlib import Path

import pytest

from ankaios.testing import TestCluster
from ankaios.testing.story import StoryFailed, check_steps, run_story

MANIFEST = """
apiVersion: v1
workloads:
  web: {runtime: podman, agent: zone1, restartPolicy: ALWAYS, runtimeConfig: "image: web"}
"""


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ({"advance": 1}, "a story is a list"),
        ([{"advance": 1, "kill": "a"}], "step 1 is not a map with one key"),
        (["advance"], "step 1 is not a map with one key"),
        ([{"advance": 1}, {"explode": "a"}], "step 2: unknown step 'explode'"),
        ([{"advance": "soon"}], "step 1: 'advance'"),
    ],
)
def test_a_wrong_story_is_rejected_before_anything_runs(steps: object, text: str) -> None:
    with pytest.raises(StoryFailed, match=text):
        check_steps(steps)


def test_expectations_are_checked(cluster: TestCluster, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(MANIFEST)
    steps = [
        {"apply": str(manifest)},
        {"advance": 5},
        {"fail": "web"},
        {"advance": 5},
        {"expect": {"web": "Running"}},
        {"kill": "zone1"},
        {"advance": 10},
        {"expect": {"web": "AgentDisconnected"}},
    ]
    run_story(cluster, check_steps(steps))
    with pytest.raises(StoryFailed, match=r"step 1, 'expect: .*': workload 'web' runs on no node"):
        run_story(cluster, check_steps([{"expect": {"web": "Running"}}]))
    with pytest.raises(StoryFailed, match="unknown node 'zone7'"):
        run_story(cluster, check_steps([{"kill": "zone7"}]))


def test_devices_tags_and_partitions(cluster: TestCluster) -> None:
    steps = [
        {"node": {"zone1": {"kind": "camera"}}},
        {"plug": "zone1/cam0"},
        {"unplug": "zone1/udev/cam0"},
        {"partition": "zone1"},
        {"advance": 10},
        {"heal": None},
        {"advance": 10},
    ]
    run_story(cluster, check_steps(steps))
    assert cluster.state("agents.zone1.tags") == {"agents": {"zone1": {"tags": {"kind": "camera"}}}}
