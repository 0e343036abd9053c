"""A gRPC server for asyncio: a table of methods over TCP, TLS or a unix socket.

Input: connections, a handler for each method path. Output: calls of the handlers, each ended with a status. Owns the
listening socket, all connections, and a task for each call.

    server = GrpcServer({"/v1.Greeter/Hello": unary(HelloRequest, greet)})
    await server.listen_on(bound_socket)

A handler gets a `ServerCall` and may raise `CallFailed`; its return ends the call with OK. `unary` and
`server_streaming` make handlers from functions that take the request and the metadata.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from ankaios.grpc.async_call import MAX_MESSAGE_SIZE, AsyncCall
from ankaios.grpc.async_connection import AsyncConnection, FlushQueue
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.wire_format import (
    RESPONSE_HEADERS,
    CallFailed,
    ConnectionBroken,
    Headers,
    Status,
    final_headers,
    refusal_of,
)

if TYPE_CHECKING:  # `ssl` is not needed without TLS
    import ssl

    from ankaios.grpc.tls import PeerCertificates, TlsSession

M = TypeVar("M", bound=Message)
Handler = Callable[["ServerCall"], Awaitable[None]]

SETUP_TIMEOUT = 5.0
REQUEST_TIMEOUT = 10.0
_CLOSE_LIMIT = 5.0

log = logging.getLogger(__name__)


class ServerCall(AsyncCall):
    """A call as its handler sees it."""

    _end_scope: asyncio.Timeout | None = None

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.headers or {}

    @property
    def peer_address(self) -> str:
        return self.connection.peer_address

    @property
    def peer_certificates(self) -> PeerCertificates | None:
        """None without TLS."""
        tls = self.connection.tls
        return tls.peer_certificates() if tls is not None else None

    def accept(self, metadata: Headers | None = None) -> None:
        """Send the response headers now, before the first message."""
        self.send_headers([*RESPONSE_HEADERS, *(metadata or ())])

    def write(self, data: bytes) -> None:
        if not self.headers_sent:
            self.accept()
        super().write(data)

    def finish_with(self, status: Status, text: str = "") -> None:
        self.finish(final_headers(status, text, headers_sent=self.headers_sent))

    async def receive_request(self, kind: type[M], limit: int) -> M:
        """Return the only message of a request."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                request = await self.receive(kind, limit)
        except TimeoutError:
            raise CallFailed(Status.DEADLINE_EXCEEDED, f"no request within {REQUEST_TIMEOUT:g} s") from None
        if request is None:
            raise CallFailed(Status.INVALID_ARGUMENT, "the call contains no request")
        return request

    async def respond(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work; cancel it if the client ends the call before."""
        try:
            async with asyncio.timeout(None) as self._end_scope:
                self.check()
                await work()
        except TimeoutError:
            self.check()
            raise
        finally:
            self._end_scope = None

    def end(self, reason: str) -> None:
        super().end(reason)
        if self._end_scope is not None and not self._end_scope.expired():
            self._end_scope.reschedule(0)


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


class GrpcServer:
    """Serves the methods from `listen` to `close`; with a TLS context only over TLS."""

    def __init__(
        self,
        methods: Mapping[str, Handler],
        *,
        tls: ssl.SSLContext | None = None,
        keepalive: Keepalive | None = None,
        setup_timeout: float = SETUP_TIMEOUT,
    ) -> None:
        self.is_closing = False
        self._methods = methods
        self._tls = tls
        self._keepalive = keepalive
        self._setup_timeout = setup_timeout
        self._flush_queue = FlushQueue()
        self._connections: set[AsyncConnection] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port in use, also if any free one was requested."""
        assert self._listener is not None, "not started"
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def listen(self, host: str, port: int) -> None:
        """Raises `OSError`."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._new_connection, host, port, backlog=socket.SOMAXCONN)

    async def listen_on(self, sock: socket.socket) -> None:
        """Listen on a socket that is bound already."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._new_connection, sock=sock, backlog=socket.SOMAXCONN)

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

    def _new_connection(self) -> AsyncConnection:
        return AsyncConnection(
            ServerCall,
            keepalive=self._keepalive,
            setup_timeout=self._setup_timeout,
            tls=self._new_session(),
            flush_queue=self._flush_queue,
            accept=self._accept,
            on_start=self._connection_started,
            on_end=self._connection_ended,
        )

    def _new_session(self) -> TlsSession | None:
        if self._tls is None:
            return None
        from ankaios.grpc.tls import TlsSession

        return TlsSession(self._tls)

    def _connection_started(self, connection: AsyncConnection) -> None:
        if self.is_closing:
            connection.abort("the server is stopping")
        elif connection.reason is None:
            self._connections.add(connection)

    def _connection_ended(self, connection: AsyncConnection) -> None:
        self._connections.discard(connection)
        level = logging.DEBUG if connection.is_established else logging.WARNING
        log.log(level, "Connection from %s ended: %s.", connection.peer_address, connection.reason)

    def _accept(self, call: AsyncCall) -> None:
        assert isinstance(call, ServerCall)
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
            log.warning("Rejected a call from %s: %.1000s", call.peer_address, failure)
            call.finish_with(failure.status, failure.text)
        except Exception:
            log.exception("A call from %s failed.", call.peer_address)
            call.finish_with(Status.INTERNAL, "internal error of the server")

    async def _handle(self, call: ServerCall) -> None:
        if refusal := refusal_of(call.metadata):
            call.finish(refusal)
        elif handler := self._methods.get(call.metadata[":path"]):
            await handler(call)
        else:
            call.finish_with(Status.UNIMPLEMENTED, "Method not found")
