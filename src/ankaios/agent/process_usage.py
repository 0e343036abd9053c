"""Measures CPU time and memory of workloads from cgroups and /proc, without a call of a runtime.

Input: the first processes of a workload. Output: one `UsageSample`. Owns nothing.

A container has a separate cgroup, which counts all its processes. A native process may share the cgroup of the agent;
then the process and its descendants are added up. The memory of a cgroup is counted without inactive file pages, which
the kernel can drop. The memory of processes is their resident size, so shared pages count several times.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class UsageSample(Struct, frozen=True):
    """`cpu_seconds` since the start; `uptime` in seconds."""

    cpu_seconds: float
    memory_bytes: int
    uptime: float


class ProcessStat(Struct, frozen=True):
    parent: int
    cpu_ticks: int
    start_ticks: int
    resident_pages: int


def parse_stat(text: str) -> ProcessStat:
    """Parse /proc/<pid>/stat. CPU time includes that of ended children that the process has waited for."""
    fields = text.rpartition(")")[2].split()
    return ProcessStat(
        parent=int(fields[1]),
        cpu_ticks=sum(map(int, fields[11:15])),
        start_ticks=int(fields[19]),
        resident_pages=int(fields[21]),
    )


def parse_groups(text: str) -> dict[str, str]:
    """Parse /proc/<pid>/cgroup: the path by controller; the unified hierarchy has an empty name."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def cpu_millis(before: UsageSample | None, now: UsageSample) -> int:
    """Return the CPU usage between two samples, or since the start if the second sample is of a new process."""
    if before is None or now.uptime <= before.uptime or now.cpu_seconds < before.cpu_seconds:
        before = UsageSample(0.0, 0, 0.0)
    seconds = now.uptime - before.uptime
    return round(1000 * (now.cpu_seconds - before.cpu_seconds) / seconds) if seconds > 0 else 0


class UsageReader:
    """Reads one round of samples: processes are listed at most once."""

    def __init__(self, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> None:
        self._proc = proc
        self._groups = groups
        self._uptime = float((proc / "uptime").read_text().split()[0])
        self._own_groups = self._groups_of("self")
        self._stats: dict[int, ProcessStat] | None = None

    def read(self, pids: Iterable[int]) -> UsageSample | None:
        """Return None if none of the processes exists."""
        found = [sample for pid in pids if (sample := self._read_one(pid)) is not None]
        if not found:
            return None
        return UsageSample(
            sum(sample.cpu_seconds for sample in found),
            sum(sample.memory_bytes for sample in found),
            max(sample.uptime for sample in found),
        )

    def _read_one(self, pid: int) -> UsageSample | None:
        try:
            first = parse_stat((self._proc / str(pid) / "stat").read_text())
            measured = self._of_group(self._groups_of(str(pid))) or self._of_processes(pid)
        except (OSError, ValueError, IndexError):
            return None
        return UsageSample(*measured, uptime=max(self._uptime - first.start_ticks / _TICKS, 0.0))

    def _groups_of(self, process: str) -> dict[str, str]:
        return parse_groups((self._proc / process / "cgroup").read_text())

    def _of_group(self, groups: dict[str, str]) -> tuple[float, int] | None:
        """Return None if the process has no separate cgroup for both CPU and memory."""
        with suppress(OSError, ValueError, StopIteration):
            if (unified := self._own_folder(groups, "", ("", "unified"))) and (unified / "memory.current").exists():
                return _value(unified / "cpu.stat", "usage_usec") / 1e6, _memory(unified, "memory.current")
            accounting = self._own_folder(groups, "cpuacct", ("cpuacct", "cpu,cpuacct"))
            memory = self._own_folder(groups, "memory", ("memory",))
            if accounting and memory:
                nanoseconds = int((accounting / "cpuacct.usage").read_text())
                return nanoseconds / 1e9, _memory(memory, "memory.usage_in_bytes")
        return None

    def _own_folder(self, groups: dict[str, str], controller: str, mounts: Iterable[str]) -> Path | None:
        path = groups.get(controller, "/")
        if path == self._own_groups.get(controller, "/") or path == "/" or "/.." in path:
            return None
        folders = (self._groups / mount / path.lstrip("/") for mount in mounts)
        return next(filter(Path.is_dir, folders), None)

    def _of_processes(self, pid: int) -> tuple[float, int]:
        family = list(self._family(pid))
        return sum(one.cpu_ticks for one in family) / _TICKS, sum(one.resident_pages for one in family) * _PAGE

    def _family(self, pid: int) -> Iterator[ProcessStat]:
        if self._stats is None:
            self._stats = dict(self._all_stats())
        children: dict[int, list[int]] = {}
        for child, stat in self._stats.items():
            children.setdefault(stat.parent, []).append(child)
        waiting = [pid]
        while waiting:
            one = waiting.pop()
            if one in self._stats:
                yield self._stats[one]
            waiting += children.get(one, ())

    def _all_stats(self) -> Iterator[tuple[int, ProcessStat]]:
        for entry in self._proc.iterdir():
            if entry.name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    yield int(entry.name), parse_stat((entry / "stat").read_text())


def _memory(folder: Path, usage: str) -> int:
    name = "inactive_file" if usage == "memory.current" else "total_inactive_file"
    return max(int((folder / usage).read_text()) - _value(folder / "memory.stat", name), 0)


def _value(file: Path, name: str) -> int:
    """Return the number after the name in a file with one name and number per line."""
    return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(f"{name} "))
