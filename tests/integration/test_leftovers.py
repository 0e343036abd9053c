"""What a run leaves behind is found, named and ended: the tool behind `scripts/test` is itself under test."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.leftovers import (
    KEEPER_VARIABLE,
    PLACES,
    RUN_PREFIX,
    RUN_VARIABLE,
    Traces,
    processes_of,
    wait_until_gone,
)

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60


def clean_run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name not in (RUN_VARIABLE, KEEPER_VARIABLE)}
    return subprocess.run(
        [sys.executable, ROOT / "tests/support/clean_run.py", "bash", "-c", script],
        env={**environ, "TMPDIR": str(folder), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def test_a_run_that_leaves_nothing_ends_as_its_command_did(tmp_path: Path) -> None:
    for code in (0, 3):
        done = clean_run(f'touch "$TMPDIR/file"; exit {code}', tmp_path)
        assert (done.returncode, done.stderr) == (code, "")
    assert list(tmp_path.iterdir()) == []


def test_who_is_told_to_end_tells_all_that_is_waited_for(tmp_path: Path) -> None:
    waiting = "trap 'exit 143' TERM; echo ready; sleep 12345"
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
            run.terminate()  # again, if it came before there was something to wait for
            time.sleep(0.2)
        assert run.returncode == 143
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_go_to_a_folder_that_is_removed(tmp_path: Path) -> None:
    done = clean_run('echo "$TMPDIR"; mktemp', tmp_path)
    folder, file = done.stdout.split()
    assert folder.startswith(f"{tmp_path}/{RUN_PREFIX}") and file.startswith(f"{folder}/")
    assert not Path(folder).exists()


def test_a_process_is_found_even_if_it_hid_everything_it_came_from(tmp_path: Path) -> None:
    """Orphaned, in a session of its own, with an empty environment, and said to be elsewhere."""
    done = clean_run("(cd /; setsid env -i sleep 12345 & )", tmp_path)
    assert done.returncode == 1
    assert "left behind" in done.stderr and ": sleep 12345" in done.stderr
    pid = done.stderr.split("process ")[1].split(":")[0]
    assert not Path(f"/proc/{pid}").exists(), "it was ended"


def test_what_just_ends_is_not_left_behind(tmp_path: Path) -> None:
    assert clean_run("(setsid sleep 0.5 &)", tmp_path).returncode == 0


def test_a_new_file_in_one_of_the_places_is_named(tmp_path: Path) -> None:
    done = clean_run('mkdir -p "$HOME/.config/ankaios"', tmp_path)
    assert done.returncode == 1
    assert f"file {tmp_path}/.config/ankaios" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root rights")
def test_a_mount_is_named_and_removed(tmp_path: Path) -> None:
    done = clean_run('mkdir "$TMPDIR/m"; mount -t tmpfs none "$TMPDIR/m"', tmp_path)
    if "permission denied" in done.stderr:
        pytest.skip("this root may not mount")
    assert done.returncode == 1
    assert "\nmount " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_end_by_a_signal_is_told_as_shells_do(tmp_path: Path) -> None:
    assert clean_run("kill -TERM $$", tmp_path).returncode == 143


def test_what_was_there_before_is_not_new(tmp_path: Path) -> None:
    before = Traces.now(tmp_path)
    assert Traces.now(tmp_path).since(before) == []


def test_places_are_absolute_or_of_the_user() -> None:
    assert [place for place in PLACES if not place.startswith(("/", "~/"))] == []


def test_own_processes_are_known_by_the_folder_in_their_environment(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "1000"], env={"TMPDIR": f"{tmp_path}/deeper"})
    try:
        assert list(processes_of(tmp_path)) == [child.pid]
    finally:
        child.kill()
        child.wait()
    assert wait_until_gone(lambda: processes_of(tmp_path)) == {}
