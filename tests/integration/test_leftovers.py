"""Processes and files that a test run leaves behind are found, named and removed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.leftovers import (
    RUN_PREFIX,
    RUN_VARIABLE,
    STORAGE_PREFIX,
    processes_of,
    traces_in,
    wait_until_gone,
)

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60


def clean_run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != RUN_VARIABLE}
    return subprocess.run(
        [sys.executable, ROOT / "tests/support/clean_run.py", "bash", "-c", script],
        env={**environ, "TMPDIR": str(folder), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def test_a_run_without_leftovers_has_the_exit_code_of_its_command(tmp_path: Path) -> None:
    for code in (0, 3):
        done = clean_run(f'touch "$TMPDIR/file"; exit {code}', tmp_path)
        assert (done.returncode, done.stderr) == (code, "")
    assert list(tmp_path.iterdir()) == []


def test_a_signal_to_the_run_ends_all_its_processes(tmp_path: Path) -> None:
    waiting = "echo ready; sleep 12345"
    with subprocess.Popen(
        [sys.executable, ROOT / "tests/support/clean_run.py", "bash", "-c", waiting],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        until = time.monotonic() + LIMIT
        while run.poll() is None and time.monotonic() < until:
            run.terminate()  # again, if the first signal was sent before the command was started
            time.sleep(0.2)
        assert run.returncode == 143
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_go_to_a_folder_that_is_removed(tmp_path: Path) -> None:
    done = clean_run('echo "$TMPDIR"; mktemp', tmp_path)
    folder, file = done.stdout.split()
    assert folder.startswith(f"{tmp_path}/{RUN_PREFIX}") and file.startswith(f"{folder}/")
    assert not Path(folder).exists()


def test_a_process_is_found_without_its_environment_and_parent(tmp_path: Path) -> None:
    """Orphaned, in a separate session, with an empty environment, and in another folder."""
    done = clean_run("(cd /; setsid env -i sleep 12345 & )", tmp_path)
    assert done.returncode == 1
    assert "left behind" in done.stderr and ": sleep 12345" in done.stderr
    pid = done.stderr.split("process ")[1].split(":")[0]
    assert not Path(f"/proc/{pid}").exists(), "it was ended"


def test_a_process_that_is_ending_is_not_reported(tmp_path: Path) -> None:
    assert clean_run("(setsid sleep 0.5 &)", tmp_path).returncode == 0


def test_a_podman_storage_is_named_and_removed(tmp_path: Path) -> None:
    done = clean_run(f'mkdir "$TMPDIR/{STORAGE_PREFIX}1"', tmp_path)
    assert done.returncode == 1
    assert f"/{STORAGE_PREFIX}1" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_processes_and_files_of_other_users_are_ignored(tmp_path: Path) -> None:
    """A process, a file and a folder of podman that another user creates during the run."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    run = f"touch {ready}; until [ -e {go} ]; do sleep 0.05; done"
    with subprocess.Popen(
        [sys.executable, ROOT / "tests/support/clean_run.py", "sh", "-c", run],
        env={**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        assert wait_until_gone(lambda: not ready.exists(), LIMIT) is False
        with subprocess.Popen(["sleep", "1000"], env={}, cwd="/", start_new_session=True) as other:
            for place in (".config/ankaios", ".local/share/containers/storage", f"{STORAGE_PREFIX}other"):
                (tmp_path / place).mkdir(parents=True)
            go.touch()
            _, errors = started.communicate(timeout=LIMIT)
            assert (started.returncode, errors, other.poll()) == (0, "", None)
            other.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root rights")
def test_a_mount_is_named_and_removed(tmp_path: Path) -> None:
    done = clean_run('mkdir "$TMPDIR/m"; mount -t tmpfs none "$TMPDIR/m"', tmp_path)
    if "permission denied" in done.stderr:
        pytest.skip("this root may not mount")
    assert done.returncode == 1
    assert "\nmount " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_end_by_a_signal_is_reported_as_in_shells(tmp_path: Path) -> None:
    assert clean_run("kill -TERM $$", tmp_path).returncode == 143


def test_mounts_and_storage_outside_the_run_folder_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / f"{STORAGE_PREFIX}other").mkdir()
    assert traces_in(tmp_path / "run") == []


def test_processes_of_the_run_are_found_by_the_folder_in_their_environment(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "1000"], env={"TMPDIR": f"{tmp_path}/1/deeper"})
    try:
        assert list(processes_of(tmp_path / "1")) == [child.pid]
        assert processes_of(tmp_path / "11") == processes_of(tmp_path / "2") == {}
    finally:
        child.kill()
        child.wait()
    assert wait_until_gone(lambda: processes_of(tmp_path)) == {}


STEPS = """
import sys
from tests.support.clean_run import CleanRun
from tests.support.runner import Runner, finish
runner = Runner(CleanRun())
runner.step("good", lambda: runner.command(["true"]))
runner.step("bad", lambda: runner.command(["sh", "-c", "exit 3"], ["true"]))
runner.step("untidy", lambda: runner.command(["sh", "-c", "sleep 12345 & "]))
sys.exit(finish(runner))
"""


def test_the_last_line_of_a_run_names_all_that_failed(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != RUN_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", STEPS],
        env={**environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 1
    assert "bad: 'sh -c exit 3' ended with code 3\n" in done.stdout
    assert ": sleep 12345" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("== failed: bad, nothing left behind (after ")
    assert list(tmp_path.iterdir()) == []
