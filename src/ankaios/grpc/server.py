"""A gRPC server for asyncio: a table of methods over TCP, TLS or a unix socket.

Input: connections, a handler for each method path. Output: calls of the handlers, each ended with a status. Owns the
listening socket, all connections, and a task for each call.

    server = GrpcServer({"/v1.Greeter/Hello": unary(HelloRequest, greet)})
    server.listen_on(bound_socket)

A handler gets a `ServerCall` and may raise `CallFailed`; its return ends the call with OK. `unary` and
`server_streaming` make handlers from functions that take the request and the metadata.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from ankaios.common.log_limiter import LimitedLog
from ankaios.grpc.async_call import MAX_MESSAGE_SIZE
from ankaios.grpc.async_connection import FlushQueue
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.listener import Listener
from ankaios.grpc.open_handshakes import ConnectionLimits, OpenHandshakes, connection_limits
from ankaios.grpc.served_connection import ServedConnection, SharedBudgets
from ankaios.grpc.server_call import ServerCall
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, Status, refusal_of

if TYPE_CHECKING:  # `ssl` is not needed without TLS
    import ssl

    from ankaios.grpc.tls import TlsSession

M = TypeVar("M", bound=Message)
Handler = Callable[[ServerCall], Awaitable[None]]

SETUP_TIMEOUT = 5.0
_CLOSE_LIMIT = 5.0
_MAX_SET_UPS = 16  # connections whose first bytes are not processed yet
_FIRST_STEPS = 3  # iterations of the loop in which the first bytes are read and the first call is accepted
_MANY_DESCRIPTORS = 2**20  # a limit may also be "unlimited"

log = logging.getLogger(__name__)


def unary(
    kind: type[M], answer: Callable[[M, Mapping[str, str]], Awaitable[Message]], limit: int = MAX_MESSAGE_SIZE
) -> Handler:
    """Make a handler for one request and one response."""

    async def handle(call: ServerCall) -> None:
        request = await call.receive_request(kind, limit)

        async def work() -> None:
            await call.send(await answer(request, call.metadata))

        await call.respond(work)

    return handle


def server_streaming(
    kind: type[M],
    answer: Callable[[M, Mapping[str, str]], AsyncGenerator[Message, None]],
    limit: int = MAX_MESSAGE_SIZE,
) -> Handler:
    """Make a handler for one request and any number of responses."""

    async def handle(call: ServerCall) -> None:
        request = await call.receive_request(kind, limit)
        call.accept()

        async def work() -> None:
            async with aclosing(answer(request, call.metadata)) as responses:
                async for response in responses:
                    await call.send(response)

        await call.respond(work)

    return handle


def own_connection_limits() -> ConnectionLimits:
    """Return the limits for the descriptors that this process may open."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connection_limits(_MANY_DESCRIPTORS if allowed == resource.RLIM_INFINITY else allowed)


class GrpcServer:
    """Serves the methods from `listen` to `close`; with a TLS context only over TLS."""

    def __init__(
        self,
        methods: Mapping[str, Handler],
        *,
        tls: ssl.SSLContext | None = None,
        keepalive: Keepalive | None = None,
        setup_timeout: float = SETUP_TIMEOUT,
        limits: ConnectionLimits | None = None,
        budgets: SharedBudgets | None = None,
    ) -> None:
        """With `budgets` a connection has to make a call within the time for its set-up."""
        self.is_closing = False
        self._methods = methods
        self._tls = tls
        self.keepalive = keepalive
        self.setup_timeout = setup_timeout
        self.flush_queue = FlushQueue()
        self.budgets = budgets
        self._handshakes: OpenHandshakes[socket.socket] = OpenHandshakes(limits or own_connection_limits())
        self._not_admitted: dict[socket.socket, ServedConnection] = {}
        self._connections: set[ServedConnection] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._set_ups: set[asyncio.Task[None]] = set()
        self._listener: Listener | None = None
        self._end_log = LimitedLog(log, "connections ended before they were set up")
        self._rejection_log = LimitedLog(log, "calls were rejected")

    @property
    def port(self) -> int:
        """The port in use, also if any free one was requested."""
        assert self._listener is not None, "not started"
        return self._listener.port

    def listen_on(self, sock: socket.socket) -> None:
        """Listen on a socket that is bound already."""
        self._listener = Listener(
            sock,
            self._handshakes,
            self._connected,
            self._end_handshake,
            self.setup_timeout,
            can_accept=lambda: len(self._set_ups) < _MAX_SET_UPS,
        )

    def remember_agent(self, call: ServerCall) -> None:
        """Reserve a place for new connections from the address of this call."""
        self._handshakes.remember(call.connection.peer_host)

    def replace_tls(self, context: ssl.SSLContext) -> None:
        """Use this context for new connections."""
        self._tls = context

    def end_connections(self, reason: str) -> None:
        for connection in tuple(self._connections):
            connection.reject(reason)

    async def close(self) -> None:
        """Stop listening, close all connections, cancel all handlers and wait until they have ended."""
        self.is_closing = True
        if self._listener is not None:
            self._listener.close()
        for connection in tuple(self._connections):
            connection.close()
        for call in self._calls:
            call.cancel()
        if self._calls:
            _, unfinished = await asyncio.wait(self._calls, timeout=_CLOSE_LIMIT)
            for task in unfinished:
                log.error("The handler of %s did not end in time.", task.get_name())

    def _connected(self, sock: socket.socket) -> None:
        task = asyncio.create_task(self._set_up(sock), name="the set-up of a connection")
        self._set_ups.add(task)
        task.add_done_callback(self._set_ups.discard)

    async def _set_up(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: self._new_connection(sock), sock)
            for _ in range(_FIRST_STEPS):
                await asyncio.sleep(0)
        except OSError as error:
            log.debug("A connection ended before it was set up: %s.", error)
            self.forget_handshake(sock)
            sock.close()

    def _new_connection(self, sock: socket.socket) -> ServedConnection:
        connection = self._not_admitted[sock] = ServedConnection(self, sock)
        return connection

    def forget_handshake(self, sock: socket.socket) -> None:
        """The first call was accepted, or the socket was closed."""
        self._not_admitted.pop(sock, None)
        self._handshakes.end(sock)

    def _end_handshake(self, sock: socket.socket) -> None:
        if connection := self._not_admitted.pop(sock, None):
            connection.abort("it was not set up in time, and its place is needed")

    def new_session(self) -> TlsSession | None:
        if self._tls is None:
            return None
        from ankaios.grpc.tls import TlsSession

        return TlsSession(self._tls)

    def connection_started(self, connection: ServedConnection) -> None:
        if self.is_closing:
            connection.abort("the server is stopping")
        elif connection.reason is None:
            self._connections.add(connection)

    def connection_ended(self, connection: ServedConnection) -> None:
        self._connections.discard(connection)
        write = log.debug if connection.is_established else self._end_log.warning
        write("Connection from %s ended: %s.", connection.peer_address, connection.reason)

    def accept(self, call: ServerCall) -> None:
        task = asyncio.create_task(self._serve(call), name=f"call {call.id} from {call.peer_address}")
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _serve(self, call: ServerCall) -> None:
        """Run one call from its headers to its status."""
        try:
            await self._handle(call)
            call.finish_with(Status.OK)
        except ConnectionBroken as broken:
            log.debug("A call from %s broke: %s.", call.peer_address, broken)
        except CallFailed as failure:
            self._rejection_log.warning("Rejected a call from %s: %.1000s", call.peer_address, failure)
            call.finish_with(failure.status, failure.text)
        except Exception:
            log.exception("A call from %s failed.", call.peer_address)
            call.finish_with(Status.INTERNAL, "internal error of the server")
        finally:
            call.connection.call_ended()

    async def _handle(self, call: ServerCall) -> None:
        if refusal := refusal_of(call.metadata):
            call.finish(refusal)
        elif handler := self._methods.get(call.metadata[":path"]):
            await handler(call)
        else:
            call.finish_with(Status.UNIMPLEMENTED, "Method not found")
