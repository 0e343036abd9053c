"""Every example that `ank --help` gives, which is what docs/reference/cli.md shows, works on a real cluster.

The cluster has the objects of the examples: the workloads `web` and `db` on the agent `n1`, a config item `ports`, a
camera whose name there is `camera-1a2b3c`, and the programs `generate` and `edit`. Commands without an end get
Ctrl+C after a short time, on a terminal if they need one. Examples with the number of a revision or of a rollout use a
separate cluster with seven revisions and three rollouts.
Needs: nothing but the repository; examples with containers need podman and root.
"""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.support.cluster import Cluster
from tests.support.podman_env import PodmanEnv, why_no_podman
from tests.support.shown_commands import REFERENCE, ROOT, SHELLS, blocks

LIMIT = 60
WEB = """\
apiVersion: v1
workloads:
  web:
    agent: n1
    runtime: native
    tags: {owner: me}
    resources: [{name: camera, quantity: 1}]
    runtimeConfig: |
      command: ["/bin/sh", "-c", "echo ready; exec sleep 1000"]
configs:
  ports: "8080"
deviceConfigurations:
  camera:
    discoveryHandler: {name: debugEcho, discoveryDetails: "descriptions: [camera 14549588]"}
"""
DB = """\
apiVersion: v1
workloads:
  db: {agent: n1, runtime: native, runtimeConfig: 'command: ["sleep", "1000"]'}
"""
STATE = "desiredState: {apiVersion: v1, workloads: {web: {tags: {owner: you}}}}\n"
STORY = """\
- plug: n1/debugEcho/camera
- advance: 5
- expect: {web: Running}
- kill: n1
- advance: 10
- expect: {web: AgentDisconnected}
"""
TOKEN = "0123456789abcdef0123456789abcdef\n"
FOR_EVER = re.compile(r"--watch|get events|logs -f|^ank up|^ank top|^ank dashboard")
CTRL_C_SOON = ("timeout", "--foreground", "--preserve-status", "--signal", "INT", "3")
NEEDS_TERMINAL = re.compile(r"^ank top")
NUMBERED = re.compile(r"^ank (history show|diff|rollback|apply --if-revision|rollout status -f) ")
REVISIONS, ROLLOUTS = 7, 3


def examples() -> list[str]:
    lines = [line for block in blocks(REFERENCE) if block.language in SHELLS for line in block.lines]
    return list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))


class Place:
    """The folder in which the examples are typed, and the environment."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self._home = home
        self._environ = {
            **cluster.environ,
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{ROOT / '.venv/bin'}:{os.environ['PATH']}",
            "ANK_INSECURE": "true",
            "ANK_SERVER_URL": cluster.url,
            "BROWSER": "browser",
            "TERM": "xterm",
        }
        (home / "bin").mkdir()
        for name, text in (("generate", f"cat {home}/db.yaml"), ("edit", "cat"), ("browser", ":")):
            program = home / "bin" / name
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
        files = {"web.yaml": WEB, "db.yaml": DB, "state.yaml": STATE, "story.yaml": STORY, "token": TOKEN}
        for name, text in files.items():
            (home / name).write_text(text)
        (home / "token").chmod(0o600)

    def make_revisions(self) -> None:
        """All but the last revision, which is that of `ank apply web.yaml db.yaml`."""
        for number in range(1, REVISIONS):
            (self._home / "old.yaml").write_text(DB.replace("1000", str(1000 + number)))
            atomic = "--atomic --settle 0s" if number <= ROLLOUTS else ""
            done = self.type_in(f"ank apply {atomic} old.yaml")
            assert done.returncode == 0, done.stdout + done.stderr

    def type_in(self, command: str) -> subprocess.CompletedProcess[str]:
        words = ["bash", "-o", "pipefail", "-c", command]
        if FOR_EVER.search(command):
            words = [*CTRL_C_SOON, *words[:-1], f"exec {command}"]
        if NEEDS_TERMINAL.search(command):
            words = ["script", "--quiet", "--return", "--command", shlex.join(words), "/dev/null"]
        return subprocess.run(
            words, cwd=self._home, env=self._environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=LIMIT, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def podman() -> Iterator[PodmanEnv | None]:
    if why_no_podman():
        yield None
        return
    with PodmanEnv() as env:
        container = env.podman("create", "localhost/bb", "sleep", "1000").strip()
        for image in ("docker.io/library/nginx:latest", "docker.io/library/alpine:3"):
            env.podman("commit", "--quiet", "--change", 'CMD ["sleep", "1000"]', container, image)
        env.podman("rm", container)
        yield env


@contextmanager
def running_place(podman: PodmanEnv | None) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="docs-") as home, Cluster(podman.environ if podman else None) as cluster:
        cluster.start_server()
        cluster.start_agent("n1", runtimes=["native", *(["podman"] if podman else [])])
        yield Place(cluster, Path(home))


@pytest.fixture(scope="module")
def common_place(podman: PodmanEnv | None) -> Iterator[Place]:
    with running_place(podman) as place:
        yield place


@pytest.fixture
def place(common_place: Place, podman: PodmanEnv | None, example: str) -> Iterator[Place]:
    if not NUMBERED.search(example):
        yield common_place
        return
    with running_place(podman) as own:
        own.make_revisions()
        yield own


@pytest.mark.parametrize("example", examples())
def test_an_example_runs(place: Place, podman: PodmanEnv | None, example: str) -> None:
    if "--runtime podman" in example and podman is None:
        pytest.skip(str(why_no_podman()))
    before = place.type_in("ank apply web.yaml db.yaml")
    assert before.returncode == 0, before.stdout + before.stderr
    done = place.type_in(example)
    end = monotonic() + LIMIT
    while "Address already in use" in done.stderr and monotonic() < end:  # other tests use this port for a moment
        sleep(1)
        done = place.type_in(example)
    # 130: ended by Ctrl+C. The findings of `ank doctor` depend on the machine.
    fine = (0, 130) if FOR_EVER.search(example) else (0, 1) if example == "ank doctor" else (0,)
    assert done.returncode in fine, done.stdout + done.stderr


def test_there_are_examples_for_every_command() -> None:
    assert len(examples()) > 25
