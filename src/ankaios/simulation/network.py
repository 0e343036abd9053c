"""A simulated network: streams of bytes between hosts, with delays, cuts and partitions.

Input: servers and connections of the event loop, faults. Output: bytes in order, later; connections that break, or
that become silent. Owns all connections. Streams behave as TCP does: data that cannot be delivered is kept while the
connection exists, a killed process resets its connections, and a host without power does not answer at all.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from random import Random
from typing import Any, cast

from ankaios.grpc.async_connection import AsyncConnection
from ankaios.simulation.virtual_time import SimulatedProcess, VirtualTimeLoop, current_process

# Seconds after which an attempt to connect to a host that does not answer ends.
CONNECT_PATIENCE = 60.0
_SHORTEST_DELAY, USUAL_DELAY = 0.0002, 0.002  # seconds that a piece of data takes
OUTSIDE = "operator"  # the host of code that runs in no simulated process


class SimulatedNetwork:
    """`delay` returns the seconds that the next piece of data takes."""

    def __init__(self, loop: VirtualTimeLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self.longest_delay = USUAL_DELAY
        self._listeners: dict[tuple[str, int], SimulatedListeningSocket] = {}
        self._pairs: list[_Pair] = []
        self._blocked: set[frozenset[str]] = set()
        self._stalled_until: dict[frozenset[str], float] = {}
        self._silent_hosts: set[str] = set()
        self._next_port = 40000
        self.attempts: Counter[str] = Counter()  # to connect, by the host that connects
        self._known_processes: set[SimulatedProcess] = set()
        loop.network = self

    def delay(self) -> float:
        return self._random.uniform(_SHORTEST_DELAY, self.longest_delay)

    # --- faults ---

    def block(self, one: str, other: str) -> None:
        """Nothing passes between two hosts until `unblock`; the streams between them stay."""
        self._blocked.add(frozenset((one, other)))
        for pair in self._pairs_of(one, other):
            pair.resume_pings()

    def unblock(self, one: str, other: str) -> None:
        self._blocked.discard(frozenset((one, other)))
        self._resume()

    def unblock_all(self) -> None:
        self._blocked.clear()
        self._resume()

    def stall(self, one: str, other: str, seconds: float) -> None:
        """What is sent between two hosts arrives after this time, even if its sender closes the connection."""
        self._stalled_until[frozenset((one, other))] = self._loop.time() + seconds
        for pair in self._pairs_of(one, other):
            pair.resume_pings()

    def stalled_until(self, one: str, other: str) -> float:
        """The end of a stall, which may be in the past."""
        return self._stalled_until.get(frozenset((one, other)), 0.0) if self._stalled_until else 0.0

    def cut(self, one: str, other: str) -> None:
        """Break all connections between two hosts; both sides notice."""
        for pair in self._pairs_of(one, other):
            pair.reset("connection reset by the network")

    def silence(self, one: str, other: str) -> None:
        """The connections between two hosts become half-open: nothing passes, no side notices, new ones work."""
        self._silence(self._pairs_of(one, other))

    def power_off(self, host: str) -> None:
        """The host does not answer any more, and its peers do not notice."""
        self._silent_hosts.add(host)
        self._silence([pair for pair in self._pairs if host in pair.hosts])
        self._listeners = {key: it for key, it in self._listeners.items() if key[0] != host}

    def power_on(self, host: str) -> None:
        self._silent_hosts.discard(host)

    def is_reachable(self, one: str, other: str) -> bool:
        return frozenset((one, other)) not in self._blocked and not {one, other} & self._silent_hosts

    def open_connections(self) -> Counter[tuple[str, ...]]:
        """How many connections there are between each pair of hosts."""
        return Counter(tuple(sorted(pair.hosts)) for pair in self._pairs)

    @property
    def held_bytes(self) -> int:
        return sum(pair.held_bytes for pair in self._pairs)

    def _resume(self) -> None:
        for pair in list(self._pairs):
            pair.resume()

    def _pairs_of(self, one: str, other: str) -> list[_Pair]:
        return [pair for pair in self._pairs if pair.hosts == {one, other}]

    def _silence(self, pairs: Iterable[_Pair]) -> None:
        for pair in pairs:
            pair.resume_pings()
            pair.silence()
            self._pairs.remove(pair)

    # --- used by programs and the loop ---

    def listening_socket(self, port: int) -> SimulatedListeningSocket:
        """A socket on which the current process listens."""
        process = current_process()
        key = (process.host if process is not None else OUTSIDE, port)
        if key in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listener = SimulatedListeningSocket(key, self._forget_listener)
        self._listeners[key] = listener
        if process is not None:
            process.at_end.append(lambda _: listener.close())
        return listener

    def _forget_listener(self, listener: SimulatedListeningSocket) -> None:
        if self._listeners.get(listener.key) is listener:
            del self._listeners[listener.key]

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        process = current_process()
        own_host = process.host if process is not None else OUTSIDE
        self.attempts[own_host] += 1
        await asyncio.sleep(max(self.delay(), self.stalled_until(own_host, host) - self._loop.time()))
        if not self.is_reachable(own_host, host):
            await asyncio.sleep(CONNECT_PATIENCE)
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        listener = self._listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self._next_port += 1
        pair = _Pair(self, self._loop, (own_host, self._next_port), (host, port), {process, listener.process})
        self._pairs.append(pair)
        protocol = factory()
        pair.client.prepare(copy_context())
        pair.server.prepare(listener.context)
        listener.connected(SimulatedSocket(pair.server))
        pair.client.open(protocol)
        for owner in pair.processes:
            self._reset_at_end(owner)
        return pair.client, protocol

    def _reset_at_end(self, process: SimulatedProcess | None) -> None:
        if process is not None and process not in self._known_processes:
            self._known_processes.add(process)
            process.at_end.append(self._process_ended)

    def _process_ended(self, process: SimulatedProcess) -> None:
        self._known_processes.discard(process)
        for pair in [pair for pair in self._pairs if process in pair.processes]:
            pair.reset("connection reset by peer")

    def forget(self, pair: _Pair) -> None:
        if pair in self._pairs:
            self._pairs.remove(pair)


class SimulatedListeningSocket:
    """A listening socket, as far as the gRPC server uses it."""

    def __init__(self, key: tuple[str, int], on_close: Callable[[SimulatedListeningSocket], None]) -> None:
        self.key = key
        self.context = copy_context()
        self.process: SimulatedProcess | None = current_process()
        self._on_close = on_close
        self._is_closed = False
        self._pending: deque[SimulatedSocket] = deque()
        self._reader: Callable[[], None] | None = None

    def connected(self, sock: SimulatedSocket) -> None:
        self._pending.append(sock)
        self._notify()

    def set_reader(self, reader: Callable[[], None] | None) -> None:
        self._reader = reader
        if self._pending:
            self._notify()

    def _notify(self) -> None:
        asyncio.get_running_loop().call_soon(self._call_reader, context=self.context)

    def _call_reader(self) -> None:
        """Again while connections wait, as a real loop does. The reader may have been removed meanwhile."""
        if self._reader is not None and self._pending and not self._is_closed:
            self._reader()
            self._notify()

    def accept(self) -> tuple[SimulatedSocket, tuple[str, int]]:
        if not self._pending:
            raise BlockingIOError
        sock = self._pending.popleft()
        return sock, sock.transport.get_extra_info("peername")

    def getsockname(self) -> tuple[str, int]:
        return self.key

    def fileno(self) -> int:
        return -1 if self._is_closed else 0

    def setblocking(self, _flag: bool) -> None:
        return None

    def listen(self, _backlog: int) -> None:
        return None

    def close(self) -> None:
        self._is_closed = True
        self._on_close(self)


class SimulatedSocket:
    """An accepted connection before it has a transport: whether something has arrived can be asked."""

    family = socket.AF_INET

    def __init__(self, transport: SimulatedTransport) -> None:
        self.transport = transport

    def set_reader(self, reader: Callable[[], None] | None) -> None:
        self.transport.set_reader(reader)

    def recv(self, _size: int, _flags: int) -> bytes:
        return self.transport.peek()

    def setblocking(self, _flag: bool) -> None:
        return None

    def setsockopt(self, _level: int, _option: int, _value: int) -> None:
        return None

    def close(self) -> None:
        self.transport.abort()


class _SocketName:
    """The parts of a socket that the gRPC layer uses."""

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def setsockopt(self, *_: object) -> None:
        return None


class _Pair:
    """Both ends of a connection."""

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
        self._network.forget(self)
        for end in (self.client, self.server):
            end.lose(ConnectionResetError(errno.ECONNRESET, reason))

    def silence(self) -> None:
        self.client.is_silent = self.server.is_silent = True

    def close(self) -> None:
        self._network.forget(self)


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, pair: _Pair, loop: VirtualTimeLoop, peer_name: tuple[str, int]) -> None:
        super().__init__({"peername": peer_name, "socket": _SocketName(peer_name)})
        self.peer: SimulatedTransport
        self.is_silent = False
        self._pair = pair
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
            self._pair.close()
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
        if self.is_silent or not self._pair.is_open:
            return
        held, self._held = self._held, []
        for data in held:
            arrival = max(self._loop.time() + self._pair.delay(), self._pair.stalled_until)
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
            self._pair.is_open
            and self._pair.stalled_until <= self._loop.time()
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
            when = max(self._loop.time() + self._pair.delay(), self.peer._last_arrival)
            self._loop.call_at(when, self._lost, error, context=self._context)

    def _lose_soon(self, error: Exception | None) -> None:
        self._loop.call_soon(self._lost, error, context=self._context)

    def _lost(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._pair.close()
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
