"""The keeper: a small process that starts and supervises one native workload. Runs without the rest of the package.

Input: an order on standard input (a marshalled dict, see `order.py`). Output, in the folder of the workload: the
file `process` when it starts, `note` if mounts or limits are missing, its output with time stamps in `log` and `log.1`,
and the file `exit` when it ends. The keeper outlives the agent, so that output and exit code are not lost while no
agent runs. The keeper owns the process and its mount points on the host. It imports few modules, because one keeper
runs per workload.
"""

from __future__ import annotations

import marshal
import os
import select
import sys
import time
from contextlib import suppress
from typing import Any

from ankaios.runtimes.kernel import Kernel
from ankaios.runtimes.native.cgroups import END_LIMIT, PAUSE, make_cgroups, remove_cgroups, was_killed_for_memory
from ankaios.runtimes.native.exec import FAILED, become_workload
from ankaios.runtimes.native.log_writer import Log
from ankaios.runtimes.native.mounts import MountPoints
from ankaios.runtimes.native.privileges import SET_CHILD_SUBREAPER

READ_SIZE = 64 * 1024
SIGKILL, SIGTERM = 9, 15
POLL_PAUSE = 100  # milliseconds
MOST_LEFT = 64  # maximum number of pieces that are read after the end


def main() -> int:
    """Start the keeper, report the result of the start, and exit."""
    order: dict[str, Any] = marshal.loads(sys.stdin.buffer.read())
    result, report = os.pipe()
    if os.fork() == 0:
        os.close(result)
        keep(order, report)
        os._exit(0)
    os.close(report)
    answer = read_all(result)
    sys.stdout.buffer.write(answer)
    if not answer.startswith(b"ok"):
        sys.stderr.buffer.write(answer or b"the keeper of the process ended too early")
        return 1
    return 0


def keep(order: dict[str, Any], report: int) -> None:
    os.setsid()
    os.chdir(order["folder"])
    detach()
    points, cgroups = MountPoints([]), []
    try:
        lock = lock_start(order["token"])
        points = MountPoints(order["mounts"])
        cgroups = prepare_cgroups(order)
        log = Log(order["log_size"])
        child, streams = start(order, points, cgroups)
        unlock_start(lock)
    except (OSError, NotStarted) as fault:
        points.remove()
        remove_cgroups(cgroups)
        send_result(report, str(fault).encode())
        return
    send_result(report, b"ok")
    try:
        forward_output(child, streams, log, order["orphan_check"], cgroups)
    finally:
        points.remove()


def send_result(report: int, text: bytes) -> None:
    """Without a reader, continue: the agent may have killed the starter, and finds the workload by its folder."""
    with suppress(OSError):
        os.write(report, text)
    os.close(report)


class NotStarted(Exception):
    """The message is the one of the process that should become the workload."""


def lock_start(token: str) -> int:
    """Lock the folder until the process is recorded, so that the agent does not consider the workload lost meanwhile.

    The agent holds the lock and changes the token before it starts the workload again. A delayed start finds a
    different token and must not continue.
    """
    import fcntl

    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(folder, fcntl.LOCK_EX)
    if read_bytes("start") != token.encode():
        raise NotStarted("another start has replaced this one")
    write_file("keeper", identity(os.getpid()))
    return folder


def unlock_start(folder: int) -> None:
    """Unlock explicitly: the process of the workload may have inherited the descriptor, so closing it is not enough."""
    import fcntl

    with suppress(OSError):
        fcntl.flock(folder, fcntl.LOCK_UN)
    os.close(folder)


def prepare_cgroups(order: dict[str, Any]) -> list[str]:
    """Create the cgroups. Without the cgroup for killing, the keeper becomes the parent of orphaned descendants."""
    plan = order["cgroups"]
    # Written before the cgroups are created: if the keeper is killed, the agent removes them.
    write_file("cgroups", os.fsencode("\0".join(plan["folders"])))
    made, order["unset_limits"] = make_cgroups(plan)
    if plan["processes"] not in made:
        Kernel().control(SET_CHILD_SUBREAPER, 1)
    return made


def start(order: dict[str, Any], points: MountPoints, cgroups: list[str]) -> tuple[int, list[int]]:
    """Return the process and the read ends of its output pipes."""
    if points.paths:  # if the keeper is killed, the agent removes them
        write_file("mount_points", os.fsencode("\0".join(points.paths)))
    outputs = [os.pipe(), os.pipe()]
    wait_for_start, allow_start = os.pipe()
    result, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(allow_start)  # if the keeper fails, the read below returns nothing and the child exits
        if os.read(wait_for_start, 1):
            become_workload(order, points, cgroups, [write for _, write in outputs], report)
        os._exit(127)
    for descriptor in (outputs[0][1], outputs[1][1], report, wait_for_start):
        os.close(descriptor)
    # Written before the command runs, so that the agent can always find the workload and its keeper.
    write_file("process", identity(child) + identity(os.getpid()))
    os.write(allow_start, b".")
    note, failed, why = read_all(result).partition(FAILED)
    if failed:
        os.waitpid(child, 0)
        os.unlink("process")  # noqa: PTH108
        raise NotStarted(why.decode(errors="replace"))
    if note:
        points.remove()  # nothing is mounted
    if notes := b" ".join(filter(None, (note, unset_limits(order)))):
        write_file("note", notes)
    return child, [read for read, _ in outputs]


def unset_limits(order: dict[str, Any]) -> bytes:
    limits: list[str] = order["unset_limits"]
    return f"Limits without a usable cgroup: {', '.join(limits)}.".encode() if limits else b""


def detach() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def identity(pid: int) -> bytes:
    """Return process id, start time and boot id."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:  # noqa: PTH123 - pathlib costs memory here
        return b"%d %d %s\n" % (pid, start_time(pid), file.read().strip())


def start_time(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[19])


def write_file(name: str, data: bytes) -> None:
    """Write the file atomically."""
    descriptor = os.open(name + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, data)
    os.close(descriptor)
    os.replace(name + ".new", name)  # noqa: PTH105


def read_bytes(name: str) -> bytes:
    """Return empty bytes if the file does not exist."""
    try:
        with open(name, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def read_all(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, READ_SIZE):
        pieces.append(piece)
    os.close(descriptor)
    return b"".join(pieces)


def forward_output(child: int, streams: list[int], log: Log, orphan_check: int, cgroups: list[str]) -> None:
    """Forward the output until the process ends. `orphan_check` is the interval of the orphan check in milliseconds."""
    poll = select.poll()
    for stream in streams:
        os.set_blocking(stream, False)
        poll.register(stream, select.POLLIN)
    pause = orphan_check if watch_end(child, poll) else POLL_PAUSE
    orphan = Orphan(child, orphan_check)
    while not process_has_ended(child):
        for descriptor, _ in poll.poll(pause):
            if descriptor in streams and forward(streams.index(descriptor), descriptor, log) == b"":
                poll.unregister(descriptor)
        orphan.check()
        reap_adopted(child)
    code = end_group(child)
    killed_for_memory = was_killed_for_memory(cgroups)
    if not cgroups or not remove_cgroups(cgroups):
        end_descendants()
    for number, stream in enumerate(streams):
        for _ in range(MOST_LEFT):  # processes that left the group can continue to print
            if not forward(number, stream, log):
                break
        log.add(number, b"", end=True)
    if os.path.exists("process"):  # noqa: PTH110
        if killed_for_memory:
            write_file("oom", b"")
        write_file("exit", b"%d" % code)  # last, so that the log is complete when the file exists


def watch_end(child: int, poll: select.poll) -> bool:
    """Return whether the end of the process wakes the poll, which old systems do not support."""
    try:
        poll.register(os.pidfd_open(child), select.POLLIN)
    except (OSError, AttributeError):
        return False
    return True


def process_has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def reap_adopted(child: int) -> None:
    """Reap orphaned descendants of the workload, which become children of the keeper."""
    while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)) and found.si_pid != child:
        os.waitpid(found.si_pid, 0)


class Orphan:
    """Ends a workload whose folder was removed: the agent cannot find it and would start it a second time."""

    def __init__(self, child: int, pause: int) -> None:
        self._child = child
        self._pause = pause / 1000
        self._next = time.monotonic() + self._pause
        self._signal = SIGTERM

    def check(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._pause
            if not os.path.exists("process"):  # noqa: PTH110
                os.killpg(self._child, self._signal)
                self._signal = SIGKILL


def forward(number: int, stream: int, log: Log) -> bytes | None:
    """Return the forwarded data; None if there is none now, empty at the end of the stream."""
    try:
        data = os.read(stream, READ_SIZE)
    except BlockingIOError:
        return None
    log.add(number, data)
    return data


def end_group(child: int) -> int:
    """Kill the process group, then reap its leader and return the exit code.

    The id of the group cannot be reused until its leader is reaped.
    """
    with suppress(OSError):  # the group is empty
        os.killpg(child, SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def end_descendants() -> None:
    """Kill the processes that left the group of the workload. Without cgroups they become children of the keeper."""
    until = time.monotonic() + END_LIMIT
    while time.monotonic() < until and (found := children()):
        for pid in found:
            with suppress(OSError):
                os.kill(pid, SIGKILL)
                os.waitpid(pid, os.WNOHANG)  # a process that waits for a dead disk ends later
        time.sleep(PAUSE)


def children() -> list[int]:
    own = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent(name) == own]  # noqa: PTH208


def parent(pid: str) -> int:
    """Return 0 if the process does not exist."""
    fields = read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0
