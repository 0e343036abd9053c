from pathlib import Path

import pytest

from ankaios.agent.resource_monitor import CpuTimes, Load, ResourceMonitor, cpu_percent, parse_cpu_times

STAT = "cpu  {} 5 10 100 20 3 2 7 4 1\ncpu0 1 2 3 4\nintr 5\n"


def test_cpu_times_are_busy_time_and_total_time() -> None:
    assert parse_cpu_times(STAT.format(30)) == CpuTimes(30 + 5 + 10 + 3 + 2, 50 + 100 + 20 + 7 + 4)
    assert parse_cpu_times("cpu 1 2 3 4\n") == CpuTimes(6, 10)


@pytest.mark.parametrize(
    ("busy", "total", "percent"), [(50, 100, 50), (0, 10, 0), (1, 200, 1), (1, 201, 0), (10, 10, 100), (5, 0, 0)]
)
def test_the_load_is_rounded_to_whole_percents(busy: int, total: int, percent: int) -> None:
    assert cpu_percent(CpuTimes(7, 9), CpuTimes(7 + busy, 9 + total)) == percent


def test_counters_that_decrease_give_no_load() -> None:
    assert cpu_percent(CpuTimes(10, 10), CpuTimes(5, 5)) == 0
    assert cpu_percent(CpuTimes(10, 10), CpuTimes(5, 20)) == 0


def test_the_first_sample_is_the_average_since_boot_and_the_next_that_since_then(tmp_path: Path) -> None:
    stat, meminfo = tmp_path / "stat", tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  100 kB\nMemFree:     42 kB\nMemAvailable: 77 kB\n")
    stat.write_text(STAT.format(30))
    monitor = ResourceMonitor(stat, meminfo)
    assert monitor.sample() == Load(28, 42 * 1024)
    stat.write_text(STAT.format(130))
    assert monitor.sample() == Load(100, 42 * 1024)
    meminfo.write_text("nothing of use\n")
    assert monitor.sample() == Load(0, 0)


def test_the_load_of_this_machine_is_measured() -> None:
    load = ResourceMonitor().sample()
    assert 0 <= load.cpu_percent <= 100
    assert load.free_bytes > 0
