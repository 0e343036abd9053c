"""Detects the end of a process that is not a child of the agent, immediately and without polling.

Input: a process id and a function that verifies the identity of the process. Output: one call when the process ends.
The module owns the process descriptor. The kernel can reuse a process id at any time, so the identity is verified after
the descriptor was opened.
"""

import asyncio
import os
import select
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_POLL_PAUSES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)


class ExitWatch:
    """Calls `on_exit` once, from the event loop, unless closed before."""

    def __init__(self, pid: int, descriptor: int, on_exit: Callable[[], None]) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self._on_exit: Callable[[], None] | None = on_exit
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._fired)

    @property
    def open(self) -> bool:
        return self._on_exit is not None

    def _fired(self) -> None:
        on_exit = self._on_exit
        self.close()
        if on_exit is not None:
            on_exit()

    def close(self) -> None:
        if self._on_exit is not None:
            self._on_exit = None
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)


def watch_exit(pid: int, is_expected: Callable[[int], bool], on_exit: Callable[[], None]) -> ExitWatch | None:
    """Return None if the process has ended, is a different one, or cannot be watched on this system."""
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, ValueError, AttributeError):  # AttributeError: Python was built for an old system
        return None
    if not is_expected(pid) or _has_ended(descriptor):
        os.close(descriptor)
        return None
    return ExitWatch(pid, descriptor, on_exit)


async def wait_for_exit(pid: int, has_ended: Callable[[], bool]) -> None:
    """Wait until `has_ended` returns true. Polls only if the process cannot be watched on this system."""
    pauses = iter(_POLL_PAUSES)
    while not has_ended():
        over = asyncio.Event()
        watch = watch_exit(pid, lambda _: not has_ended(), over.set)
        if watch is None:
            await asyncio.sleep(next(pauses, _POLL_PAUSES[-1]))
            continue
        try:
            await over.wait()
        finally:
            watch.close()


def _has_ended(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def process_start(pid: int) -> int | None:
    """Return the start time in clock ticks since boot. Process id, start time and boot id together are unique.

    None: the process does not exist, or it has ended and is not reaped yet.
    """
    fields = _stat(pid)
    return int(fields[19]) if len(fields) > 19 and fields[0] not in (b"Z", b"X") else None


def parent_of(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if len(fields) > 1 else None


def session_of(pid: int) -> int | None:
    """Return the leader of the session of the process."""
    fields = _stat(pid)
    return int(fields[3]) if len(fields) > 3 else None


def command_line(pid: int) -> list[str]:
    return _read(f"/proc/{pid}/cmdline").decode(errors="surrogateescape").split("\0")[:-1]


def _stat(pid: int) -> list[bytes]:
    """Return the fields after the name. The name can contain blanks and brackets."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _read(path: str) -> bytes:
    """Return empty bytes if the file does not exist."""
    with suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123 - read for each container at the start
        return file.read()
    return b""


def boot_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""
