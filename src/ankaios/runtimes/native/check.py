"""Runs the command of a health check with the context of a native process. One helper process per check.

Input: an order on standard input (its length in a line, then a marshalled dict). Output: a marshalled result on
standard output. The command gets the user, privileges, environment, limits, cgroup and mounts of the workload's
process. All processes that it starts become descendants of the helper process. The helper process kills them when the
time limit is exceeded, when the command has ended, or when the agent closes its end of the pipe. The helper process is
started without the rest of the package.
"""

from __future__ import annotations

import marshal
import os
import select
import sys
import time
from typing import TYPE_CHECKING

from ankaios.runtimes.kernel import Kernel
from ankaios.runtimes.native.exec import DEFAULT_PATH, execute, restore_signals
from ankaios.runtimes.native.mounts import NEW_NAMESPACE
from ankaios.runtimes.native.privileges import (
    SET_CHILD_SUBREAPER,
    SET_NO_NEW_PRIVILEGES,
    change_user,
    limit_capabilities,
)
from ankaios.runtimes.native.shim import SIGKILL, end_descendants, start_time

if TYPE_CHECKING:
    from typing import Any

SET_SIGNAL_OF_PARENTS_DEATH = 1
KEPT = 2048
LIMITS = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "STACK")


def main() -> int:
    length = int(sys.stdin.buffer.readline())
    return run(marshal.loads(sys.stdin.buffer.read(length)))


def run(order: dict[str, Any]) -> int:
    kernel = Kernel()
    kernel.control(SET_CHILD_SUBREAPER, 1)
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        become_check(order, into, kernel)
    os.close(into)
    code, output = follow(child, out, time.monotonic() + order["limit"])
    end_descendants()
    sys.stdout.buffer.write(marshal.dumps({"code": code, "output": output}))
    return 0


def become_check(order: dict[str, Any], into: int, kernel: Kernel) -> None:
    """Never returns."""
    try:
        kernel.control(SET_SIGNAL_OF_PARENTS_DEATH, SIGKILL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((nothing, into, into)):
            os.dup2(descriptor, number)
        os.setsid()
        process = f"/proc/{order['process']}"
        facts = read_facts(process)
        join(process, kernel)
        restore_signals()
        copy_limits(order["process"])
        if start_time(order["process"]) != order["start"]:  # a later process may have the same id
            raise OSError("the process of the workload has ended")
        drop_other_privileges(facts, kernel)
        os.chdir(facts["folder"] if os.path.isdir(facts["folder"]) else "/")  # noqa: PTH112
        env = facts["env"]
        execute(order["command"], env, os.fsdecode(env.get(b"PATH", DEFAULT_PATH.encode())))
    except BaseException as fault:
        os.write(2, f"cannot run '{order['command'][0]}': {fault}".encode())
    os._exit(127)


def read_facts(process: str) -> dict[str, Any]:
    lines = dict(line.split(":", 1) for line in read(f"{process}/status").decode(errors="replace").splitlines())
    env = dict(pair.split(b"=", 1) for pair in read(f"{process}/environ").split(b"\0") if b"=" in pair)
    return {
        "uid": int(lines["Uid"].split()[1]),
        "gid": int(lines["Gid"].split()[1]),
        "groups": [int(word) for word in lines["Groups"].split()],
        "bounding": numbers_in(int(lines["CapBnd"], 16)),
        "ambient": numbers_in(int(lines["CapAmb"], 16)),
        "no_new_privileges": lines.get("NoNewPrivs", "0").strip() == "1",
        "env": env or {b"PATH": DEFAULT_PATH.encode()},
        "folder": os.readlink(f"{process}/cwd"),  # noqa: PTH115
    }


def numbers_in(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def join(process: str, kernel: Kernel) -> None:
    """Join the cgroups and the mount namespace of the process, as far as this user is permitted to."""
    try:
        mounts = os.open(f"{process}/ns/mnt", os.O_RDONLY)
        is_other = os.readlink(f"{process}/ns/mnt") != os.readlink("/proc/self/ns/mnt")  # noqa: PTH115
    except OSError:
        return
    join_control_group(process)
    if is_other:
        kernel.call("setns", mounts, NEW_NAMESPACE, what="cannot enter the mount namespace of the process")
    os.close(mounts)


def join_control_group(process: str) -> None:
    """Join the cgroup in every hierarchy. Where that is not permitted, the check stays in the cgroup of the agent."""
    for line in read(f"{process}/cgroup").splitlines():
        _, names, path = line.split(b":", 2)
        folder = b"/sys/fs/cgroup/" + names.removeprefix(b"name=")
        try:
            with open(folder + path + b"/cgroup.procs", "wb", buffering=0) as file:  # noqa: PTH123
                file.write(b"0")
        except OSError:
            continue


def copy_limits(pid: int) -> None:
    import resource

    for name in LIMITS:
        try:
            kind = getattr(resource, f"RLIMIT_{name}")
            resource.setrlimit(kind, resource.prlimit(pid, kind))
        except (OSError, ValueError):
            continue  # without root, limits cannot be raised


def drop_other_privileges(facts: dict[str, Any], kernel: Kernel) -> None:
    """Limit the check to the privileges of the process, because the process may be able to replace the command."""
    if os.geteuid() == 0:
        limit_capabilities(facts["bounding"], kernel)
    if facts["uid"] != os.geteuid() or facts["gid"] != os.getegid():
        user = (facts["uid"], facts["gid"], facts["groups"])
        change_user(user, facts["ambient"] if facts["uid"] else None, kernel)
    if facts["no_new_privileges"]:
        kernel.control(SET_NO_NEW_PRIVILEGES, 1)


def follow(child: int, out: int, deadline: float) -> tuple[int | None, bytes]:
    """Return the exit code and the end of the output. The code is None if the command exceeded its time limit."""
    poll = select.poll()
    ended = os.pidfd_open(child)
    for descriptor in (out, ended, 0):
        poll.register(descriptor, select.POLLIN)
    output = b""
    while (rest := deadline - time.monotonic()) > 0:
        ready = [descriptor for descriptor, _ in poll.poll(rest * 1000)]
        if out in ready:
            piece = os.read(out, 65536)
            output = (output + piece)[-KEPT:]
            if not piece:
                poll.unregister(out)
        elif ended in ready:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), output
        elif 0 in ready:  # the agent has ended or cancelled the check
            break
    return None, output
