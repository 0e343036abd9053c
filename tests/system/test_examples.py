"""Every folder of examples/ is started by its one command, as a reader would, and does what its README says.

Needs: nothing but the repository; `pod` needs podman and root, `sdk-control-loop` a package index the first time.
"""

import fcntl
import os
import pty
import re
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.podman_env import needs_podman

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DEMO = EXAMPLES / "demo"  # started by scripts/demo
LIMIT = 90


@pytest.fixture
def folder() -> Iterator[Path]:
    """For temporary files, with a path as short as it usually is."""
    with tempfile.TemporaryDirectory(prefix="ank-ex-") as name:
        yield Path(name)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "TMPDIR": str(folder), "HOME": str(folder)}


def run(name: str, folder: Path, *flags: str) -> str:
    return printed_by(EXAMPLES / name / "run", folder, *flags)


def printed_by(command: Path, folder: Path, *flags: str) -> str:
    """What the command prints without a terminal; nothing of it is left."""
    done = subprocess.run(
        [command, *flags],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert left_by(folder) == []
    return done.stdout


def left_by(folder: Path) -> list[str]:
    """Processes and files of an example that ran with this folder as the one for temporary files."""
    found = [str(path) for path in folder.iterdir()]
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}\0".encode() in environ.read_bytes():
                found.append((environ.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def states(output: str) -> dict[str, str]:
    """Workload -> state, as the final table has it."""
    table = output[output.index("WORKLOAD NAME") :].splitlines()[1:]
    return {line.split()[0]: line.split()[3] for line in table if line.strip()}


def test_hello(folder: Path) -> None:
    output = run("hello", folder, "-f")
    assert "hello | hello from " in output
    assert states(output) == {"hello": "Running(Ok)"}


def test_dependencies_over_two_agents(folder: Path) -> None:
    output = run("dependencies", folder)
    assert states(output) == {
        "filesystem": "Succeeded(Ok)",
        "database": "Running(Ok)",
        "api": "Running(Ok)",
        "alarm": "Pending(WaitingToStart)",
    }
    assert re.search(r"^api +front ", output, re.MULTILINE)
    assert re.search(r"^database +rear ", output, re.MULTILINE)


def test_templated_config(folder: Path) -> None:
    output = run("templated-config", folder, "-f")
    assert "producer | listening on 127.0.0.1:8080" in output
    assert "producer | level api is debug" in output
    assert "reader | port = 8080" in re.sub(" +", " ", output)


def test_sdk_control_loop(folder: Path) -> None:
    """An unmodified SDK starts, heals and deletes workloads, and nothing but its own."""
    output = run("sdk-control-loop", folder)
    assert "may not delete itself, as it should be: Received error: Access denied" in output
    assert "worker_2 ended (FAILED, Exit code: '3'), starting it again" in output
    assert "survey is done, clearing it away" in output
    assert states(output) == dict.fromkeys(["controller", "worker_1", "worker_2", "worker_3"], "Running(Ok)")


def test_device_sharing(folder: Path) -> None:
    output = run("device-sharing", folder)
    assert states(output) == {
        "stereo": "Running(Ok)",
        "single": "Running(Ok)",
        "greedy": "Pending(WaitingToStart)",
    }
    assert "waits for 3 x akri.sh/camera, 2 visible" in output


def test_cameras_of_device_sharing_are_told_to_their_workloads(folder: Path) -> None:
    output = run("device-sharing", folder, "-f")
    seen = set(re.findall(r"stereo +\| DEBUG_ECHO_DESCRIPTION\w*=(.+)", output))
    assert seen == {"front-camera", "rear-camera"}
    assert re.search(r"single +\| I see (front|rear)-camera", output)


@needs_podman
def test_pod(folder: Path) -> None:
    assert states(run("pod", folder)) == {"shop": "Running(Ok)"}
    assert not list((ROOT / "build").glob("pod-*")), "the storage of its podman is gone"


IN_THE_DEMO = {"prepare": "Succeeded(Ok)", "recorder": "Running(Ok)", "dashboard": "Running(Ok)"}


def test_the_demo_runs_through_and_cleans_up(folder: Path) -> None:
    """With podman where it can run, else without; it says which."""
    output = printed_by(ROOT / "scripts/demo", folder)
    assert states(output) == IN_THE_DEMO
    assert re.search(r"^Running (containers with podman|plain processes instead of containers: )", output, re.MULTILINE)
    assert not (ROOT / ".demo").exists()


def test_the_demo_is_the_same_on_plain_processes(folder: Path) -> None:
    output = printed_by(ROOT / ".venv/bin/ank", folder, "up", "--settle", "-f", str(DEMO / "native.yaml"))
    assert states(output) == IN_THE_DEMO
    assert "recorder | recording from front-camera" in re.sub(" +", " ", output)
    assert "dashboard | title = Front view" in re.sub(" +", " ", output)


def test_on_a_terminal_an_example_lives_until_ctrl_c(folder: Path) -> None:
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        [EXAMPLES / "hello/run"],
        cwd=folder,
        env={**environment(folder), "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=make_controlling,
    )
    os.close(theirs)
    seen = ""
    try:
        seen = read_until(terminal, "Running(Ok)")
        assert process.poll() is None
        os.write(terminal, b"\x03")
        seen += read_until(terminal, None)
        assert process.wait(LIMIT) == 0, seen
    finally:
        process.kill()
        os.close(terminal)
    assert left_by(folder) == []


def make_controlling() -> None:
    """Only the terminal that controls a session turns Ctrl+C into a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_until(terminal: int, text: str | None) -> str:
    """Until the text appears, or without text until the other side is closed."""
    seen, until = "", time.monotonic() + LIMIT
    while text is None or text not in seen:
        assert time.monotonic() < until, seen
        try:
            seen += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # closed
            break
    return seen


@pytest.mark.parametrize("example", sorted(set(EXAMPLES.iterdir()) - {DEMO}), ids=lambda example: example.name)
def test_every_example_has_its_command_its_page_and_its_test(example: Path) -> None:
    assert os.access(example / "run", os.X_OK)
    assert (example / "manifest.yaml").exists()
    assert f"examples/{example.name}/run" in (example / "README.md").read_text()
    assert f"def test_{example.name.replace('-', '_')}" in Path(__file__).read_text()
