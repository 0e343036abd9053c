"""The pytest plugin, used like in tests of users."""

import subprocess
import sys
from pathlib import Path

import pytest

from ankaios.testing import TestCluster
from ankaios.testing.cluster import RejectedByServer

TWO = """
apiVersion: v1
workloads:
  db:
    runtime: podman
    agent: zone1
    restartPolicy: ALWAYS
    runtimeConfig: "image: db:1"
  web:
    runtime: podman
    agent: hpc
    restartPolicy: ALWAYS
    runtimeConfig: "image: web:1"
    dependencies: {db: ADD_COND_RUNNING}
"""


def test_a_node_that_returns_runs_its_workloads_again(cluster: TestCluster) -> None:
    cluster.apply(TWO)
    cluster.advance(5)
    cluster.kill("zone1")
    cluster.advance(10)
    cluster.workload("db").should_be("AgentDisconnected")
    cluster.workload("web").should_be_running(on="hpc")
    cluster.start("zone1")
    cluster.advance(10)
    cluster.workload("db").should_be_running(on="zone1")


def test_a_rejected_manifest_raises_with_the_reason(cluster: TestCluster) -> None:
    cycle = TWO.replace('runtimeConfig: "image: db:1"', 'runtimeConfig: "x"\n    dependencies: {web: ADD_COND_RUNNING}')
    with pytest.raises(RejectedByServer, match="cycle"):
        cluster.apply(cycle)


def test_a_failed_assertion_shows_the_timeline(cluster: TestCluster) -> None:
    cluster.apply(TWO)
    with pytest.raises(AssertionError, match=r"should run on one node\n[\s\S]*Timeline:\n[\s\S]*the agent starts"):
        cluster.workload("missing").should_be_running()


def test_workloads_continue_without_their_agent_and_without_the_server(cluster: TestCluster) -> None:
    cluster.apply(TWO)
    cluster.advance(5)
    cluster.kill_agent("zone1")
    cluster.advance(5)
    assert cluster.running_on("db") == ["zone1"]
    cluster.start("zone1")
    cluster.advance(5)
    starts = [line for line in cluster.timeline if "db started" in line]
    assert len(starts) == 1
    assert cluster.internal_errors == []


def test_two_runs_are_the_same() -> None:
    def timeline() -> list[str]:
        with TestCluster(seed=3) as cluster:
            cluster.apply(TWO)
            cluster.advance(30)
            return cluster.timeline

    assert timeline() == timeline()


def test_an_unknown_node_is_named(cluster: TestCluster) -> None:
    with pytest.raises(ValueError, match="unknown node 'zone9'"):
        cluster.kill("zone9")


def test_the_plugin_imports_no_other_modules() -> None:
    """pytest loads it for every user of the package, also for those who do not use it."""
    code = "import sys, ankaios.testing.plugin; print(*[name for name in sys.modules if name.startswith('ankaios')])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["ankaios", "ankaios.testing", "ankaios.testing.plugin"]


def test_an_unknown_workload_is_named_with_the_similar_one(cluster: TestCluster) -> None:
    cluster.apply(TWO)
    cluster.advance(5)
    with pytest.raises(AssertionError, match=r"unknown workload 'wbe'; did you mean 'web'\?"):
        cluster.workload("wbe").should_be_running()
    with pytest.raises(ValueError, match=r"unknown workload 'wbe'; did you mean 'web'\?"):
        cluster.delete("wbe")
    with pytest.raises(ValueError, match="cannot end workload 'wbe': it runs on no node"):
        cluster.end_workload("wbe")


def test_a_check_directly_after_a_change_reports_that_no_time_has_passed(cluster: TestCluster) -> None:
    cluster.apply(TWO)
    with pytest.raises(AssertionError, match=r"no time has passed .* cluster.advance\(seconds\)"):
        cluster.workload("web").should_be_running()


def test_a_state_is_compared_with_or_without_its_substate(cluster: TestCluster) -> None:
    cluster.apply(TWO)
    cluster.advance(5)
    cluster.workload("web").should_be("Running")
    cluster.workload("web").should_be("Running(Ok)")
    with pytest.raises(AssertionError, match=r"is 'Running\(Ok\)'; it should be 'Failed'"):
        cluster.workload("web").should_be("Failed")
    with pytest.raises(ValueError, match=r"unknown state 'Runing'; did you mean 'Running'\?"):
        cluster.workload("web").should_be("Runing")
    with pytest.raises(ValueError, match="unknown substate 'Okay'"):
        cluster.workload("web").should_be("Running(Okay)")


def test_invalid_values_are_rejected(cluster: TestCluster) -> None:
    cluster.add_node("zone1")
    with pytest.raises(ValueError, match="cannot advance by -1 s"):
        cluster.advance(-1)
    with pytest.raises(ValueError, match=r"cannot read the manifest 'missing\.yaml': No such file or directory"):
        cluster.apply("missing.yaml")
    with pytest.raises(ValueError, match="unknown device of handler 'udev' on node 'zone1' 'cam0'; none exists"):
        cluster.unplug("zone1", "cam0")
    with pytest.raises(ValueError, match=r"unknown node 'zone2'; did you mean 'zone1'\?"):
        cluster.partition("zone2")


def test_a_failed_assertion_points_at_the_line_of_the_test(tmp_path: Path) -> None:
    test = "def test_it(cluster):\n    cluster.add_node('n1')\n    cluster.workload('web').should_be_running()\n"
    (tmp_path / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "test_it.py:3: in test_it" in done.stdout
    assert "unknown workload 'web'; none exists" in done.stdout
    assert "ankaios/testing/" not in done.stdout


def test_a_section_without_entries_is_applied(cluster: TestCluster) -> None:
    cluster.apply(TWO + "configs:\n")
    cluster.advance(5)
    cluster.workload("web").should_be_running(on="hpc")
