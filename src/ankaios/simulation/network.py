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
from contextvars import copy_context
from random import Random

from ankaios.simulation.transport import SimulatedConnection, SimulatedTransport
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
        self._connections: list[SimulatedConnection] = []
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
        for connection in self._connections_between(one, other):
            connection.resume_pings()

    def unblock(self, one: str, other: str) -> None:
        self._blocked.discard(frozenset((one, other)))
        self._resume()

    def unblock_all(self) -> None:
        self._blocked.clear()
        self._resume()

    def stall(self, one: str, other: str, seconds: float) -> None:
        """What is sent between two hosts arrives after this time, even if its sender closes the connection."""
        self._stalled_until[frozenset((one, other))] = self._loop.time() + seconds
        for connection in self._connections_between(one, other):
            connection.resume_pings()

    def stalled_until(self, one: str, other: str) -> float:
        """The end of a stall, which may be in the past."""
        return self._stalled_until.get(frozenset((one, other)), 0.0) if self._stalled_until else 0.0

    def cut(self, one: str, other: str) -> None:
        """Break all connections between two hosts; both sides notice."""
        for connection in self._connections_between(one, other):
            connection.reset("connection reset by the network")

    def silence(self, one: str, other: str) -> None:
        """The connections between two hosts become half-open: nothing passes, no side notices, new ones work."""
        self._silence(self._connections_between(one, other))

    def power_off(self, host: str) -> None:
        """The host does not answer any more, and its peers do not notice."""
        self._silent_hosts.add(host)
        self._silence([connection for connection in self._connections if host in connection.hosts])
        self._listeners = {key: it for key, it in self._listeners.items() if key[0] != host}

    def power_on(self, host: str) -> None:
        self._silent_hosts.discard(host)

    def is_reachable(self, one: str, other: str) -> bool:
        return frozenset((one, other)) not in self._blocked and not {one, other} & self._silent_hosts

    def open_connections(self) -> Counter[tuple[str, ...]]:
        """How many connections there are between each pair of hosts."""
        return Counter(tuple(sorted(connection.hosts)) for connection in self._connections)

    @property
    def held_bytes(self) -> int:
        return sum(connection.held_bytes for connection in self._connections)

    def _resume(self) -> None:
        for connection in list(self._connections):
            connection.resume()

    def _connections_between(self, one: str, other: str) -> list[SimulatedConnection]:
        return [connection for connection in self._connections if connection.hosts == {one, other}]

    def _silence(self, connections: Iterable[SimulatedConnection]) -> None:
        for connection in connections:
            connection.resume_pings()
            connection.silence()
            self._connections.remove(connection)

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
        connection = SimulatedConnection(
            self, self._loop, (own_host, self._next_port), (host, port), {process, listener.process}
        )
        self._connections.append(connection)
        protocol = factory()
        connection.client.prepare(copy_context())
        connection.server.prepare(listener.context)
        listener.connected(SimulatedSocket(connection.server))
        connection.client.open(protocol)
        for owner in connection.processes:
            self._reset_at_end(owner)
        return connection.client, protocol

    def _reset_at_end(self, process: SimulatedProcess | None) -> None:
        if process is not None and process not in self._known_processes:
            self._known_processes.add(process)
            process.at_end.append(self._process_ended)

    def _process_ended(self, process: SimulatedProcess) -> None:
        self._known_processes.discard(process)
        for connection in [connection for connection in self._connections if process in connection.processes]:
            connection.reset("connection reset by peer")

    def remove(self, connection: SimulatedConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)


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
