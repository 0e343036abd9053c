"""Every folder of examples/ is started by its one command, as a reader would, and behaves as its README describes.

Needs: nothing but the repository; `pod` needs podman and root, `sdk-control-loop` a package index the first time.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.one_command import LIMIT, Terminal, left_by, printed_by, states
from tests.support.podman_env import needs_podman

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DEMO = EXAMPLES / "demo"  # started by scripts/demo


@pytest.fixture
def folder() -> Iterator[Path]:
    """For temporary files, with a path as short as it usually is."""
    with tempfile.TemporaryDirectory(prefix="ank-ex-") as name:
        yield Path(name)


def run(name: str, folder: Path, *flags: str) -> str:
    return printed_by(EXAMPLES / name / "run", folder, *flags)


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
    """An unmodified SDK starts, repairs and deletes only its own workloads."""
    output = run("sdk-control-loop", folder)
    assert "may not delete itself, as it should be: Received error: Access denied" in output
    assert "worker_2 ended (FAILED, Exit code: '3'), starting it again" in output
    assert "survey is done, deleting it" in output
    assert states(output) == dict.fromkeys(["controller", "worker_1", "worker_2", "worker_3"], "Running(Ok)")


def test_dashboard(folder: Path) -> None:
    output = run("dashboard", folder, "-f")
    assert "dashboard | Dashboard: http://127.0.0.1:8088/" in output
    assert states(output) == {"dashboard": "Running(Ok)", "hello": "Running(Ok)"}


def test_device_sharing(folder: Path) -> None:
    output = run("device-sharing", folder)
    assert states(output) == {
        "stereo": "Running(Ok)",
        "single": "Running(Ok)",
        "greedy": "Pending(WaitingToStart)",
    }
    assert "waits for 3 x akri.sh/camera, 2 visible" in output


def test_cameras_of_device_sharing_are_passed_to_their_workloads(folder: Path) -> None:
    output = run("device-sharing", folder, "-f")
    seen = set(re.findall(r"stereo +\| DEBUG_ECHO_DESCRIPTION\w*=(.+)", output))
    assert seen == {"front-camera", "rear-camera"}
    assert re.search(r"single +\| I see (front|rear)-camera", output)


def test_simulation(folder: Path) -> None:
    output = run("simulation", folder)
    assert re.search(r"zone1 +the node loses power", output)
    assert len(re.findall(r"zone1 +db started", output)) == 2
    assert len(re.findall(r"hpc +web started", output)) == 1


@needs_podman
def test_pod(folder: Path) -> None:
    assert states(run("pod", folder)) == {"shop": "Running(Ok)"}
    assert not list((ROOT / "build").glob("pod-*")), "the storage of its podman is gone"


def test_on_a_terminal_an_example_runs_until_ctrl_c(folder: Path) -> None:
    with Terminal(EXAMPLES / "hello/run", folder) as terminal:
        terminal.wait_for(r"Running\(Ok\)")
        assert terminal.process.poll() is None
        terminal.press(b"\x03")
        terminal.wait_for(None)
        assert terminal.process.wait(LIMIT) == 0, terminal.seen
    assert left_by(folder) == []


@pytest.mark.parametrize("example", sorted(set(EXAMPLES.iterdir()) - {DEMO}), ids=lambda example: example.name)
def test_every_example_has_its_command_its_page_and_its_test(example: Path) -> None:
    assert os.access(example / "run", os.X_OK)
    assert (example / "manifest.yaml").exists()
    assert f"examples/{example.name}/run" in (example / "README.md").read_text()
    assert f"def test_{example.name.replace('-', '_')}" in Path(__file__).read_text()
