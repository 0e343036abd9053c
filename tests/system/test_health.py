"""Health checks of real processes and containers: their results, reports and consequences.

Needs: podman and root rights.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb.control_api_pb2 import HealthNotification, Hello, ToAnkaios
from ankaios.common.version import PROTOCOL_VERSION
from tests.support.cluster import Cluster, free_port
from tests.support.podman_env import CALL_LIMIT, IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

pytestmark = needs_podman

AGENT = "agent_A"
SDK = Path(__file__).resolve().parents[2] / ".venv/sdk"


@pytest.fixture
def cluster(podman_env: PodmanEnv) -> Iterator[Cluster]:  # noqa: F811
    with Cluster(podman_env.environ) as made:
        made.start_server()
        made.start_agent(AGENT, runtimes=["podman", "native"])
        yield made
    podman_env.clear()


def a_workload(
    name: str,
    script: str,
    health: str,
    *,
    runtime: str = "native",
    agent: str = AGENT,
    more: str = "",
    options: str = "",
) -> str:
    config = f"command: [sh, -c, '{script}']"
    if runtime == "podman":
        config = f"image: {IMAGE}\n      commandOptions: [--stop-timeout=0]\n      commandArgs: [sh, -c, '{script}']"
    return f"""
  {name}:
    agent: {agent}
    runtime: {runtime}
    {more}
    runtimeConfig: |
      {config}
    {f"health: {health}" if health else ""}
"""


def apply(cluster: Cluster, *workloads: str) -> None:
    path = cluster.write("health.yaml", "apiVersion: v1\nworkloads:" + "".join(workloads))
    cluster.ank("--no-wait", "apply", str(path))


def state_of(cluster: Cluster, workload: str) -> dict[str, Any]:
    for workloads in cluster.state("workloadStates").get("workloadStates", {}).values():
        for state in workloads.get(workload, {}).values():
            return dict(state)
    return {}


def wait_for_health(
    cluster: Cluster, workload: str, status: str, when: Callable[[dict[str, Any]], bool] = lambda _: True
) -> dict[str, Any]:
    seen: list[dict[str, Any]] = [{}]

    def reached() -> bool:
        seen.append(state_of(cluster, workload))
        return seen[-1].get("health", {}).get("status") == status and when(seen[-1])

    cluster.wait_until(f"{workload} is {status}", reached, more=lambda: f"it was {seen[-1]}")
    return seen[-1]


@pytest.mark.parametrize("runtime", ["native", "podman"])
def test_a_workload_that_fails_after_it_was_healthy_is_restarted_with_the_reason(
    cluster: Cluster, tmp_path: Path, runtime: str
) -> None:
    """The http check of the container uses its network namespace: the port is not open on the host."""
    port = 8080 if runtime == "podman" else free_port()
    server = "echo ok > /index.html; httpd -f -h / -p 8080"
    if runtime == "native":
        server = f"cd {tmp_path}; python3 -m http.server -b 127.0.0.1 {port}"
    script = f"{server} & sleep 2; kill $!; sleep 1000"
    health = f"{{http: {{port: {port}, interval: 200ms, startPeriod: 20s, failures: 2}}}}"
    apply(cluster, a_workload("web", script, health, runtime=runtime))
    healthy = wait_for_health(cluster, "web", "Healthy")
    assert (healthy["state"], healthy["subState"], healthy["additionalInfo"]) == ("Running", "Ok", "healthy")
    again = wait_for_health(cluster, "web", "Unhealthy", lambda state: state.get("restarts", 0) > 1)
    reason = f"http check of port {port} failed 2 times: connection refused"
    assert again["health"]["text"] == reason
    assert again["additionalInfo"].startswith(f"unhealthy: {reason}, restart ")
    assert (again["state"], again["subState"]) == ("Running", "Ok")


@pytest.mark.parametrize("runtime", ["native", "podman"])
def test_a_hanging_check_is_ended_with_its_children_and_delays_no_other_check(cluster: Cluster, runtime: str) -> None:
    number = 100_000 + os.getpid()
    hanging = f"[sh, -c, 'sleep {number} & (sleep {number} &) ; setsid sleep {number} & sleep {number}']"
    apply(
        cluster,
        a_workload("hangs", "sleep 1000", f"{{exec: {{command: {hanging}, timeout: 1s, failures: 1}}, "
                   "onUnhealthy: none}", runtime=runtime),
        a_workload("works", "sleep 1000", "{exec: {command: ['true'], interval: 1s}}", runtime=runtime),
    )  # fmt: skip
    wait_for_health(cluster, "works", "Healthy")
    found = wait_for_health(cluster, "hangs", "Unhealthy")
    assert found["health"]["text"].endswith("failed once: no answer within 1 s")
    assert (found["state"], found["subState"]) == ("Running", "Ok")
    cluster.wait_until("nothing of the check is left", lambda: not processes_with(f"sleep\0{number}\0"))


def processes_with(arguments: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if line == arguments.encode():
            found.append(folder.name)
    return found


def test_an_alternating_check_changes_nothing_until_it_fails_often_enough(cluster: Cluster, tmp_path: Path) -> None:
    """Every second check fails; two failures in a row are needed. Then all fail, and the workload is stopped."""
    alternating = f"test ! -e {tmp_path}/fail && if rm {tmp_path}/odd; then true; else touch {tmp_path}/odd; false; fi"
    check = f'{{exec: {{command: [sh, -c, "{alternating} 2>&1"], interval: 100ms, failures: 2}}, onUnhealthy: stop}}'
    apply(cluster, a_workload("flaps", "sleep 1000", check))
    wait_for_health(cluster, "flaps", "Healthy")
    assert state_of(cluster, "flaps")["state"] == "Running"
    (tmp_path / "fail").touch()
    reason = cluster.wait_for("flaps", "Failed(ExecFailed)")
    assert reason.startswith("Stopped, unhealthy: exec check 'sh -c test ! -e ")
    assert " failed 2 times: exit code 1" in reason


def test_a_dependency_on_another_node_waits_until_it_is_healthy(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start_agent("agent_B", runtimes=["native"])
    check = f"{{file: {{path: {tmp_path}/ready, interval: 100ms, failures: 1000}}}}"
    waiting = a_workload("after", "sleep 1000", "", agent="agent_B", more="dependencies: {first: ADD_COND_HEALTHY}")
    apply(cluster, a_workload("first", "sleep 1000", check), waiting)
    trouble = "no such file or directory"
    wait_for_health(cluster, "first", "Starting", lambda state: state["health"]["text"].endswith(trouble))
    assert cluster.states()["after"][0] == "Pending(WaitingToStart)"
    (tmp_path / "ready").touch()
    cluster.wait_for("after", "Running(Ok)")


NOTIFY = """
import os, socket, time
channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
channel.connect(os.environ["NOTIFY_SOCKET"])
for _ in range(20):
    channel.send(b"WATCHDOG=1")
    time.sleep(0.1)
channel.send(b"WATCHDOG=trigger\\nSTATUS=no more coffee")
time.sleep(1000)
"""


def test_a_native_process_reports_its_health_with_sd_notify(cluster: Cluster) -> None:
    """As another user, who can traverse the run folder but not read it."""
    for folder in (cluster.folder, *cluster.folder.parents):
        if folder.stat().st_mode & 0o777 == 0o700:  # a temporary folder of this test run
            folder.chmod(0o711)
    workload = f"""
  notifier:
    agent: {AGENT}
    runtime: native
    runtimeConfig: |
      command: [/usr/bin/python3, -c, {json.dumps(NOTIFY)}]
      user: nobody
    health: {{notify: {{interval: 10s, failures: 1}}, onUnhealthy: none}}
"""
    apply(cluster, workload)
    wait_for_health(cluster, "notifier", "Healthy")
    found = wait_for_health(cluster, "notifier", "Unhealthy")
    assert found["health"]["text"] == "notify check failed once: the workload reports: no more coffee"


def frame(message: ToAnkaios) -> str:
    """A frame of the control interface as `printf` prints it."""
    data = message.SerializeToString()
    return "".join(f"\\{byte:03o}" for byte in bytes([len(data)]) + data)


def test_a_container_reports_its_health_over_the_control_interface(cluster: Cluster) -> None:
    """It needs no access rule and no SDK: two frames."""
    hello = frame(ToAnkaios(hello=Hello(protocolVersion=PROTOCOL_VERSION)))
    good = frame(ToAnkaios(healthNotification=HealthNotification(healthy=True)))
    bad = frame(ToAnkaios(healthNotification=HealthNotification(healthy=False, text="no more coffee")))
    folder = "/run/ankaios/control_interface"
    script = (
        f'cat {folder}/input > /dev/null & exec 3> {folder}/output; printf "{hello}{good}" >&3; '
        f'until test -e /tmp/bad; do sleep 0.1; done; printf "{bad}" >&3; sleep 1000'
    )
    check = "{notify: {interval: 20s, failures: 1}, onUnhealthy: none}"
    apply(cluster, a_workload("notifier", script, check, runtime="podman"))
    wait_for_health(cluster, "notifier", "Healthy")
    (container,) = cluster_podman(cluster, "ps", "--quiet", "--filter=name=notifier").split()
    cluster_podman(cluster, "exec", container, "touch", "/tmp/bad")
    found = wait_for_health(cluster, "notifier", "Unhealthy")
    assert found["health"]["text"] == "notify check failed once: the workload reports: no more coffee"


def cluster_podman(cluster: Cluster, *arguments: str) -> str:
    command = ["podman", *arguments]
    done = subprocess.run(command, env=cluster.environ, check=True, capture_output=True, text=True, timeout=CALL_LIMIT)
    return done.stdout


def test_the_healthcheck_of_an_image_is_used(cluster: Cluster, podman_env: PodmanEnv) -> None:  # noqa: F811
    folder = cluster.folder / "image"
    folder.mkdir()
    (folder / "Containerfile").write_text(
        f"FROM {IMAGE}\nHEALTHCHECK --interval=1s --timeout=20s --retries=1 CMD test -e /ready || (echo no; exit 3)\n"
    )
    build = ["podman", "build", "--format=docker", "--isolation=chroot", "--tag=localhost/checked", str(folder)]
    subprocess.run(build, env=podman_env.environ, check=True, capture_output=True, timeout=CALL_LIMIT)
    script = "sleep 2; touch /ready; sleep 1000"
    workload = a_workload("web", script, "{image: true, onUnhealthy: none}", runtime="podman")
    apply(cluster, workload.replace(f"image: {IMAGE}", "image: localhost/checked"))
    found = wait_for_health(cluster, "web", "Unhealthy")
    assert found["health"]["text"].endswith("failed once: exit code 3: no")
    wait_for_health(cluster, "web", "Healthy")


def test_the_unmodified_sdk_reads_a_state_with_health(cluster: Cluster) -> None:
    """Extension fields are skipped; the health is in the additional information."""
    apply(
        cluster,
        a_workload("first", "sleep 1000", "{file: {path: /, interval: 100ms}}"),
        a_workload("second", "sleep 1000", "", more="dependencies: {first: ADD_COND_HEALTHY}"),
    )
    cluster.wait_for("second", "Running(Ok)")
    state = COMPLETE_STATE.from_form(cluster.state())
    program = (
        "import sys; from ankaios_sdk import CompleteState; from ankaios_sdk._protos import _ank_base;"
        "state = CompleteState(_proto=_ank_base.CompleteState.FromString(sys.stdin.buffer.read()));"
        "found = {one.workload_instance_name.workload_name: one.execution_state"
        " for one in state.get_workload_states().get_as_list()};"
        "print(found['first'].state.name, found['first'].substate.name, found['first'].additional_info);"
        "print(sorted(one.name for one in state.get_workloads()))"
    )
    read = subprocess.run(
        [SDK / "bin/python", "-c", program],
        input=state.SerializeToString(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert read.stdout.decode().splitlines() == ["RUNNING RUNNING_OK healthy", "['first', 'second']"], read.stderr
