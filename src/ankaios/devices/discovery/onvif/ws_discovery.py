"""Probes the local network by multicast.

Input: a probe and how long to wait. Output: the datagrams that were received. Owns its socket for the time of one call.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct

GROUP = "239.255.255.250"
PORT = 3702
MAX_DATAGRAM = 16 * 1024
MAX_ANSWERS = 512

log = logging.getLogger(__name__)


async def send_probe(message: bytes, seconds: float, interface: str | None = None, port: int = PORT) -> list[bytes]:
    """Send one probe and collect answers until the time is over. Raises OSError if the network cannot be used."""
    answers = _Answers()
    sock = open_socket(interface)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: answers, sock=sock)
    try:
        transport.sendto(message, (GROUP, port))
        await asyncio.sleep(seconds)
    finally:
        transport.close()
    if answers.refused:  # logged once, so that a flood of datagrams is not a flood of log lines
        log.warning("refused %d discovery answers: too large or too many", answers.refused)
    if answers.error is not None and not answers.received:
        raise answers.error
    return answers.received


def open_socket(interface: str | None, port: int = 0) -> socket.socket:
    """A socket that is a member of the discovery group; `interface` is a name or an address of this machine."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        sock.bind(("0.0.0.0", port))
        membership = _membership(interface)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, membership)
    except BaseException:
        sock.close()
        raise
    return sock


def _membership(interface: str | None) -> bytes:
    """struct ip_mreqn: group, local address, interface number; zeros let the kernel choose."""
    address, index = "0.0.0.0", 0
    if interface:
        try:
            index = socket.if_nametoindex(interface)
        except OSError:
            address = interface
    return struct.pack("@4s4si", socket.inet_aton(GROUP), socket.inet_aton(address), index)


class _Answers(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.refused = 0
        self.error: Exception | None = None

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if len(data) > MAX_DATAGRAM or len(self.received) == MAX_ANSWERS:
            self.refused += 1
        else:
            self.received.append(data)

    def error_received(self, exc: Exception) -> None:
        self.error = exc
