"""Discovery handlers as readers of the tutorial write them, in Python and in Go, with a real agent.

Needs: nothing but the repository; the handler in Go needs Go and its modules.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.device_manifests import a_cluster, a_user, apply, delete, instances

EXAMPLE = Path(__file__).resolve().parents[2] / "docs/tutorials/discovery-handler"
BUILD_SECONDS = 300


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with a_cluster() as cluster:
        cluster.start_server()
        cluster.start_agent("node-a", runtimes=["native"])
        yield cluster


def command_of(language: str, folder: Path) -> list[str]:
    if language == "python":
        return [sys.executable, str(EXAMPLE / "handler.py")]
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed, so the handler in Go cannot be built")
    program = folder / "handler"
    built = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=EXAMPLE / "go",
        env={**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
    )
    if "dial tcp" in built.stderr or "no such host" in built.stderr:
        pytest.skip("the modules of the handler in Go cannot be fetched")
    assert built.returncode == 0, built.stderr
    return [str(program)]


@pytest.mark.timeout(BUILD_SECONDS + 60)
@pytest.mark.parametrize("language", ["python", "go"])
def test_a_handler_of_the_tutorial_reports_files_as_devices(cluster: Cluster, tmp_path: Path, language: str) -> None:
    """Its endpoint is called again after a restart of the agent, although it registers only once."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "one").write_text("1")
    configuration = {"discoveryHandler": {"name": f"files-{language}", "discoveryDetails": str(files)}}
    handler = subprocess.Popen(command_of(language, tmp_path), env=cluster.environ)
    try:
        apply(cluster, {"deviceConfigurations": {"file": configuration}}, a_user("user", resource="file"))
        cluster.wait_for("user", "Running(Ok)")
        (files / "two").write_text("2")
        cluster.wait_until("both files are devices", lambda: len(instances(cluster)) == 2)
        known = (cluster.folder / "run/node-a_io/devices/handlers.json").read_text()
        cluster.kill_agent("node-a")
        cluster.start_agent("node-a", runtimes=["native"])
        (files / "three").write_text("3")
        cluster.wait_until("the handler was called again", lambda: len(instances(cluster)) == 3)
        assert (cluster.folder / "run/node-a_io/devices/handlers.json").read_text() == known
        delete(cluster, "user")
        cluster.ank("delete", "device-configuration", "file")
        cluster.wait_until("there are no devices", lambda: instances(cluster) == [])
        assert "deviceConfigurations" not in cluster.state("desiredState")["desiredState"]
    finally:
        handler.terminate()
        handler.wait(timeout=30)
