"""CPU load and free memory of the machine, from /proc.

The load is that of all cores since the last sample; the first one is the average since the machine started.
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
    """The first line: user nice system idle iowait irq softirq steal guest guest_nice; older kernels have fewer."""
    numbers = [int(word) for word in stat.partition("\n")[0].split()[1:10]]
    user, nice, system, idle, iowait, irq, softirq, steal, guest = numbers + [0] * (9 - len(numbers))
    busy = user + nice + system + irq + softirq
    return CpuTimes(busy, busy + idle + iowait + steal + guest)


def parse_free_memory(meminfo: str) -> int:
    """Memory nobody uses for anything, in bytes."""
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
