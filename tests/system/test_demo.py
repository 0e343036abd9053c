"""scripts/demo works from any folder, can be repeated, and leaves nothing behind.

Needs: nothing but the repository; containers are shown where podman can run. The check that nothing is left
runs on a copy of the whole machine, which needs root rights and overlay file systems.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.isolated_podman import why_no_podman
from tests.support.one_command import LIMIT, Terminal, completed, left_by, output_of, printed_by, states

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "scripts/demo"
NATIVE = ROOT / "examples/demo/native.yaml"
MACHINE_COPY = ROOT / "tests/support/machine_copy.sh"
ISOLATED = (
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
)
IN_THE_DEMO = {"prepare": "Succeeded(Ok)", "recorder": "Running(Ok)", "dashboard": "Running(Ok)"}
NEXT_STEPS = ("get workloads --watch", "logs -f recorder", "get devices")
DEFAULT_PORT = ":25551"
NEVER_USED = (
    "rm -rf /run/libpod /run/containers /run/runc /run/crun /var/lib/containers /var/lib/akri /etc/dashboard.conf;"
)
WITHOUT_PODMAN = "rm -f $(command -v podman)"
ALL_RUNS = r"dashboard[^\n]+Running\(Ok\)(?s:.)*recorder[^\n]+Running\(Ok\)"


@pytest.fixture
def folder() -> Iterator[Path]:
    """For temporary files, with a path as short as it usually is."""
    with tempfile.TemporaryDirectory(prefix="ank-demo-") as name:
        yield Path(name)


def test_it_completes_and_cleans_up_twice_in_a_row(folder: Path) -> None:
    """With podman where it can run, otherwise without; the output shows which."""
    for _ in range(2):
        done = completed([DEMO], folder)
        assert left_by(folder) == []
        assert states(done.stdout) == IN_THE_DEMO
        assert re.search(
            r"^Running (containers with podman|plain processes instead of containers: )", done.stdout, re.MULTILINE
        )
        assert re.search(r"^Dashboard on http://127\.0\.0\.1:\d+/$", done.stderr, re.MULTILINE)
        assert not (ROOT / ".demo").exists()


def test_it_shows_the_same_with_plain_processes(folder: Path) -> None:
    flags = ["up", "--settle", "-f", "--runtime", "native", str(NATIVE)]
    output = re.sub(" +", " ", printed_by(ROOT / ".venv/bin/ank", folder, *flags))
    assert states(output) == IN_THE_DEMO
    assert "recorder | recording from front-camera" in output
    assert "dashboard | title = Front view" in output


def suggested_by(seen: str) -> list[str]:
    """The commands to try next, without their beginning, which names the server unless it has the default port."""
    url = re.findall(r"Server on (http://127\.0\.0\.1:\d+)", seen)[-1]
    where = "" if url.endswith(DEFAULT_PORT) else f" -s {url}"
    ank = re.escape(f"{shlex.quote(str(ROOT / '.venv/bin/ank'))} -k{where}")
    return re.findall(rf"^ +{ank} (?:\\ *\r?\n +)?([\w -]+?) *\r?$", seen, re.MULTILINE)


@pytest.mark.parametrize("how", ["ctrl+c", "closed window", "killed"])
def test_on_a_terminal_it_runs_until_it_is_ended_and_then_cleans_up(folder: Path, how: str) -> None:
    with Terminal(DEMO, folder) as terminal:
        terminal.wait_for(ALL_RUNS)
        assert re.search(r"Dashboard on http://127\.0\.0\.1:\d+/", terminal.seen)
        terminal.wait_for("Ctrl\\+C here stops and removes everything")
        assert re.search(r"camera-\w+ +camera +node +1 +0 +recorder", terminal.seen)
        assert suggested_by(terminal.seen)[-3:] == list(NEXT_STEPS)
        if how == "ctrl+c":
            terminal.press(b"\x03")
            terminal.wait_for(None)
            assert "Everything is gone again." in terminal.seen
        elif how == "closed window":
            terminal.hang_up()
        else:
            terminal.process.terminate()
        # 1: it detected immediately that its output is closed.
        assert terminal.process.wait(LIMIT) in ((0, 1) if how == "closed window" else (0,)), terminal.seen
    assert left_by(folder) == []
    assert not (ROOT / ".demo").exists()


def test_what_a_killed_demo_left_is_removed_by_the_next_one(folder: Path) -> None:
    with Terminal(DEMO, folder) as terminal:
        terminal.wait_for(ALL_RUNS)
        os.killpg(terminal.process.pid, signal.SIGKILL)
    assert (ROOT / ".demo").exists()
    assert states(printed_by(DEMO, folder)) == IN_THE_DEMO
    assert not (ROOT / ".demo").exists()


def why_no_copy() -> str | None:
    if os.geteuid() != 0:
        return "a copy of this machine needs root rights"
    for program in ("unshare", "chroot", "ip"):
        if shutil.which(program) is None:
            return f"a copy of this machine needs the program '{program}'"
    if "overlay" not in Path("/proc/filesystems").read_text() or subprocess.call([*ISOLATED, "true"]):
        return "a copy of this machine needs overlay file systems and mount rights"
    return None


@pytest.mark.parametrize("podman", [True, False], ids=["with podman", "without podman"])
def test_nothing_is_left_anywhere_on_the_machine(folder: Path, podman: bool) -> None:
    if reason := why_no_copy():
        pytest.skip(reason)
    if podman and (reason := why_no_podman()):
        pytest.skip(reason)
    on_a_copy: list[str | Path] = [
        *ISOLATED,
        MACHINE_COPY,
        folder,
        ROOT,
        NEVER_USED + ("" if podman else WITHOUT_PODMAN),
    ]
    output, _, left = output_of([*on_a_copy, DEMO], folder, TMPDIR="/tmp", HOME="/root").partition("== left\n")
    assert states(output) == IN_THE_DEMO
    assert ("containers with podman" in output) == podman
    assert left == ""
