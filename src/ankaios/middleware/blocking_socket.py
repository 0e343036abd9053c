"""A connected TCP socket to a named host, within a time limit and without an event loop.

Comes in: host, port, a time limit. Goes out: a socket that does not block, or `Unreachable` with the reason.

The module `socket` turns all constants of the C module below it into enums when it is imported. That takes 9 ms, a
quarter of the whole `ank get workloads`, so the C module is used here as it is; it knows all that is needed.
"""

from __future__ import annotations

import _thread
import errno
import os
import select
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    SocketAddress = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]
else:
    import _socket as socket


class Unreachable(Exception):
    """Nobody there can be talked to; the text says why."""


def connected_socket(host: str, port: int, limit: float) -> socket.socket:
    """Tries all addresses of the host one after the other; none of them may use up the time of the others."""
    end = monotonic() + limit
    addresses = _looked_up(host, port, limit)
    reasons = []
    for number, address in enumerate(addresses):
        share = (end - monotonic()) / (len(addresses) - number)
        try:
            return _connected(address, share)
        except TimeoutError:
            reasons.append(f"no answer within {limit:g} s")
        except OSError as error:
            reasons.append(os.strerror(error.errno) if error.errno else str(error))
    raise Unreachable(", ".join(dict.fromkeys(reasons)))


def _connected(address: SocketAddress, limit: float) -> socket.socket:
    family, kind, protocol, _, place = address
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fault = made.connect_ex(place)
        if fault == errno.EINPROGRESS:
            fault = _outcome(made, limit)
        if fault:
            raise OSError(fault, os.strerror(fault))
    except BaseException:
        made.close()
        raise
    return made


def _outcome(connecting: socket.socket, limit: float) -> int:
    poll = select.poll()
    poll.register(connecting.fileno(), select.POLLOUT)
    if not poll.poll(max(limit, 0) * 1000):
        raise TimeoutError
    return connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def _looked_up(host: str, port: int, limit: float) -> Sequence[SocketAddress]:
    """As bytes: with a text the C module would load the rules for names in all scripts of the world, for nothing."""
    name = host.encode("ascii" if host.isascii() else "idna")
    try:
        return socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass  # not a number but a name
    found = _within(limit, name, port)
    if found is None:
        raise Unreachable(f"cannot find host '{host}': no answer within {limit:g} s")
    if isinstance(found, OSError):
        raise Unreachable(f"cannot find host '{host}': {found.strerror}")
    return found


def _within(limit: float, name: bytes, port: int) -> Sequence[SocketAddress] | OSError | None:
    """Look the name up in a thread, because nobody can tell the C library how long that may take."""
    found: list[Sequence[SocketAddress] | OSError] = []
    done = _thread.allocate_lock()
    done.acquire()

    def look_up() -> None:
        try:
            found.append(socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM))
        except OSError as error:
            found.append(error)
        done.release()

    _thread.start_new_thread(look_up, ())
    return found[0] if done.acquire(timeout=max(limit, 0)) else None
