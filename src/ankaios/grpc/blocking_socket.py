"""A connected TCP socket to a named host, within a time limit and without an event loop.

Input: host, port, a time limit. Output: a non-blocking socket, or `ConnectionBroken` with the reason.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from threading import Thread
from time import monotonic
from typing import Any

from ankaios.grpc.wire_format import ConnectionBroken

SocketAddresses = Sequence[tuple[int, int, int, str, Any]]  # as `getaddrinfo` returns them


def connected_socket(host: str, port: int, limit: float) -> socket.socket:
    """Try all addresses of the host one after the other; each gets its share of the time."""
    end = monotonic() + limit
    addresses = _resolve(host, port, limit)
    reasons = []
    for number, (family, kind, protocol, _, target) in enumerate(addresses):
        share = (end - monotonic()) / (len(addresses) - number)
        try:
            return _connect_to(family, kind, protocol, target, share)
        except TimeoutError:
            reasons.append(f"no response within {limit:g} s")
        except OSError as error:
            reasons.append(os.strerror(error.errno) if error.errno else str(error))
    raise ConnectionBroken(", ".join(dict.fromkeys(reasons)))


def _connect_to(family: int, kind: int, protocol: int, target: Any, limit: float) -> socket.socket:
    connected = socket.socket(family, kind, protocol)
    try:
        connected.settimeout(max(limit, 0.001))
        connected.connect(target)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setblocking(False)
    except BaseException:
        connected.close()
        raise
    return connected


def _resolve(host: str, port: int, limit: float) -> SocketAddresses:
    # As bytes: for a text, `socket` would load the rules of international names, also for a plain address.
    name = host.encode("ascii" if host.isascii() else "idna")
    try:
        return socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass  # a name, not an address
    found: list[SocketAddresses | OSError] = []
    resolving = Thread(target=_resolve_name, args=(name, port, found), daemon=True, name=f"resolve {host}")
    resolving.start()
    resolving.join(max(limit, 0))
    if not found:
        raise ConnectionBroken(f"cannot find host '{host}': no response within {limit:g} s")
    if isinstance(found[0], OSError):
        raise ConnectionBroken(f"cannot find host '{host}': {found[0].strerror}")
    return found[0]


def _resolve_name(name: bytes, port: int, found: list[SocketAddresses | OSError]) -> None:
    """Runs in a thread, because the C library has no time limit for it."""
    try:
        found.append(socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM))
    except OSError as error:
        found.append(error)
