"""Hostile peers of a server: they connect without end, or send frames and messages that cost more than they carry.

    load = ServerLoad(server.process.pid)
    connect_and_close(server.port, 15_000)
    assert load.memory_growth() < 30 * MIB

Nothing here uses the sources of the product below HTTP/2: frames are written byte by byte.
"""

import os
import resource
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from hpack import Encoder

from tests.support.wire.peer import METHODS, message_class

MIB = 1024 * 1024
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_HEADERS, ACK = 4, 1
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # no socket remains in TIME_WAIT, so that ports do not run out


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def grpc_message(**content: object) -> bytes:
    payload = message_class("grpc_api.ToServer")(**content).SerializeToString()
    return b"\0" + struct.pack(">I", len(payload)) + payload


def commander_hello() -> bytes:
    hello = message_class("grpc_api.CommanderHello")(protocolVersion="1.0.1")
    return grpc_message(commanderHello=hello)


def state_request(request_id: str, *masks: str) -> bytes:
    wanted = message_class("ank_base.CompleteStateRequest")(fieldMask=masks)
    request = message_class("ank_base.Request")(requestId=request_id, completeStateRequest=wanted)
    return grpc_message(request=request)


class RawPeer:
    """One HTTP/2 connection, written by hand; what the server sends is read and dropped by a thread."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, source: str = "127.0.0.1") -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(source, 0))
        self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="ank-server")
        self._encoder = Encoder()
        self._streams = iter(range(1, 2**31, 2))
        self.received = 0
        self.send(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1)))
        self.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30)))
        self._reader = threading.Thread(target=self._drain, name="responses of the server", daemon=True)
        self._reader.start()

    def open(self, method: str = "cli") -> int:
        stream = next(self._streams)
        headers = [(":method", "POST"), (":scheme", "http"), (":path", METHODS[method]), (":authority", "x"),
                   ("te", "trailers"), ("content-type", "application/grpc")]  # fmt: skip
        self.send(frame(HEADERS, END_HEADERS, stream, self._encoder.encode(headers)))
        return stream

    def data(self, stream: int, content: bytes) -> None:
        for at in range(0, len(content), 16_384):
            self.send(frame(DATA, 0, stream, content[at : at + 16_384]))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def wait_until_ended(self, seconds: float) -> bool:
        """Whether the server ends the connection in time."""
        self._reader.join(seconds)
        return not self._reader.is_alive()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._socket.close()

    def _drain(self) -> None:
        self._socket.settimeout(None)
        with suppress(OSError, ValueError):
            while data := self._socket.recv(MIB):
                self.received += len(data)

    def __enter__(self) -> "RawPeer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def an_admitted_peer(port: int, tls: ssl.SSLContext | None = None) -> tuple[RawPeer, int]:
    """A commander whose hello was sent, and its stream."""
    peer = RawPeer(port, tls)
    stream = peer.open()
    peer.data(stream, commander_hello())
    return peer, stream


def connect_and_close(port: int, count: int) -> float:
    """Return the seconds it took."""
    begin = time.monotonic()
    for _ in range(count):
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            peer.settimeout(10)
            peer.connect(("127.0.0.1", port))
    return time.monotonic() - begin


def open_idle_connections(port: int, count: int, source: str = "127.0.0.1") -> list[socket.socket]:
    """Connections that never send a byte."""
    sockets = []
    for _ in range(count):
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        peer.settimeout(5)
        peer.bind((source, 0))
        try:
            peer.connect(("127.0.0.1", port))
        except OSError:
            peer.close()
            break
        sockets.append(peer)
    return sockets


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=lambda: _ignoring_errors(work), name="a hostile peer", daemon=True)
    thread.start()
    return thread


def _ignoring_errors(work: Callable[[], object]) -> None:
    with suppress(OSError):
        work()


def latencies(call: Callable[[], object], count: int) -> list[float]:
    """The seconds of each call, sorted."""
    seconds = []
    for _ in range(count):
        begin = time.monotonic()
        call()
        seconds.append(time.monotonic() - begin)
    return sorted(seconds)


def median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


class ServerLoad:
    """CPU time, memory and descriptors of a process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._memory, self._cpu = self.memory(), self.cpu()

    def memory(self) -> int:
        pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def cpu(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._pid}/fd"))

    def memory_growth(self) -> int:
        return self.memory() - self._memory

    def cpu_spent(self) -> float:
        return self.cpu() - self._cpu
