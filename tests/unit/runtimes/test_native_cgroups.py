"""What the control groups of a native workload report about its memory."""

from pathlib import Path

import pytest

from ankaios.runtimes.native.cgroups import was_killed_for_memory


@pytest.mark.parametrize("file", ["memory.events", "memory.oom_control"])
@pytest.mark.parametrize(("count", "expected"), [(0, False), (2, True)])
def test_kills_of_the_kernel_are_counted(tmp_path: Path, file: str, count: int, expected: bool) -> None:
    (tmp_path / file).write_text(f"oom_kill_disable 0\noom 5\noom_kill {count}\noom_group_kill 0\n")
    assert was_killed_for_memory(["/no/such/group", str(tmp_path)]) is expected


def test_a_group_without_memory_limits_reports_nothing(tmp_path: Path) -> None:
    assert not was_killed_for_memory([str(tmp_path)])
