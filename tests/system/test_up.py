"""`ank up`: a whole cluster in one process that leaves nothing behind. Needs nothing but this repository."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT = 60


def ank(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ankaios", *arguments]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "TMPDIR": str(folder)}


def up(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ank("up", "--settle", "--runtime", "native", *arguments),
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def rows(output: str) -> dict[str, str]:
    """Workload -> state, of the final table."""
    table = output[output.index("WORKLOAD NAME") :].splitlines()[1:]
    return {line.split()[0]: line.split()[3] for line in table if line.strip()}


def processes_in(folder: Path) -> list[str]:
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}\0".encode() in environ.read_bytes():
                found.append((environ.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_a_manifest_runs_and_nothing_stays(tmp_path: Path) -> None:
    done = up(tmp_path, str(EXAMPLES / "hello/manifest.yaml"))
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout) == {"hello": "Running(Ok)"}
    assert list(tmp_path.iterdir()) == []
    assert processes_in(tmp_path) == []


def test_every_agent_named_in_the_manifests_is_started(tmp_path: Path) -> None:
    done = up(tmp_path, str(EXAMPLES / "dependencies/manifest.yaml"))
    assert rows(done.stdout) == {
        "filesystem": "Succeeded(Ok)",
        "database": "Running(Ok)",
        "api": "Running(Ok)",
        "alarm": "Pending(WaitingToStart)",
    }, done.stderr


def test_a_workload_without_agent_runs_on_the_one_node(tmp_path: Path) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(
        'apiVersion: v1\nworkloads:\n  w: {runtime: native, runtimeConfig: \'command: ["sleep", "1000"]\'}\n'
    )
    assert rows(up(tmp_path, str(manifest)).stdout) == {"w": "Running(Ok)"}


def test_follow_prints_lines_behind_the_name_of_their_workload(tmp_path: Path) -> None:
    done = up(tmp_path, "-f", str(EXAMPLES / "templated-config/manifest.yaml"))
    assert "producer | listening on 127.0.0.1:8080" in done.stdout
    assert "producer | level database is warn" in done.stdout


@pytest.mark.parametrize(
    ("text", "reason"),
    [("apiVersion: v1\nworkloads: [", "Invalid manifest data"), ("apiVersion: v9", "schema validation failed")],
)
def test_a_bad_manifest_is_told_before_anything_starts(tmp_path: Path, text: str, reason: str) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(text)
    done = up(tmp_path, str(manifest))
    assert done.returncode == 1
    assert reason in done.stderr


def test_a_taken_port_is_no_obstacle_and_ctrl_c_cleans_up(tmp_path: Path) -> None:
    """Two at once: one of them cannot have the default port."""
    both = [
        subprocess.Popen(
            ank("up", "--runtime", "native", str(EXAMPLES / "hello/manifest.yaml")),
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    urls = set()
    for process in both:
        assert process.stderr is not None
        urls.add(process.stderr.readline().split(";")[0].split()[-1])
    assert len(urls) == 2
    for url in urls:
        _wait_for_running(url, tmp_path)
    for process in both:
        process.send_signal(signal.SIGINT)
    outputs = [process.communicate(timeout=LIMIT) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert processes_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def _wait_for_running(url: str, folder: Path) -> None:
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        shown = subprocess.run(
            ank("-k", "-s", url, "get", "workloads"),
            env=environment(folder),
            capture_output=True,
            text=True,
            check=False,
        )
        if "Running(Ok)" in shown.stdout:
            return
    raise AssertionError(f"nothing runs on {url}: {shown.stdout}{shown.stderr}")
