"""The small process that stays with one native workload. Run without the rest of the package.

In comes an order on standard input (a marshalled dict, see `native_order.py`); out go, in the workload's folder, the
file `process` once it starts, `note` if it cannot be as it should, its output with time stamps in `log` and `log.1`,
and the file `exit` when it ends. It outlives the agent, so neither output nor exit code is lost while no agent is
there. Owned are the process and what is on the host only for its mounts. It imports little: one runs per workload.
"""

from __future__ import annotations

import marshal
import os
import select
import sys
import time
from typing import TYPE_CHECKING

from ankaios.runtimes.native_cgroups import END_LIMIT, has_lacked_memory, join_cgroups, make_cgroups, remove_cgroups
from ankaios.runtimes.native_mounts import MountPoints, mount_all
from ankaios.runtimes.native_ownership import give_folders
from ankaios.runtimes.native_privileges import SET_CHILD_SUBREAPER, Kernel, give_up_privileges, needs_kernel

if TYPE_CHECKING:  # the module typing alone would take more memory than all the rest
    from typing import Any

READ_SIZE = 64 * 1024
LONGEST_LINE = 16 * 1024
SIGKILL, SIGTERM = 9, 15
POLL_PAUSE = 100  # milliseconds
MOST_LEFT = 64  # pieces that are read after the end
FAILED = b"\0"  # what follows is why the workload did not start
STREAMS = (b"stdout", b"stderr")


def main() -> int:
    """Start the keeper, tell how the start went, and leave it alone."""
    order: dict[str, Any] = marshal.loads(sys.stdin.buffer.read())
    told, tell = os.pipe()
    if os.fork() == 0:
        os.close(told)
        keep(order, tell)
        os._exit(0)
    os.close(tell)
    answer = read_all(told)
    sys.stdout.buffer.write(answer)
    if not answer.startswith(b"ok"):
        sys.stderr.buffer.write(answer or b"the keeper of the process ended too early")
        return 1
    return 0


def keep(order: dict[str, Any], tell: int) -> None:
    os.setsid()
    os.chdir(order["folder"])
    detach()
    points, cgroups = MountPoints([]), []
    try:
        turn = take_turn(order["token"])
        points = MountPoints(order["mounts"])
        cgroups = prepare_cgroups(order)
        log = Log(order["log_size"])
        child, streams = start(order, points, cgroups)
        end_turn(turn)
    except (OSError, NotStarted) as fault:
        points.remove()
        remove_cgroups(cgroups)
        os.write(tell, str(fault).encode())
        return
    os.write(tell, b"ok")
    os.close(tell)
    try:
        forward_output(child, streams, log, order["orphan_check"], cgroups)
    finally:
        points.remove()


class NotStarted(Exception):
    """In the words of the process that was to become the workload."""


def take_turn(token: str) -> int:
    """Lock the folder until the process is noted, so that nobody takes the workload for lost meanwhile.

    The agent changes the token, with the lock, before it starts the workload again: a start that was delayed until then
    must not go on.
    """
    import fcntl

    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:  # noqa: SIM105
        fcntl.flock(folder, fcntl.LOCK_EX)
    except OSError:
        pass  # a file system without locks
    if read_bytes("start") != token.encode():
        raise NotStarted("another start has replaced this one")
    write_file("keeper", identity(os.getpid()))
    return folder


def end_turn(folder: int) -> None:
    """The workload's process may have inherited the descriptor, so closing it is not enough."""
    import fcntl

    try:  # noqa: SIM105
        fcntl.flock(folder, fcntl.LOCK_UN)
    except OSError:
        pass
    os.close(folder)


def prepare_cgroups(order: dict[str, Any]) -> list[str]:
    """Without the cgroup that ends the workload, the keeper becomes the parent of what the workload leaves behind."""
    plan = order["cgroups"]
    write_file(
        "cgroups", os.fsencode("\0".join(plan["folders"]))
    )  # first: if the keeper is killed, the agent ends them
    made, unset = make_cgroups(plan)
    order["unset_limits"] = [*order["unset_limits"], *unset]
    if plan["processes"] not in made:
        Kernel().control(SET_CHILD_SUBREAPER, 1)
    return made


def start(order: dict[str, Any], points: MountPoints, cgroups: list[str]) -> tuple[int, list[int]]:
    """The process and what it prints."""
    if points.paths:  # if the keeper is killed, the agent removes them
        write_file("mount_points", os.fsencode("\0".join(points.paths)))
    outputs = [os.pipe(), os.pipe()]
    go_on, go = os.pipe()
    told, tell_back = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)  # a keeper that fails never writes to it, and then this is over
        if os.read(go_on, 1):
            become_workload(order, points, cgroups, [write for _, write in outputs], tell_back)
        os._exit(127)
    for descriptor in (outputs[0][1], outputs[1][1], tell_back, go_on):
        os.close(descriptor)
    write_file("process", process_text(child))  # before the command runs, so it can always be found
    os.write(go, b".")
    note, failed, why = read_all(told).partition(FAILED)
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


def process_text(pid: int) -> bytes:
    """Of the workload, then of the keeper."""
    return identity(pid) + identity(os.getpid())


def identity(pid: int) -> bytes:
    """Process id, its start time and the boot it belongs to."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:  # noqa: PTH123 - pathlib costs memory here
        return b"%d %d %s\n" % (pid, start_time(pid), file.read().strip())


def start_time(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[19])


def write_file(name: str, data: bytes) -> None:
    """Whole or not at all."""
    descriptor = os.open(name + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, data)
    os.close(descriptor)
    os.replace(name + ".new", name)  # noqa: PTH105


def read_bytes(name: str) -> bytes:
    """Nothing, if there is no such file."""
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


# -- the workload


def become_workload(
    order: dict[str, Any], points: MountPoints, cgroups: list[str], outputs: list[int], tell: int
) -> None:
    """Never returns: the process becomes the workload's command, or tells why not."""
    try:
        os.setsid()
        join_cgroups(cgroups)
        kernel = Kernel() if needs_kernel(order) else None
        note = mount_all(order, points.fault)
        os.write(tell, note.encode())
        os.dup2(outputs[0], 1)
        os.dup2(outputs[1], 2)
        restore_signals()
        set_limits(order["limits"])
        give_folders(order, is_mounted=not note)
        give_up_privileges(order, kernel)
        os.chdir(order["working_dir"])
        execute(order["command"], order["env"])
    except BaseException as fault:
        os.write(tell, FAILED + str(fault).encode())
    os._exit(127)


def execute(command: list[str], env: dict[str, str]) -> None:
    """Like os.execvpe, which however imports a module that the workload's user may not be able to read."""
    program = command[0]
    folders = [""] if "/" in program else [f"{folder}/" for folder in env["PATH"].split(":")]
    fault: OSError = FileNotFoundError(2, f"{os.strerror(2)}: '{program}'")
    for folder in folders:
        try:
            os.execve(folder + program, command, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as other:
            fault = other
    raise fault


def restore_signals() -> None:
    """Python ignores these, and a command would inherit that."""
    import signal

    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def set_limits(limits: list[tuple[str, int]]) -> None:
    if limits:
        import resource

        for name, value in limits:
            resource.setrlimit(getattr(resource, name), (value, value))


# -- keeping it


class Log:
    """Lines of two streams with time stamps, in two files that together stay below a size."""

    def __init__(self, size: int) -> None:
        self._half = max(size // 2, 1)
        self._rest = [b"", b""]
        self._open()

    def _open(self) -> None:
        self._file = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._file).st_size

    def add(self, stream: int, data: bytes, end: bool = False) -> None:
        """Whole lines are written, the rest waits for its end."""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        stamp = time_stamp() + b" " + STREAMS[stream]
        written = [b"%s F %s\n" % (stamp, line) for line in lines]
        if rest and (end or len(rest) > LONGEST_LINE):
            written.append(b"%s P %s\n" % (stamp, rest))
            rest = b""
        self._rest[stream] = rest
        if written:
            self._write(b"".join(written))

    def _write(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._half:
            os.close(self._file)
            os.replace("log", "log.1")  # noqa: PTH105
            self._open()
        self._size += len(data)
        while data:
            data = data[os.write(self._file, data) :]


def time_stamp() -> bytes:
    """UTC, with a fixed length, so that stamps compare as text."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % nanoseconds


def forward_output(child: int, streams: list[int], log: Log, orphan_check: int, cgroups: list[str]) -> None:
    """Until the process ends. `orphan_check`: the milliseconds between two looks whether its folder is there."""
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
    lacked_memory = has_lacked_memory(cgroups)
    if not cgroups or not remove_cgroups(cgroups):
        end_descendants()
    for number, stream in enumerate(streams):
        for _ in range(MOST_LEFT):  # whoever left the group may go on printing
            if not forward(number, stream, log):
                break
        keep_output(log, number, b"", end=True)
    if os.path.exists("process"):  # noqa: PTH110
        if lacked_memory:
            write_file("oom", b"")
        write_file("exit", b"%d" % code)  # last, so that whoever knows of the end finds all that was printed


def watch_end(child: int, poll: select.poll) -> bool:
    """Whether the end of the process wakes the poll; old systems cannot do that."""
    try:
        poll.register(os.pidfd_open(child), select.POLLIN)
    except (OSError, AttributeError):
        return False
    return True


def process_has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def reap_adopted(child: int) -> None:
    """Descendants of the workload whose parents have ended become children of the keeper."""
    while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)) and found.si_pid != child:
        os.waitpid(found.si_pid, 0)


class Orphan:
    """Ends a workload whose folder is gone: nobody can find it again, and it would be started a second time."""

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
    """What came, None if there is nothing now, empty if there is nothing more to come."""
    try:
        data = os.read(stream, READ_SIZE)
    except BlockingIOError:
        return None
    keep_output(log, number, data)
    return data


def keep_output(log: Log, number: int, data: bytes, end: bool = False) -> None:
    """A full disk costs log lines, not the workload."""
    try:  # noqa: SIM105 - contextlib costs memory here
        log.add(number, data, end)
    except OSError:
        pass


def end_group(child: int) -> int:
    """End what the process left in its group while its id cannot be anybody else's; returns the exit code."""
    try:  # noqa: SIM105
        os.killpg(child, SIGKILL)
    except OSError:
        pass  # nobody is left
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def end_descendants() -> None:
    """What left the group of the workload: without cgroups, all of it becomes a child of the keeper, one by one."""
    until = time.monotonic() + END_LIMIT
    while time.monotonic() < until and (found := children()):
        for pid in found:
            try:
                os.kill(pid, SIGKILL)
                os.waitpid(pid, 0)
            except OSError:
                pass


def children() -> list[int]:
    own = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent(name) == own]  # noqa: PTH208


def parent(pid: str) -> int:
    """0 if there is no such process."""
    fields = read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0
