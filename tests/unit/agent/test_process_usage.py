"""Samples from control groups of both versions and from processes; the last test measures a real process."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ankaios.agent.process_usage import UsageReader, UsageSample, cpu_millis, parse_groups, parse_stat

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def stat_line(pid: int, parent: int, cpu: int = 0, start: int = 0, pages: int = 0) -> str:
    times = f"{cpu} 0 0 0"
    return f"{pid} (a) b) c) S {parent} 1 1 0 -1 0 0 0 0 0 {times} 20 0 1 0 {start} 0 {pages} 0\n"


class Machine:
    """Files in the format of the kernel."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.groups = folder / "proc", folder / "cgroup"
        self.write(self.proc / "uptime", "100.0 50.0\n")
        self.write(self.proc / "self/cgroup", "0::/agent\n")

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def process(self, pid: int, parent: int = 1, group: str = "0::/agent\n", **more: int) -> None:
        self.write(self.proc / str(pid) / "stat", stat_line(pid, parent, **more))
        self.write(self.proc / str(pid) / "cgroup", group)

    def read(self, *pids: int) -> UsageSample | None:
        return UsageReader(self.proc, self.groups).read(pids)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_unified_group_counts_everything_in_it(machine: Machine) -> None:
    machine.process(7, group="0::/pod/web\n", start=90 * TICKS)
    machine.write(machine.groups / "pod/web/cpu.stat", "usage_usec 2500000\nuser_usec 1\n")
    machine.write(machine.groups / "pod/web/memory.current", "5000\n")
    machine.write(machine.groups / "pod/web/memory.stat", "anon 1\ninactive_file 1000\n")
    assert machine.read(7) == UsageSample(2.5, 4000, 10.0)


def test_groups_of_the_first_version_are_read_from_two_controllers(machine: Machine) -> None:
    machine.process(7, group="2:cpuacct:/web\n1:memory:/web\n0::/\n")
    machine.write(machine.groups / "cpuacct/web/cpuacct.usage", "1500000000\n")
    machine.write(machine.groups / "memory/web/memory.usage_in_bytes", "3000\n")
    machine.write(machine.groups / "memory/web/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n")
    assert machine.read(7) == UsageSample(1.5, 2500, 100.0)


def test_a_process_in_the_group_of_the_agent_counts_with_its_descendants(machine: Machine) -> None:
    machine.process(7, cpu=TICKS, pages=2)
    machine.process(8, parent=7, cpu=TICKS, pages=3)
    machine.process(9, parent=8, cpu=TICKS, pages=1)
    machine.process(10, parent=1, cpu=TICKS, pages=9)
    assert machine.read(7) == UsageSample(3.0, 6 * PAGE, 100.0)


def test_a_group_that_is_not_visible_is_not_used(machine: Machine) -> None:
    machine.process(7, group="0::/../../other\n", pages=1)
    assert machine.read(7) == UsageSample(0.0, PAGE, 100.0)


def test_usage_of_several_containers_is_added_and_missing_ones_are_ignored(machine: Machine) -> None:
    machine.process(7, cpu=TICKS, start=50 * TICKS)
    machine.process(8, cpu=TICKS, start=60 * TICKS)
    assert machine.read(7, 8, 99) == UsageSample(2.0, 0, 50.0)
    assert machine.read(99) is None


def test_an_invalid_file_is_no_sample(machine: Machine) -> None:
    machine.process(7)
    machine.write(machine.proc / "7/stat", "nonsense")
    assert machine.read(7) is None


def test_names_with_brackets_and_blanks_are_skipped() -> None:
    assert parse_stat(stat_line(7, 3, cpu=5, start=6, pages=7)).parent == 3


def test_groups_are_found_by_controller() -> None:
    assert parse_groups("4:cpu,cpuacct:/a:b\n0::/c\n") == {"cpu": "/a:b", "cpuacct": "/a:b", "": "/c"}


@pytest.mark.parametrize(
    ("before", "millis"),
    [
        (UsageSample(1.0, 0, 8.0), 500),
        (None, 200),  # since the start
        (UsageSample(5.0, 0, 8.0), 200),  # of another process
        (UsageSample(2.0, 0, 10.0), 200),  # at the same time
    ],
)
def test_cpu_usage_is_that_between_two_samples(before: UsageSample | None, millis: int) -> None:
    assert cpu_millis(before, UsageSample(2.0, 0, 10.0)) == millis


def test_the_usage_of_a_real_process_is_measured() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        before = UsageReader().read([busy.pid])
        until = time.monotonic() + 20
        while True:
            now = UsageReader().read([busy.pid])
            assert now is not None
            if cpu_millis(before, now) > 50 and now.memory_bytes > 1_000_000:
                break
            assert time.monotonic() < until, now
            time.sleep(0.1)
    finally:
        busy.kill()
        busy.wait()
