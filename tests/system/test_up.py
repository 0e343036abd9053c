"""`ank up`: a whole cluster in one process that leaves nothing behind. Needs nothing but this repository."""

import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.support.mount_rights import needs_mounts
from tests.support.one_command import environment, processes_of, states

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT = 60
SLOW_TO_STOP = """\
apiVersion: v1
workloads:
  slow:
    runtime: native
    runtimeConfig: |
      command: ["/bin/sh", "-c", "trap 'sleep 2; exit' TERM; while true; do sleep 0.1; done"]
"""
CYCLE = """\
apiVersion: v1
workloads:
  chicken: {runtime: native, runtimeConfig: 'command: ["true"]', dependencies: {egg: ADD_COND_RUNNING}}
  egg: {runtime: native, runtimeConfig: 'command: ["true"]', dependencies: {chicken: ADD_COND_RUNNING}}
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """For temporary files, with a path as short as it usually is: sockets are in it."""
    with tempfile.TemporaryDirectory(prefix="up-") as name:
        yield Path(name)


def ank(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ankaios", *arguments]


def up(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ank("up", "--settle", "--runtime", "native", *arguments),
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@contextmanager
def going_up(folder: Path, manifest: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """`ank up` and its output; killed at the end if it still runs."""
    with subprocess.Popen(
        ank("up", "--runtime", "native", str(manifest)),
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            yield process, process.stderr
        finally:
            process.kill()


def test_a_manifest_is_run_and_everything_is_removed_at_the_end(folder: Path) -> None:
    done = up(folder, str(EXAMPLES / "hello/manifest.yaml"))
    assert done.returncode == 0, done.stderr
    assert states(done.stdout) == {"hello": "Running(Ok)"}
    assert list(folder.iterdir()) == []
    assert processes_of(folder) == []


def test_every_agent_named_in_the_manifests_is_started(folder: Path) -> None:
    done = up(folder, str(EXAMPLES / "dependencies/manifest.yaml"))
    assert states(done.stdout) == {
        "filesystem": "Succeeded(Ok)",
        "database": "Running(Ok)",
        "api": "Running(Ok)",
        "alarm": "Pending(WaitingToStart)",
    }, done.stderr


def test_a_workload_without_agent_runs_on_the_one_node(folder: Path) -> None:
    manifest = folder / "m.yaml"
    manifest.write_text(
        'apiVersion: v1\nworkloads:\n  w: {runtime: native, runtimeConfig: \'command: ["sleep", "1000"]\'}\n'
    )
    assert states(up(folder, str(manifest)).stdout) == {"w": "Running(Ok)"}


def test_a_kept_state_is_continued(folder: Path) -> None:
    kept = folder / "kept"
    first = up(folder, "--keep", str(kept), str(EXAMPLES / "hello/manifest.yaml"))
    assert states(first.stdout) == {"hello": "Running(Ok)"}, first.stderr
    assert (kept / "state.db").stat().st_mode & 0o777 == 0o600
    assert processes_of(folder) == []
    second = up(folder, "--keep", str(kept))
    assert states(second.stdout) == {"hello": "Running(Ok)"}, second.stderr


def test_follow_prints_lines_behind_the_name_of_their_workload(folder: Path) -> None:
    done = up(folder, "-f", str(EXAMPLES / "templated-config/manifest.yaml"))
    assert "producer | listening on 127.0.0.1:8080" in done.stdout
    assert "producer | level database is warn" in done.stdout


@needs_mounts
def test_mount_points_of_files_are_removed_with_the_last_workload(folder: Path) -> None:
    target = folder / "etc/app/app.conf"
    workload = """\
  {0}:
    runtime: native
    runtimeConfig: 'command: [sh, -c, "cat {1}; exec sleep 1000"]'
    files: [{{mountPoint: {1}, data: "for {0}\\n"}}]
"""
    manifest = folder / "m.yaml"
    manifest.write_text("apiVersion: v1\nworkloads:\n" + "".join(workload.format(name, target) for name in ("a", "b")))
    done = up(folder, "-f", str(manifest))
    assert {"a | for a", "b | for b"} <= set(done.stdout.splitlines()), done.stdout + done.stderr
    assert list(folder.iterdir()) == [manifest]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("apiVersion: v1\nworkloads: [", "Invalid manifest data"), ("apiVersion: v9", "schema validation failed")],
)
def test_an_invalid_manifest_is_reported_before_the_start(folder: Path, text: str, reason: str) -> None:
    manifest = folder / "m.yaml"
    manifest.write_text(text)
    done = up(folder, str(manifest))
    assert done.returncode == 1
    assert reason in done.stderr


def test_a_refused_manifest_leaves_nothing(folder: Path) -> None:
    """Detected by the server, after the folder for temporary files was created."""
    manifest = folder / "m.yaml"
    manifest.write_text(CYCLE)
    done = up(folder, str(manifest))
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: workload dependency 'chicken' is part of a cycle."
    assert list(folder.iterdir()) == [manifest]


@pytest.mark.parametrize("follow", [[], ["-f"]])
def test_workloads_are_removed_if_the_output_cannot_be_written(folder: Path, follow: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            ank("up", "--settle", "--runtime", "native", *follow, str(EXAMPLES / "hello/manifest.yaml")),
            env=environment(folder),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: Could not write the output: No space left on device"
    assert processes_of(folder) == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 141)], ids=["killed", "window closed"])
def test_it_cleans_up_after_any_way_to_end_it(folder: Path, sign: signal.Signals, code: int) -> None:
    process = subprocess.Popen(
        ank("up", "-f", "--runtime", "native", str(EXAMPLES / "hello/manifest.yaml")),
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith("hello | ")
    if sign == signal.SIGHUP:  # the reader of the output ends with its window
        process.stdout.close()
        process.stderr.close()
    process.send_signal(sign)
    assert process.wait(LIMIT) == code
    assert processes_of(folder) == []
    assert list(folder.iterdir()) == []
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("seconds", [0.0, 0.15, 0.3, 0.45, 0.6])
def test_an_end_in_the_middle_of_the_start_leaves_nothing(folder: Path, seconds: float) -> None:
    """During any work of the agent: here it loads devices, or starts a workload with devices."""
    with going_up(folder, EXAMPLES / "device-sharing/manifest.yaml") as (process, output):
        assert output.readline().startswith("Server on ")
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0
    assert processes_of(folder) == []
    assert list(folder.iterdir()) == []


def test_a_workload_started_during_the_cleanup_is_removed_too(folder: Path) -> None:
    """A controller restarts its removed workloads until it is removed itself."""
    (folder / "m.yaml").write_text(SLOW_TO_STOP)
    late = ["--runtime", "native", "--agent", "node", "--config", 'command: ["sleep", "1000"]']
    with going_up(folder, folder / "m.yaml") as (process, output):
        url = output.readline().split(";")[0].split()[-1]
        _wait_for_running(url, folder)
        process.send_signal(signal.SIGINT)
        assert output.readline().startswith("Stopping and removing all workloads")
        command = ank("-k", "-s", url, "--no-wait", "run", "workload", "late", *late)
        assert subprocess.run(command, env=environment(folder), timeout=LIMIT, check=False).returncode == 0
        assert process.wait(LIMIT / 2) == 0, "it ended before the time limit for cleaning up"
    assert processes_of(folder) == []


def test_a_port_in_use_is_replaced_and_ctrl_c_cleans_up(folder: Path) -> None:
    """Two at the same time: one of them cannot use the default port."""
    both = [
        subprocess.Popen(
            ank("up", "--runtime", "native", str(EXAMPLES / "hello/manifest.yaml")),
            env=environment(folder),
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
        _wait_for_running(url, folder)
    for process in both:
        process.send_signal(signal.SIGINT)
    outputs = [process.communicate(timeout=LIMIT) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert processes_of(folder) == []
    assert list(folder.iterdir()) == []


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


def test_the_dashboard_shows_the_cluster_and_ends_with_it(folder: Path) -> None:
    command = ank("up", "--dashboard", "--runtime", "native", str(EXAMPLES / "hello/manifest.yaml"))
    with subprocess.Popen(
        command, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            line = next(line for line in lines if line.startswith("Dashboard on "))
            with urllib.request.urlopen(line.split()[2], timeout=LIMIT) as page:
                assert b"Ankaios dashboard" in page.read()
            process.send_signal(signal.SIGINT)
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()
