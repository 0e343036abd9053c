"""Makes one socket in the network of a container for an agent that is not root. Run without the rest of the package.

Input: the process of the container with its start time, and the address family, as arguments. Output: the socket, or
the reason why there is none, on the socket that is the standard input. Only a process without threads may enter the
user namespace of a container, which the agent is not.
"""

import os
import socket
import sys

from ankaios.agent.namespace_sockets import enter_namespace, socket_in_namespace
from ankaios.runtimes.runtime_connector import CheckTarget

CLONE_NEWUSER = 0x10000000


def main() -> int:
    pid, start, family = (int(word) for word in sys.argv[2:5])
    target = CheckTarget(pid, start)
    with socket.socket(fileno=0) as answer:
        try:
            if os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user"):  # noqa: PTH115
                enter_namespace(target, "user", CLONE_NEWUSER)
            socket.send_fds(answer, [b"."], [socket_in_namespace(target, family).fileno()])
        except OSError as error:
            answer.send((error.strerror or str(error)).encode())
            return 1
    return 0
