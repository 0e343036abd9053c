"""Real processes whose control groups are written to a folder."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.runtimes.containerd.container_processes import SEARCH_SECONDS, ContainerProcesses

FIRST, SECOND = "a" * 64, "0123456789abcdef" * 4


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    made = [subprocess.Popen(["sleep", "100"]) for _ in range(3)]
    yield made
    for process in made:
        process.kill()
        process.wait()


def note_group(proc: Path, pid: int, text: str) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cgroup").write_text(text)


def test_the_first_process_is_found_in_all_kinds_of_control_groups(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    first, child, second = (process.pid for process in processes)
    note_group(tmp_path, first, f"4:memory:/default/{FIRST}\n1:name=systemd:/default/{FIRST}\n")
    note_group(tmp_path, child, f"4:memory:/default/{FIRST}\n")
    note_group(tmp_path, second, f"0::/system.slice/nerdctl-{SECOND}.scope\n")
    (tmp_path / "self").mkdir()
    (tmp_path / "99999999").mkdir()
    found = ContainerProcesses(tmp_path)
    assert found.first_process(FIRST) == first
    assert found.first_process(SECOND) == second
    assert found.first_process("b" * 64) is None


def test_a_search_is_repeated_for_a_new_process_and_at_most_once_a_second(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    now = 100.0
    found = ContainerProcesses(tmp_path, lambda: now)
    old, new = processes[:2]
    note_group(tmp_path, old.pid, f"0::/default/{FIRST}\n")
    assert found.first_process(FIRST) == old.pid
    old.kill()
    old.wait()
    note_group(tmp_path, new.pid, f"0::/default/{FIRST}\n")
    assert found.first_process(FIRST) is None
    now += SEARCH_SECONDS
    assert found.first_process(FIRST) == new.pid
