"""Faults of a node: the right state is reached soon after each fault ends, and the reason is reported meanwhile.

Server, agent and `ank` are real; podman is replaced by a script that runs processes and fails on request.
Needs: nothing but the repository.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.stand_in import StandIn

SOON = 15.0  # seconds: two pauses between retries, on a busy machine
FOREVER = "[/bin/sleep, '1000']"
JUMPING_CLOCK = """
import itertools, time
_moments = itertools.cycle([1.8e9, 4e9, 0.0, 1.7e9])
time.time = lambda: next(_moments)
time.time_ns = lambda: int(next(_moments)) * 10**9
"""


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[StandIn]:
    made = StandIn(tmp_path)
    yield made
    made.close()


@pytest.fixture
def cluster(podman: StandIn) -> Iterator[Cluster]:
    """The only podman on the path is the replacement."""
    with Cluster({**os.environ, "PATH": str(podman.folder)}) as made:
        yield made


def a_manifest(*names: str, command: str = FOREVER, more: str = "", image: str = "one") -> str:
    lines = ["apiVersion: v1", "workloads:" if names else "workloads: {}"]
    for name in names:
        lines += [f"  {name}:", "    agent: agent_A", "    runtime: podman", *([f"    {more}"] if more else [])]
        lines += ["    runtimeConfig: |", f"      image: {image}", f"      commandArgs: {command}"]
    return "\n".join([*lines, ""])


def start(cluster: Cluster, manifest: str) -> None:
    cluster.start_server(manifest)
    cluster.start_agent("agent_A", runtimes=["podman"])


def run(cluster: Cluster, *arguments: str) -> None:
    cluster.ank("--no-wait", *arguments)


def apply(cluster: Cluster, manifest: str) -> None:
    run(cluster, "apply", str(cluster.write("next.yaml", manifest)))


def wait_for_reason(cluster: Cluster, workload: str, state: str, reason: str) -> None:
    def is_reported() -> bool:
        found, info = cluster.states().get(workload, ("", ""))
        return found == state and reason in info

    cluster.wait_until(f"{workload} is {state} because of '{reason}'", is_reported, more=cluster.states)


def test_a_missing_podman_is_reported_until_it_is_installed(cluster: Cluster, podman: StandIn) -> None:
    Path(podman.program).rename(podman.folder / "not yet")
    start(cluster, a_manifest("web"))
    wait_for_reason(cluster, "web", "Pending(Starting)", "Could not spawn command: [Errno 2] No such file or directory")
    (podman.folder / "not yet").rename(podman.program)
    cluster.wait_for("web", "Running(Ok)", seconds=SOON)
    assert len(podman.calls("run")) == len(podman.containers()) == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"do": "hang"}, "The runtime 'podman' has not listed its workloads within 3 s"),
        ({"do": "print", "stdout": "}{"}, "cannot read the list of containers"),
    ],
    ids=["hangs", "prints garbage"],
)
def test_a_podman_that_cannot_list_is_reported_as_the_reason(
    cluster: Cluster, podman: StandIn, fault: dict[str, str], reason: str
) -> None:
    podman.script("ps", **fault)
    start(cluster, a_manifest("web"))
    wait_for_reason(cluster, "web", "Pending(Starting)", reason)
    podman.heal()
    cluster.wait_for("web", "Running(Ok)", seconds=SOON)
    assert len(podman.calls("run")) == len(podman.containers()) == 1


def test_a_start_that_hangs_is_reported_and_succeeds_when_podman_continues(cluster: Cluster, podman: StandIn) -> None:
    podman.script("run", do="slow", seconds=13, times=1)
    start(cluster, a_manifest("web"))
    wait_for_reason(cluster, "web", "Pending(Starting)", "The runtime 'podman' has not started it within 10 s")
    cluster.wait_for("web", "Running(Ok)", seconds=SOON)
    assert len(podman.calls("run")) == 1


def test_a_podman_that_is_killed_during_a_call_leaves_one_container(cluster: Cluster, podman: StandIn) -> None:
    podman.script("run", do="work-then-die", times=3)
    start(cluster, a_manifest("web"))
    wait_for_reason(cluster, "web", "Pending(Starting)", 'Ended by signal 9. Execution of \'podman "run"')
    cluster.wait_for("web", "Running(Ok)", seconds=SOON)
    assert len(podman.containers()) == 1


@pytest.mark.parametrize("fault", ["fail", "die"])
def test_a_failed_deletion_is_repeated_until_podman_works_again(cluster: Cluster, podman: StandIn, fault: str) -> None:
    start(cluster, a_manifest("goes", "changes"))
    for name in ("goes", "changes"):
        cluster.wait_for(name, "Running(Ok)")
    for verb in ("stop", "rm"):
        podman.script(verb, do=fault, stderr="podman is broken")
    apply(cluster, a_manifest("changes", image="two"))
    run(cluster, "delete", "workload", "goes")
    wait_for_reason(cluster, "goes", "Stopping(DeleteFailed)", "podman is broken")
    podman.heal()
    cluster.wait_for("goes", "Removed", seconds=SOON)
    cluster.wait_for("changes", "Running(Ok)", seconds=SOON)
    assert len(podman.containers()) == 1
    assert "two" in podman.calls("run")[-1]


def test_containers_removed_by_hand_are_lost_and_can_be_deleted(cluster: Cluster, podman: StandIn) -> None:
    start(cluster, a_manifest("web", more="restartPolicy: NEVER"))
    cluster.wait_for("web", "Running(Ok)")
    podman.forget_container(podman.containers()[0])
    cluster.wait_for("web", "Failed(Lost)", seconds=SOON)
    assert len(podman.calls("run")) == 1
    run(cluster, "delete", "workload", "web")
    cluster.wait_for("web", "Removed", seconds=SOON)


def test_containers_removed_by_hand_are_restarted_with_policy_always(cluster: Cluster, podman: StandIn) -> None:
    start(cluster, a_manifest("web", more="restartPolicy: ALWAYS"))
    cluster.wait_for("web", "Running(Ok)")
    (lost,) = podman.containers()
    podman.forget_container(lost)
    cluster.wait_until("web has a new container", lambda: podman.containers() not in ([], [lost]), SOON)
    cluster.wait_for("web", "Running(Ok)", seconds=SOON)
    assert len(podman.containers()) == 1
    assert len(podman.calls("run")) == 2
    run(cluster, "delete", "workload", "web")
    cluster.wait_for("web", "Removed", seconds=SOON)
    assert podman.containers() == []


def test_fifty_containers_that_exit_at_the_same_moment_are_all_reported(
    cluster: Cluster, podman: StandIn, tmp_path: Path
) -> None:
    names = [f"w{number}" for number in range(50)]
    wait = f"[/bin/sh, -c, 'while ! test -e {tmp_path}/now; do /bin/sleep 0.05; done; exit 3']"
    start(cluster, a_manifest(*names, command=wait))

    def all_are(state: str, info: str) -> bool:
        found = cluster.states()
        return all(found.get(name) == (state, info) for name in names)

    cluster.wait_until("all run", lambda: all_are("Running(Ok)", ""), 120)
    (tmp_path / "now").touch()
    cluster.wait_until("all ends are known", lambda: all_are("Failed(ExecFailed)", "Exit code: '3'"), SOON)
    assert len(podman.calls("run")) == 50


def test_the_agent_adopts_the_state_of_a_restarted_server(cluster: Cluster, podman: StandIn) -> None:
    start(cluster, a_manifest("stays", "goes", "changes"))
    for name in ("stays", "goes", "changes"):
        cluster.wait_for(name, "Running(Ok)")
    stays = next(each for each in podman.containers() if podman.name_of(each).startswith("stays."))
    cluster.kill_server()
    time.sleep(2.5)  # the attempts of the agent fail meanwhile
    new = a_manifest("changes", "new", image="two").splitlines()[2:]
    cluster.start_server(a_manifest("stays") + "\n".join([*new, ""]))
    for name in ("stays", "changes", "new"):
        cluster.wait_for(name, "Running(Ok)", seconds=SOON)
    cluster.wait_until("'goes' is removed", lambda: len(podman.containers()) == 3, SOON)
    assert stays in podman.containers()
    assert sorted(cluster.states()) == ["changes", "new", "stays"]
    assert len(podman.calls("run")) == 5


def test_the_second_agent_of_a_name_waits_until_the_first_has_ended(cluster: Cluster, podman: StandIn) -> None:
    start(cluster, a_manifest("web"))
    cluster.wait_for("web", "Running(Ok)")
    first = cluster.agents.pop("agent_A")
    cluster.agents["first"] = first
    cluster.start_agent("agent_A", runtimes=["podman"])
    cluster.wait_until("the second one reports that it waits", lambda: "waiting until it has ended" in cluster.logs())
    apply(cluster, a_manifest("more"))
    cluster.wait_for("more", "Running(Ok)")
    assert cluster.states()["web"] == ("Running(Ok)", "")
    cluster.kill_agent("first", signal.SIGKILL)
    run(cluster, "delete", "workload", "more")
    cluster.wait_for("more", "Removed", seconds=SOON)
    cluster.wait_for("web", "Running(Ok)", seconds=SOON)  # the second one may come after the delete
    # The second agent finds the container of 'more' and deletes it, so its state returns for a moment.
    cluster.wait_until("'more' is removed", lambda: len(podman.containers()) == 1, SOON)
    cluster.wait_until("only 'web' is left", lambda: cluster.states() == {"web": ("Running(Ok)", "")}, SOON)
    assert len(podman.calls("run")) == 2


def test_a_clock_that_jumps_does_not_affect_workloads(cluster: Cluster, podman: StandIn) -> None:
    cluster.write("sitecustomize.py", JUMPING_CLOCK)
    cluster.environ["PYTHONPATH"] = f"{cluster.folder}:{cluster.environ.get('PYTHONPATH', '')}"
    podman.script("run", do="fail", stderr="not yet", times=2)
    start(cluster, a_manifest("web"))
    del cluster.environ["PYTHONPATH"]
    cluster.wait_for("web", "Running(Ok)", seconds=SOON)
    apply(cluster, a_manifest("ends", command="[/bin/sh, -c, 'exit 3']"))
    cluster.wait_for("ends", "Failed(ExecFailed)", seconds=SOON)
    run(cluster, "delete", "workload", "web")
    cluster.wait_for("web", "Removed", seconds=SOON)
    assert "Traceback" not in cluster.logs()
