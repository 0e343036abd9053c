"""Server, agent and `ank` of a user without root rights: containers by rootless podman, and native processes.

Needs: for root the right to mount, to add a temporary user; for containers podman, busybox and newuidmap, and a kernel
that permits user namespaces. See docs/installing.md, "Without root".
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.isolated_podman import IMAGE
from tests.support.one_command import states
from tests.support.rootless import PYTHON, UID, ClusterOf, UnprivilegedUser, why_unavailable

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
UID_OF_PERSON = os.geteuid() or UID
# The periodic resync lists containers after 30 seconds: a faster report was caused by a detected change.
SOON = 15.0

FILES = """\
    files:
      - mountPoint: /etc/greeting.conf
        data: good morning
    controlInterfaceAccess:
      allowRules:
        - type: StateRule
          operation: Read
          filterMasks: ["desiredState"]
"""
CONTAINER = f"""\
apiVersion: v1
workloads:
  web:
    runtime: podman
    agent: node
    restartPolicy: NEVER
{FILES}
    runtimeConfig: |
      image: {IMAGE}
      commandArgs:
        - /bin/sh
        - -c
        - |
          trap "exit 7" TERM
          trap "exit 3" USR1
          cat /etc/greeting.conf; echo
          test -p /run/ankaios/control_interface/input && test -w /run/ankaios/control_interface/output && echo pipes
          while true; do sleep 0.1; done
"""
PROCESS = f"""\
apiVersion: v1
workloads:
  walk:
    runtime: native
    agent: node
    restartPolicy: NEVER
{FILES}
    runtimeConfig: |
      command:
        - /bin/sh
        - -c
        - |
          cat "$ANKAIOS_FILES/etc/greeting.conf"; echo
          test -p "$ANKAIOS_CONTROL_INTERFACE/input" && test -w "$ANKAIOS_CONTROL_INTERFACE/output" && echo pipes
          id -u
          exec sleep 1000000
"""


@pytest.fixture(scope="module")
def person() -> Iterator[UnprivilegedUser]:
    with UnprivilegedUser() as person:
        if why := person.run(str(PYTHON), "-c", "").stderr.decode():
            pytest.skip(f"others may not use this Python: {why}")
        seen = person.run(str(PYTHON), "-c", "import os, ankaios; print(os.geteuid())")
        assert seen.returncode == 0, seen.stderr.decode()
        assert int(seen.stdout) == UID_OF_PERSON != 0
        yield person


@pytest.fixture(scope="module")
def podman_user(person: UnprivilegedUser) -> UnprivilegedUser:
    """A user with podman and an image."""
    if reason := person.why_no_podman():
        pytest.skip(reason)
    return person


def podman(person: UnprivilegedUser, *arguments: str) -> str:
    done = person.run("podman", *arguments)
    assert done.returncode == 0, f"podman {' '.join(arguments)} ended with {done.returncode}: {done.stderr.decode()}"
    return done.stdout.decode()


@contextmanager
def a_cluster_of(podman_user: UnprivilegedUser) -> Iterator[Cluster]:
    """A cluster where the container runs."""
    with ClusterOf(podman_user) as cluster:
        cluster.start_server()
        cluster.start_agent("node", runtimes=["podman"])
        cluster.apply(CONTAINER)
        cluster.wait_for("web", "Running(Ok)")
        yield cluster


def test_containers_are_started_logged_and_removed(podman_user: UnprivilegedUser) -> None:
    with a_cluster_of(podman_user) as cluster:
        cluster.wait_until("it has logged", lambda: "pipes" in cluster.ank("logs", "web").stdout)
        logged = cluster.ank("logs", "web").stdout
        assert logged.splitlines() == ["good morning", "pipes"], logged
        name = podman(podman_user, "ps", "--format", "{{.Names}}").strip()
        assert re.fullmatch(r"web\.[0-9a-f]+\.node", name), name
        process = int(podman(podman_user, "inspect", "--format", "{{.State.Pid}}", name))
        assert Path(f"/proc/{process}").stat().st_uid == UID_OF_PERSON
        # Not by `podman exec`: the end of the container kills a command in it that has not ended yet.
        os.kill(process, signal.SIGUSR1)
        info = cluster.wait_for("web", "Failed(ExecFailed)", seconds=SOON)
        assert "'3'" in info, info
        cluster.ank("delete", "workload", "web")
        left = podman(podman_user, "ps", "--all", "--format", "{{.Names}} {{.Status}}")
        assert left == "", f"{left}\n{cluster.logs()}"


def test_a_restarted_agent_resumes_its_containers(podman_user: UnprivilegedUser) -> None:
    with a_cluster_of(podman_user) as cluster:
        before = podman(podman_user, "ps", "--quiet", "--no-trunc")
        cluster.kill_agent("node")
        cluster.wait_for("web", "AgentDisconnected")
        cluster.start_agent("node", runtimes=["podman"])
        cluster.wait_for("web", "Running(Ok)")
        assert podman(podman_user, "ps", "--quiet", "--no-trunc") == before
        cluster.ank("delete", "workload", "web")


def test_native_processes_find_files_and_fifos_by_variables_and_the_state_shows_it(person: UnprivilegedUser) -> None:
    with ClusterOf(person) as cluster:
        cluster.start_server()
        cluster.start_agent("node", runtimes=["native"])
        cluster.apply(PROCESS)
        info = cluster.wait_for("walk", "Running(Ok)")
        assert "ANKAIOS_CONTROL_INTERFACE" in info, info
        assert "ANKAIOS_FILES" in info, info
        cluster.wait_until("it has logged", lambda: str(UID_OF_PERSON) in cluster.ank("logs", "walk").stdout)
        assert cluster.ank("logs", "walk").stdout.splitlines() == ["good morning", "pipes", str(UID_OF_PERSON)]
        cluster.ank("delete", "workload", "walk")


def test_one_command_is_enough(person: UnprivilegedUser) -> None:
    """`ank up` without podman: server, agent and workload."""
    manifest = person.folder / "lib/manifest.yaml"
    shutil.copyfile(ROOT / "examples/hello/manifest.yaml", manifest)
    manifest.chmod(0o644)
    arguments = ["-m", "ankaios", "up", "--settle", "--runtime", "native", str(manifest)]
    done = subprocess.run(
        person.command(str(PYTHON), *arguments), env=person.environ, capture_output=True, text=True, timeout=60
    )
    assert re.search(r"hello +node +native +Running\(Ok\)", done.stdout), done.stdout + done.stderr


def test_the_demo_runs_containers_and_leaves_nothing(podman_user: UnprivilegedUser) -> None:
    """With a podman that the user also uses for other containers."""
    before = podman(podman_user, "images", "--all", "--quiet")
    clone = podman_user.folder / "tmp/clone"
    for part in ("tools", "tests/support", "examples"):
        shutil.copytree(ROOT / part, clone / part, ignore=shutil.ignore_patterns("__pycache__"))
    programs = clone / ".venv/bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(PYTHON)
    (programs / "ank").write_text(f"#!{programs}/python\nfrom ankaios.cli.__main__ import main\nmain()\n")
    subprocess.run(["chmod", "-R", "a+rwX,a+x", clone], check=True)
    done = podman_user.run(str(programs / "python"), str(clone / "tools/demo.py"))
    assert done.stdout.startswith(b"Running containers with podman"), done.stdout + done.stderr
    seen = states(done.stdout.decode())
    wanted = {"prepare": "Succeeded(Ok)", "recorder": "Running(Ok)", "dashboard": "Running(Ok)"}
    assert seen == wanted, done.stdout.decode()
    assert not (clone / ".demo").exists()
    assert [path.name for path in (podman_user.folder / "tmp").iterdir()] == ["clone"]
    assert podman(podman_user, "images", "--all", "--quiet") == before
