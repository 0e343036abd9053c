"""A gRPC client for asyncio: calls to one server over TCP, TLS or a unix socket.

Input: an address, calls. Output: responses, or `CallFailed` with the status of the server; `ConnectionBroken` if there
is no connection. Owns one connection, which is opened for the first call and again after it broke.

    channel = GrpcChannel(UnixAddress("/run/plugin.sock"))
    options = await channel.unary("/v1.Plugin/Options", Empty(), Options, time_limit=5)
    async with channel.call("/v1.Plugin/Watch", metadata={"token": "x"}) as call:
        await call.send(WatchRequest())
        call.half_close()
        while (item := await call.receive(Item)) is not None: ...
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ankaios.grpc.addresses import TcpAddress, UnixAddress
from ankaios.grpc.async_call import MAX_MESSAGE_SIZE, AsyncCall
from ankaios.grpc.async_connection import AsyncConnection
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, Status, failure_in, length_prefixed, request_headers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from typing import TypeVar

    from google.protobuf.message import Message

    from ankaios.grpc.keepalive import Keepalive
    from ankaios.grpc.tls import TlsSession

    M = TypeVar("M", bound=Message)

CONNECT_TIMEOUT = 5.0


class ClientCall(AsyncCall):
    """A call as the client sees it."""

    async def response_headers(self) -> Mapping[str, str]:
        """Wait until the server has accepted the call."""
        while self.headers is None:
            if self.peer_ended:
                raise ConnectionBroken("the stream ended without headers")
            await self._wait_for_change()
        if failure := failure_in(self.headers):
            raise failure
        return self.headers

    async def receive(self, kind: type[M], limit: int = MAX_MESSAGE_SIZE) -> M | None:
        """Return the next message, or None if the call ended with OK; else raise its status."""
        try:
            message = await super().receive(kind, limit)
        except CallFailed as error:
            raise self._translated(error) from error
        if message is None:
            self._check_final(self.trailers or self.headers or {})
        return message

    def _translated(self, error: CallFailed) -> CallFailed:
        """A status of the server is more precise; an invalid response is not a fault of the request."""
        if failure := failure_in(self.trailers or {}):
            return failure
        return CallFailed(Status.INTERNAL, error.text) if error.status is Status.INVALID_ARGUMENT else error

    def _check_final(self, headers: Mapping[str, str]) -> None:
        if failure := failure_in(headers):
            raise failure
        if "grpc-status" not in headers:
            raise ConnectionBroken("the server ended the stream without a status")


class GrpcChannel:
    """Calls to one server. Close it after use."""

    def __init__(
        self,
        address: TcpAddress | UnixAddress,
        *,
        tls: Callable[[], TlsSession] | None = None,
        keepalive: Keepalive | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        """`tls` makes the session of a new connection."""
        self._address = address
        self._tls = tls
        self._keepalive = keepalive
        self._connect_timeout = connect_timeout
        self._connecting = asyncio.Lock()
        self._is_closed = False
        self.connection: AsyncConnection | None = None

    async def unary(
        self,
        path: str,
        request: Message,
        kind: type[M],
        *,
        time_limit: float,
        metadata: Mapping[str, str] | None = None,
        limit: int = MAX_MESSAGE_SIZE,
    ) -> M:
        """Send one request and return its response."""
        async with self.call(path, metadata=metadata, time_limit=time_limit) as call:
            call.write(length_prefixed(request.SerializeToString()))
            call.half_close()
            response = await call.receive(kind, limit)
            if response is None or await call.receive(kind, limit) is not None:
                raise CallFailed(Status.INTERNAL, "the server did not send exactly one response")
            return response

    @asynccontextmanager
    async def call(
        self, path: str, *, metadata: Mapping[str, str] | None = None, time_limit: float | None = None
    ) -> AsyncIterator[ClientCall]:
        """Start a call; the end of the body cancels it unless it is over."""
        try:
            async with asyncio.timeout(time_limit) as scope:
                call = await self.start_call(path, metadata=metadata, time_limit=time_limit)
                try:
                    yield call
                finally:
                    call.reset("the call was cancelled")
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise CallFailed(Status.DEADLINE_EXCEEDED, f"no response within {time_limit:g} s") from error

    async def start_call(
        self, path: str, *, metadata: Mapping[str, str] | None = None, time_limit: float | None = None
    ) -> ClientCall:
        connection = await self.connect()
        secure, authority = self._tls is not None, self._address.authority
        call = connection.open_call(
            request_headers(path, secure=secure, authority=authority, metadata=metadata, time_limit=time_limit)
        )
        assert isinstance(call, ClientCall)
        return call

    async def connect(self) -> AsyncConnection:
        """Connect unless there is a connection; raises `ConnectionBroken`."""
        async with self._connecting:
            if self._is_closed:
                raise ConnectionBroken("the channel was closed")
            if self.connection is not None and self.connection.reason is None:
                return self.connection
            try:
                async with asyncio.timeout(self._connect_timeout):
                    return await self._dial()
            except TimeoutError as error:
                raise ConnectionBroken(f"no response within {self._connect_timeout:g} s") from error

    def close(self) -> None:
        """Close the connection; calls that are not over fail."""
        self._is_closed = True
        if self.connection is not None:
            self.connection.close()

    def abort(self, reason: str) -> None:
        """Close the connection without sending what is queued."""
        self._is_closed = True
        if self.connection is not None:
            self.connection.abort(reason)

    async def _dial(self) -> AsyncConnection:
        tls = self._tls() if self._tls is not None else None
        connection = AsyncConnection(
            ClientCall, keepalive=self._keepalive, setup_timeout=self._connect_timeout, tls=tls
        )
        await self._open_socket(connection)
        self.connection = connection
        try:
            await connection.ready.wait()
        except BaseException:
            connection.abort("the attempt to connect was cancelled")
            raise
        if self._is_closed:
            connection.abort("the channel was closed")
        if connection.reason is not None:
            raise ConnectionBroken(connection.reason)
        return connection

    async def _open_socket(self, connection: AsyncConnection) -> None:
        loop, address = asyncio.get_running_loop(), self._address
        try:
            if isinstance(address, UnixAddress):
                await loop.create_unix_connection(lambda: connection, address.path)
            else:
                transport, _ = await loop.create_connection(lambda: connection, address.host, address.port)
                _enable_tcp_keepalive(transport.get_extra_info("socket"))
        except socket.gaierror as error:
            host = address.host if isinstance(address, TcpAddress) else address.path
            raise ConnectionBroken(f"cannot find host '{host}': {error.strerror}") from error
        except OSError as error:
            raise ConnectionBroken(os.strerror(error.errno) if error.errno else str(error)) from error


def _enable_tcp_keepalive(sock: socket.socket) -> None:
    """Let the kernel notice a host that lost power, also where the server allows no keep-alive pings of HTTP/2."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
