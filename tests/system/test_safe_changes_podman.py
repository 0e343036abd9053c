"""Atomic changes that fail, with containers and processes on two agents, and the unmodified SDK as another client.

Each scenario ends with the previous state on both agents and with the reason. Needs: podman, root rights and the SDK
in .venv/sdk, which scripts/install makes.
"""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.mount_rights import needs_mounts
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

SDK = Path(__file__).resolve().parents[2] / ".venv/sdk"
pytestmark = [
    needs_podman,
    needs_mounts,
    pytest.mark.skipif(not SDK.exists(), reason="needs the SDK in .venv/sdk"),
]

AGENTS = {"podman": "a", "native": "b"}
RUN_FOLDER_BYTES = 8 * 1024 * 1024

# Reports what the SDK reads, and changes the workload 'podman' when the file `change` exists.
CLIENT = """
import json, os, pathlib, time
from ankaios_sdk import Ankaios, AnkaiosException, Workload

out = pathlib.Path(OUT)
ankaios = Ankaios()
while True:
    try:
        states = {
            state.workload_instance_name.workload_name: f"{state.execution_state.state.name} "
            f"{state.workload_instance_name.workload_id}"
            for state in ankaios.get_workload_states().get_as_list()
        }
        (out / "new").write_text(json.dumps(states))
        (out / "new").rename(out / "states")
    except Exception as error:
        (out / "states").unlink(missing_ok=True)
    if (out / "change").exists():
        (out / "change").unlink()
        other = Workload.builder().workload_name("podman").agent_name("a").runtime("podman").runtime_config("image: x")
        try:
            ankaios.apply_workload(other.build())
            (out / "answer").write_text("accepted")
        except AnkaiosException as error:
            (out / "answer").write_text(str(error))
    time.sleep(0.2)
"""


def a_workload(runtime: str, script: str, image: str = IMAGE, more: str = "", **fields: object) -> str:
    """Named like its runtime."""
    config = f"command: [sh, -c, {json.dumps(script)}]\n      {more}"
    if runtime == "podman":
        options = ", ".join(["--stop-timeout=0", *([more] if more else [])])
        config = f"image: {image}\n      commandOptions: [{options}]\n      commandArgs: [sh, -c, {json.dumps(script)}]"
    extra = "".join(f"    {name}: {json.dumps(value)}\n" for name, value in fields.items())
    head = f"  {runtime}:\n    agent: {AGENTS[runtime]}\n    runtime: {runtime}\n{extra}"
    return f"{head}    runtimeConfig: |\n      {config}\n"


def manifest(**workloads: str) -> str:
    """Both workloads; those that are not given run."""
    both = {runtime: workloads.get(runtime) or a_workload(runtime, "sleep 1000") for runtime in AGENTS}
    return "apiVersion: v1\nworkloads:\n" + "".join(both.values())


def sdk_client(out: Path) -> str:
    (out / "client.py").write_text(CLIENT.replace("OUT", repr(str(out))))
    return f"""
apiVersion: v1
workloads:
  client:
    agent: b
    runtime: native
    controlInterfaceAccess:
      allowRules:
      - {{type: StateRule, operation: Read, filterMasks: [workloadStates]}}
      - {{type: StateRule, operation: ReadWrite, filterMasks: [desiredState.workloads.podman]}}
    runtimeConfig: |
      command: [{SDK}/bin/python, {out}/client.py]
"""


@pytest.fixture(scope="module")
def cluster(podman_env: PodmanEnv) -> Iterator[Cluster]:  # noqa: F811
    with Cluster(podman_env.environ) as made:
        for folder in (made.folder / "run", made.folder / "out"):
            folder.mkdir()
        size = f"size={RUN_FOLDER_BYTES}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", made.folder / "run"], check=True, timeout=30)
        try:
            start_server(made)
            for runtime, agent in AGENTS.items():
                made.start_agent(agent, runtimes=[runtime])
            made.apply(sdk_client(made.folder / "out"))
            made.apply(manifest())
            yield made
        finally:
            made.close()
            subprocess.run(["umount", "--lazy", made.folder / "run"], check=True, timeout=30)
            shutil.rmtree(made.folder, ignore_errors=True)
    podman_env.clear()


def start_server(cluster: Cluster) -> None:
    cluster.start_server(None, "--storage", f"sqlite:{cluster.folder}/state.db")


def ids(cluster: Cluster) -> dict[str, str]:
    states = cluster.state("workloadStates").get("workloadStates", {})
    return {name: next(iter(by_id)) for workloads in states.values() for name, by_id in workloads.items()}


def begin(cluster: Cluster, *workloads: str, settle: str = "60s") -> str:
    """Start an atomic change; returns the name of its rollout."""
    path = cluster.write("change.yaml", "apiVersion: v1\nworkloads:\n" + "".join(workloads))
    done = cluster.ank("--no-wait", "apply", "--atomic", "--settle", settle, str(path))
    return next(word.strip(",") for word in done.stdout.split() if word.startswith("rollout-"))


def phase(cluster: Cluster, rollout: str) -> str:
    (found,) = json.loads(cluster.ank("rollout", "status", rollout, "-o", "json").stdout)
    return str(found["phase"])


def failure(cluster: Cluster, *workloads: str, timeout: str = "60s", settle: str = "30s") -> str:
    """Apply a change that fails; returns the reason after checking that both agents have the previous state."""
    before = ids(cluster)
    path = cluster.write("change.yaml", "apiVersion: v1\nworkloads:\n" + "".join(workloads))
    done = cluster.ank("apply", "--atomic", "--timeout", timeout, "--settle", settle, str(path), check=False)
    assert done.returncode == 1, done.stdout
    assert "failed and the previous state is restored: " in done.stderr
    check_restored(cluster, before)
    return done.stderr


def check_restored(cluster: Cluster, before: dict[str, str]) -> None:
    """For the command line and for the SDK."""
    assert ids(cluster) == before
    assert {cluster.states()[runtime][0] for runtime in AGENTS} == {"Running(Ok)"}
    wanted = {runtime: f"RUNNING {before[runtime]}" for runtime in AGENTS}

    def sdk_agrees() -> bool:
        path = cluster.folder / "out/states"
        read = json.loads(path.read_text()) if path.exists() else {}
        return {runtime: read.get(runtime) for runtime in AGENTS} == wanted

    cluster.wait_until("the SDK reads the previous state", sdk_agrees)


def events(cluster: Cluster, workload: str) -> str:
    return cluster.ank("get", "events", "--since", "5m", workload).stdout


def test_an_image_that_does_not_exist_restores_both_agents(cluster: Cluster) -> None:
    bad = a_workload("podman", "sleep 1000", image="localhost/missing:2")
    reason = failure(cluster, bad, a_workload("native", "sleep 2000"), timeout="8s")
    assert "not ready within 8 s: workload 'podman' on agent 'a' is Pending(Starting)" in reason
    assert "localhost/missing:2" in events(cluster, "podman")


@pytest.mark.parametrize("runtime", AGENTS)
def test_a_workload_that_fails_three_seconds_after_it_was_healthy_is_undone(cluster: Cluster, runtime: str) -> None:
    checked = "/tmp/checked" if runtime == "podman" else f"{cluster.folder}/checked"
    health = {"exec": {"command": ["touch", checked], "interval": "500ms"}}
    script = f"until test -e {checked}; do sleep 0.1; done; echo no config >&2; sleep 3; exit 3"
    failing = a_workload(runtime, script, health=health)
    reason = failure(cluster, failing)
    where = f"workload '{runtime}' on agent '{AGENTS[runtime]}'"
    assert f"did not stay ready for 30 s: {where} is Failed(ExecFailed): Exit code: '3'" in reason
    assert "last output: no config" in events(cluster, runtime)


@pytest.mark.parametrize("runtime", AGENTS)
def test_a_health_check_that_flaps_is_undone(cluster: Cluster, runtime: str) -> None:
    """It succeeds twice, fails twice, and so on."""
    where = "/tmp" if runtime == "podman" else str(cluster.folder)
    flap = f"cd {where}; echo >> flap; test $(($(wc -l < flap) / 2 % 2)) = 0"
    check = {"command": ["sh", "-c", flap], "interval": "100ms", "failures": 2}
    reason = failure(cluster, a_workload(runtime, "sleep 1001", health={"exec": check, "onUnhealthy": "none"}))
    assert f"workload '{runtime}' on agent '{AGENTS[runtime]}' is Running(Ok) but not healthy: Unhealthy" in reason
    assert "failed 2 times: exit code 1" in reason


def revision(cluster: Cluster) -> str:
    return cluster.ank("history", "--limit", "1").stdout.splitlines()[1].split()[0]


def test_a_lack_of_memory_is_explained_and_a_rollback_is_atomic(cluster: Cluster) -> None:
    """Whether podman reports lack of memory depends on its monitor and on the control groups of the machine."""
    before, good = ids(cluster), revision(cluster)
    script = "sleep 0.2; exec tail /dev/zero"
    native = a_workload("native", script, more="limits: {memory: 16M}")
    allocating = manifest(native=native, podman=a_workload("podman", script, more="--memory=16m"))
    cluster.ank("--no-wait", "apply", "-", stdin=allocating)
    for runtime in AGENTS:
        assert cluster.wait_for(runtime, "Failed(ExecFailed)") == "Exit code: '137'"
    text = "native (b) has failed: Exit code: '137', killed because it was out of memory"
    cluster.wait_until("the cause is named", lambda: text in cluster.ank("why", "native").stdout)
    bad = revision(cluster)
    done = cluster.ank("rollback", "--atomic", "--settle", "0s", good)
    assert "is completed: all workloads are ready" in done.stdout
    check_restored(cluster, before)
    done = cluster.ank("rollback", "--atomic", "--settle", "30s", bad, check=False)
    assert "failed and the previous state is restored: " in done.stderr
    assert "is Failed(ExecFailed): Exit code: '137'" in done.stderr
    check_restored(cluster, before)


def test_a_full_disk_of_the_agent_is_undone(cluster: Cluster) -> None:
    """The run folder has no space for a file of the new workload."""
    filler = cluster.folder / "run/filler"
    free = shutil.disk_usage(cluster.folder / "run").free
    filler.write_bytes(bytes(free - 256 * 1024))
    try:
        files = [{"mountPoint": "/etc/big", "data": "x" * 512 * 1024}]
        reason = failure(cluster, a_workload("podman", "sleep 1002", files=files), a_workload("native", "sleep 1002"))
    finally:
        filler.unlink()
    assert "workload 'podman' on agent 'a' is " in reason
    assert "No space left on device" in reason


def test_an_agent_that_is_lost_during_the_change_has_the_previous_state_when_it_returns(cluster: Cluster) -> None:
    before = ids(cluster)
    rollout = begin(cluster, a_workload("podman", "sleep 1003"), a_workload("native", "sleep 1003"))
    cluster.wait_until("both run", lambda: phase(cluster, rollout) == "settling")
    (cluster.folder / "out/change").touch()
    answer = cluster.folder / "out/answer"
    cluster.wait_until("the SDK gets an answer", answer.exists)
    cluster.wait_until("the SDK is refused", lambda: f"'{rollout}'" in answer.read_text(), more=answer.read_text)
    cluster.kill_agent("a")
    cluster.wait_until("the change is undone", lambda: phase(cluster, rollout) == "restoring")
    assert "has no agent: 'a' is not connected, since" in cluster.ank("why", "podman").stdout
    cluster.start_agent("a", runtimes=["podman"])
    cluster.wait_until("it is restored", lambda: phase(cluster, rollout) == "restored")
    check_restored(cluster, before)
    status = cluster.ank("rollout", "status", rollout).stdout
    assert "workload 'podman' on agent 'a' is AgentDisconnected" in " ".join(status.split())


def test_a_server_that_is_killed_during_the_change_continues_it(cluster: Cluster) -> None:
    before = ids(cluster)
    rollout = begin(cluster, a_workload("podman", "sleep 3; exit 3"), a_workload("native", "sleep 1004"))
    cluster.kill_server(signal.SIGKILL)
    start_server(cluster)
    cluster.wait_until("it is restored", lambda: phase(cluster, rollout) == "restored", 60)
    check_restored(cluster, before)
    assert "workload 'podman' on agent 'a' is Failed(ExecFailed): Exit code: '3'" in " ".join(
        cluster.ank("rollout", "status", rollout).stdout.split()
    )
