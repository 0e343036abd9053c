"""Creates the listening socket of a server, or takes over the one of systemd.

Input: an address, the variables `LISTEN_FDS` and `LISTEN_PID`. Output: a listening socket; connections wait in its
backlog until they are accepted. Owns nothing. The module imports little: `ank-server` listens first and loads all other
modules afterwards.
"""

import os
import socket

BACKLOG = 4096
_FIRST_DESCRIPTOR = 3  # defined by systemd


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind and listen. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def inherited_socket() -> socket.socket | None:
    """Return the socket that systemd has passed to this process; None if there is none. Raises `OSError`.

    The variables are removed, because they do not concern the programs that this process starts.
    """
    count, pid = os.environ.pop("LISTEN_FDS", ""), os.environ.pop("LISTEN_PID", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if not count.isdigit() or int(count) < 1 or pid != str(os.getpid()):
        return None
    for descriptor in range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + int(count)):
        os.set_inheritable(descriptor, False)
    return socket.socket(fileno=_FIRST_DESCRIPTOR)
