"""A connection in the simulated network: streams of bytes in both directions, with the transports of both ends.

Input: data that the protocols write, the state of the network. Output: data in order, later; the end of the
connection. Owns the data on its way. The pings of idle connections are replaced here.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, cast

from ankaios.grpc.async_connection import AsyncConnection
from ankaios.simulation.virtual_time import SimulatedProcess, VirtualTimeLoop

if TYPE_CHECKING:
    from ankaios.simulation.network import SimulatedNetwork


class _SocketName:
    """The parts of a socket that the gRPC layer uses."""

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def setsockopt(self, *_: object) -> None:
        return None


class SimulatedConnection:
    """Both ends, and the processes that have them."""

    def __init__(
        self,
        network: SimulatedNetwork,
        loop: VirtualTimeLoop,
        client: tuple[str, int],
        server: tuple[str, int],
        processes: set[SimulatedProcess | None],
    ) -> None:
        self._network = network
        self.processes = processes
        self.hosts = {client[0], server[0]}
        self._names = (client[0], server[0])
        self.client = SimulatedTransport(self, loop, peer_name=server)
        self.server = SimulatedTransport(self, loop, peer_name=client)
        self.client.peer, self.server.peer = self.server, self.client

    @property
    def is_open(self) -> bool:
        return self._network.is_reachable(*self._names)

    def delay(self) -> float:
        return self._network.delay()

    @property
    def stalled_until(self) -> float:
        return self._network.stalled_until(*self._names)

    @property
    def held_bytes(self) -> int:
        return self.client.get_write_buffer_size() + self.server.get_write_buffer_size()

    def resume(self) -> None:
        self.client.send_held()
        self.server.send_held()

    def resume_pings(self) -> None:
        self.client.resume_pings()
        self.server.resume_pings()

    def reset(self, reason: str) -> None:
        """Both sides notice; a side that is not reachable notices when it next sends."""
        self._network.remove(self)
        for end in (self.client, self.server):
            end.lose(ConnectionResetError(errno.ECONNRESET, reason))

    def silence(self) -> None:
        self.client.is_silent = self.server.is_silent = True

    def close(self) -> None:
        self._network.remove(self)


class SimulatedTransport(asyncio.Transport):
    """One end, as the protocol sees it."""

    def __init__(self, connection: SimulatedConnection, loop: VirtualTimeLoop, peer_name: tuple[str, int]) -> None:
        super().__init__({"peername": peer_name, "socket": _SocketName(peer_name)})
        self.peer: SimulatedTransport
        self.is_silent = False
        self._connection = connection
        self._loop = loop
        self._protocol: asyncio.BaseProtocol | None = None
        self._reader: Callable[[], None] | None = None
        self._early: deque[bytes | None] = deque()  # arrived before there is a protocol, or while reading is paused
        self._is_paused = False
        self._context: Context | None = None
        self._held: list[bytes | None] = []  # None is the end of the stream
        self._arriving: deque[bytes | None] = deque()
        self._last_arrival = 0.0
        self._is_closing = False
        self._is_lost = False
        self._paused_pings: AsyncConnection | None = None

    def prepare(self, context: Context) -> None:
        """Both ends are prepared before one of them sends."""
        self._context = context

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self.resume_reading()

    # --- before there is a protocol ---

    def set_reader(self, reader: Callable[[], None] | None) -> None:
        self._reader = reader
        if self._early or self._is_lost:
            self._notify()

    def peek(self) -> bytes:
        if self._early and (first := self._early[0]):
            return first[:1]
        if self._early or self._is_lost:
            return b""
        raise BlockingIOError

    def _notify(self) -> None:
        self._loop.call_soon(self._call_reader, context=self._context)

    def _call_reader(self) -> None:
        """The reader may have been removed meanwhile."""
        if self._reader is not None:
            self._reader()

    # --- used by the protocol ---

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if data and not self._is_closing:
            self._send(bytes(data))

    def write_eof(self) -> None:
        self._send(None)

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._send(None)
            self._lose_soon(None)

    def abort(self) -> None:
        self._is_closing = True
        if not self._is_lost:
            self._connection.close()
            self.peer.lose(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
            self._lose_soon(None)

    def get_write_buffer_size(self) -> int:
        return sum(len(data) for data in self._held if data is not None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """A network without congestion: what is written leaves, unless a partition holds it."""

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        early, self._early = self._early, deque()
        for data in early:
            self._take(data)

    # --- the way to the peer ---

    def _send(self, data: bytes | None) -> None:
        self._held.append(data)
        self.send_held()

    def send_held(self) -> None:
        if self.is_silent or not self._connection.is_open:
            return
        held, self._held = self._held, []
        for data in held:
            arrival = max(self._loop.time() + self._connection.delay(), self._connection.stalled_until)
            self._last_arrival = max(self._last_arrival, arrival)
            self.peer.receive_at(self._last_arrival, data)

    def receive_at(self, when: float, data: bytes | None) -> None:
        assert self._context is not None
        self._arriving.append(data)  # timers of the same time have no order
        self._loop.call_at(when, self._receive, context=self._context)

    def _receive(self) -> None:
        data = self._arriving.popleft()
        if self._is_lost or self.is_silent:
            return
        self._take(data)

    def _take(self, data: bytes | None) -> None:
        if self._protocol is None or self._is_paused:
            self._early.append(data)
            self._notify()
        else:
            self._deliver(data)

    def _deliver(self, data: bytes | None) -> None:
        if data is None:
            cast(asyncio.Protocol, self._protocol).eof_received()
            self.close()
            return
        protocol = cast(asyncio.BufferedProtocol, self._protocol)
        view = memoryview(data)
        while view and not self._is_lost:
            buffer = memoryview(cast(Any, protocol.get_buffer(len(view))))
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            protocol.buffer_updated(size)
            view = view[size:]

    # --- keep-alive ---

    @property
    def would_answer(self) -> bool:
        """The peer would answer a ping: the path is open, nothing is on its way, and both processes run."""
        return (
            self._connection.is_open
            and self._connection.stalled_until <= self._loop.time()
            and not self.is_silent
            and not self._is_closing
            and not (self._held or self._arriving or self.peer._held or self.peer._arriving)
            and not (self.peer._is_closing or self.peer._is_paused)
        )

    def pause_pings(self, connection: AsyncConnection) -> None:
        self._paused_pings = connection

    def resume_pings(self) -> None:
        """A ping was answered at some time before, so the next one is due within the interval."""
        if (connection := self._paused_pings) is not None and self._context is not None:
            self._paused_pings = None
            connection._keepalive_timer.received(self._loop.time())
            if connection.reason is None:
                self._context.run(connection._plan_wake_up)

    # --- the end ---

    def lose(self, error: Exception | None) -> None:
        """The connection is broken; the protocol is informed after the usual delay, and after what was sent before."""
        if not self.is_silent and self._context is not None:
            when = max(self._loop.time() + self._connection.delay(), self.peer._last_arrival)
            self._loop.call_at(when, self._lost, error, context=self._context)

    def _lose_soon(self, error: Exception | None) -> None:
        self._loop.call_soon(self._lost, error, context=self._context)

    def _lost(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._connection.close()
            if self._protocol is None:
                self._notify()
            else:
                self._protocol.connection_lost(error)


def ping_only_if_needed(check: Callable[[AsyncConnection], None]) -> Callable[[AsyncConnection], None]:
    """As long as the peer would answer, no pings are sent: the timer is started again when a fault affects the path.

    Idle connections are most of the work of a long simulation otherwise. Intervals and limits are the real ones.
    """

    def check_keepalive(connection: AsyncConnection) -> None:
        transport = connection._transport
        if isinstance(transport, SimulatedTransport) and transport.would_answer:
            transport.pause_pings(connection)
        else:
            check(connection)

    return check_keepalive
