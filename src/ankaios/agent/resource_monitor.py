"""Measures CPU load and free memory of the machine.

Input: files of /proc. Output: `Load`. The load is the average of all cores since the last sample; the first sample is
the average since the boot.
"""

from pathlib import Path

from msgspec import Struct

_STAT = Path("/proc/stat")
_MEMINFO = Path("/proc/meminfo")


class CpuTimes(Struct, frozen=True):
    busy: int = 0
    total: int = 0


class Load(Struct, frozen=True):
    cpu_percent: int
    free_bytes: int


def parse_cpu_times(stat: str) -> CpuTimes:
    """Parse the first line: user nice system idle iowait irq softirq steal guest; older kernels have fewer fields."""
    numbers = [int(word) for word in stat.partition("\n")[0].split()[1:10]]
    user, nice, system, idle, iowait, irq, softirq, steal, guest = numbers + [0] * (9 - len(numbers))
    busy = user + nice + system + irq + softirq
    return CpuTimes(busy, busy + idle + iowait + steal + guest)


def parse_free_memory(meminfo: str) -> int:
    """Return the unused memory in bytes."""
    for line in meminfo.splitlines():
        if line.startswith("MemFree:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_percent(before: CpuTimes, now: CpuTimes) -> int:
    total = now.total - before.total
    if total <= 0:
        return 0
    return min(100, max(0, int(100 * (now.busy - before.busy) / total + 0.5)))


class ResourceMonitor:
    def __init__(self, stat: Path = _STAT, meminfo: Path = _MEMINFO) -> None:
        self._stat, self._meminfo = stat, meminfo
        self._last = CpuTimes()

    def sample(self) -> Load:
        now = parse_cpu_times(self._stat.read_text())
        percent = cpu_percent(self._last, now)
        self._last = now
        return Load(percent, parse_free_memory(self._meminfo.read_text()))
