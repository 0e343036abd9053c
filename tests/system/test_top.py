"""`ank top` in a real terminal: tmux in two sizes, with resizing, keys, and a terminal that is restored.

Needs: tmux.
"""

import shlex
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.cluster import WAIT_SECONDS, Cluster

MANIFEST = """
apiVersion: v1
workloads:
  busy:
    agent: n1
    runtime: native
    runtimeConfig: |
      command: ["/bin/busybox", "sh", "-c", "while true; do echo 'at \\e[31mwork'; sleep 0.1; done"]
  broken:
    agent: n1
    runtime: native
    runtimeConfig: |
      command: ["/bin/busybox", "sh", "-c", "exit 3"]
"""


class Terminal:
    """A separate tmux server."""

    def __init__(self, cluster: Cluster, width: int, height: int) -> None:
        self._socket = str(cluster.folder / "tmux")
        size = ("-x", str(width), "-y", str(height))
        exported = {"COLUMNS": str(width), "LINES": str(height)}  # by some programs, and wrong after resizing
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "sh", env=cluster.environ | exported)
        cluster.wait_until("the shell is ready, for what is typed before may be lost", lambda: self.screen().strip())

    def _tmux(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=env, timeout=30).stdout

    def keys(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait_for(self, *texts: str) -> str:
        until = time.monotonic() + WAIT_SECONDS
        while not all(text in (screen := self.screen()) for text in texts):
            assert time.monotonic() < until, f"timeout while waiting for {texts} in\n{screen}"
            time.sleep(0.1)
        return screen

    def wait_until_absent(self, text: str) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while text in (screen := self.screen()):
            assert time.monotonic() < until, f"'{text}' is still in\n{screen}"
            time.sleep(0.1)

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        made.start_server(MANIFEST)
        made.start_agent("n1", runtimes=["native"])
        made.wait_for("broken", "Failed(ExecFailed)")
        yield made


@pytest.fixture
def terminal(cluster: Cluster) -> Iterator[Terminal]:
    made = Terminal(cluster, 80, 24)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def restored(cluster: Cluster, terminal: Terminal) -> Iterator[None]:
    """The terminal shows and does the same before and after the test."""
    before, after = cluster.folder / "before", cluster.folder / "after"
    terminal.keys(f"stty -g > {before}; echo screen=before", "Enter")
    terminal.wait_for("\nscreen=before")
    terminal.keys(shlex.join(cluster.ank_command("top")), "Enter")
    terminal.wait_for("[q] quit")
    yield
    terminal.wait_for("\nscreen=before")
    terminal.keys(f"stty -g > {after}; echo screen=after", "Enter")
    terminal.wait_for("\nscreen=after")
    assert before.read_text() == after.read_text()


def test_top_shows_the_cluster_and_restores_the_terminal(terminal: Terminal, restored: None) -> None:
    screen = terminal.wait_for("1 with a problem", " MiB", "Running(Ok)")
    lines = screen.splitlines()
    assert lines[0].startswith("ank top  2 workloads")
    assert screen.index("broken") < screen.index("busy")
    assert "[q] quit" in lines[23]
    assert "REASON" not in screen

    terminal.resize(200, 50)
    assert "[q] quit" in terminal.wait_for("REASON", "Exit code: '3'").splitlines()[49]
    terminal.wait_for("sorted by problem")
    terminal.keys("s")
    by_cpu = terminal.wait_for("sorted by cpu")
    assert by_cpu.index("busy") < by_cpu.index("broken")
    terminal.keys("s", "s", "s", "s")
    terminal.wait_for("sorted by problem")
    terminal.keys("?")
    terminal.wait_for("follow its output")
    terminal.keys("q")
    terminal.resize(80, 24)
    terminal.wait_for("RST")

    terminal.keys("w")
    terminal.wait_for("Why 'broken' is in its state", "Exit code: '3'")
    terminal.keys("q")
    terminal.wait_for("RST")
    terminal.keys("/", "busy", "Enter")
    terminal.wait_until_absent("broken")
    terminal.keys("Down", "l")
    terminal.wait_for("Output of 'busy'", "at \N{REPLACEMENT CHARACTER}[31mwork")
    terminal.keys("q")
    terminal.wait_for("RST")
    terminal.keys("q")


def test_a_signal_restores_the_terminal(terminal: Terminal, restored: None) -> None:
    terminal.keys("C-c")


def test_top_without_a_terminal_names_the_alternative(cluster: Cluster) -> None:
    done = cluster.ank("top", check=False)
    assert done.returncode == 1
    assert "needs a terminal" in done.stderr
    assert "ank get workloads -o wide" in done.stderr
