"""Finds the first process of containers by their control groups, without a call of a runtime.

Input: /proc. Output: process ids. Owns the processes that were found, and the time of the last search.

Runtimes name the control group of a container after its id, with every cgroup manager and in both versions of control
groups. All containers are found with one search, which is repeated at most once a second.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic

from msgspec import Struct

from ankaios.runtimes.exit_watch import process_start

SEARCH_SECONDS = 1.0
_CONTAINER_ID = re.compile(rb"[0-9a-f]{64}")


class ContainerProcess(Struct, frozen=True, order=True):
    """`start` is in clock ticks since boot."""

    start: int
    pid: int


class ContainerProcesses:
    def __init__(self, proc: Path = Path("/proc"), clock: Callable[[], float] = monotonic) -> None:
        self._proc = proc
        self._clock = clock
        self._found: dict[str, ContainerProcess] = {}
        self._searched = float("-inf")

    def first_process(self, container: str) -> int | None:
        """None if the container has no process."""
        known = self._found.get(container)
        if known is not None and process_start(known.pid) == known.start:
            return known.pid
        if self._clock() - self._searched < SEARCH_SECONDS:
            return None
        self._found = self._search()
        self._searched = self._clock()
        known = self._found.get(container)
        return known.pid if known is not None else None

    def _search(self) -> dict[str, ContainerProcess]:
        found: dict[str, ContainerProcess] = {}
        for entry in self._proc.iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):  # it has ended
                ids = set(_CONTAINER_ID.findall((entry / "cgroup").read_bytes()))
                start = process_start(int(entry.name)) if ids else None
                if start is not None:
                    process = ContainerProcess(start, int(entry.name))
                    for each in map(bytes.decode, ids):
                        found[each] = min(found.get(each, process), process)
        return found
