"""Creates one socket in the network of a container for an agent that is not root. Runs without the rest of the package.

Input: the process of the container with its start time, and the address family, as arguments. Output: the socket, or
the reason why there is none, on the socket that is the standard input. Only a process without threads may enter the
user namespace of a container, and the agent has threads. Imports only the standard library, because it runs for each
check.
"""

import ctypes
import os
import socket
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    pid, start, family = (int(word) for word in sys.argv[2:5])
    with socket.socket(fileno=0) as answer:
        try:
            if os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user"):  # noqa: PTH115
                enter_namespace(pid, start, "user", CLONE_NEWUSER)
            enter_namespace(pid, start, "net", CLONE_NEWNET)
            with new_socket(family) as made:
                socket.send_fds(answer, [b"."], [made.fileno()])
        except OSError as error:
            answer.send((error.strerror or str(error)).encode())
            return 1
    return 0


def new_socket(family: int) -> socket.socket:
    return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)


def enter_namespace(pid: int, start: int, name: str, kind: int) -> None:
    """Change the namespace of this thread. The process is verified after the namespace was opened: ids are reused."""
    descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _start_time(pid) != start:
            raise ProcessLookupError(3, "its process has ended")
        if _libc.setns(descriptor, kind) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


def _start_time(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[19])
