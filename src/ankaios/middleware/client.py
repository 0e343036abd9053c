"""The client's end of the communication middleware: one stream of an agent, a CLI or a commander to the server.

Comes in: settings, hello, messages to send. Goes out: messages of the server, or an error that says why there is no
connection. Owns one connection.

    async with connect(ConnectionSettings(url, pem), Method.CLI, hello) as server:
        await server.send(ToServer(request=...))
        answer = await server.receive()

[impl->swdd~communication-to-from-agent-middleware~1]
[impl->swdd~agent-default-communication-grpc~1]
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ankaios.common.config import PemMaterial
from ankaios.common.pb.grpc_api_pb2 import FromServer, Goodbye, ToServer
from ankaios.middleware.additions import is_addition, knows_additions
from ankaios.middleware.connecting import (
    AccessRefused,
    Address,
    BadUrl,
    CannotConnect,
    ConnectionLost,
    ConnectionSettings,
    VersionRefused,
    address_of,
    call_headers,
    effective_url,
    explain_break,
    refusal,
)
from ankaios.middleware.grpc_call import CallFailed, frame, read_message, status_of
from ankaios.middleware.http2 import Link
from ankaios.middleware.keepalive import Keepalive
from ankaios.middleware.methods import Method
from ankaios.middleware.stream import Broken, Stream

if TYPE_CHECKING:
    from ankaios.middleware.tls import TlsLayer

__all__ = [
    "AccessRefused",
    "BadUrl",
    "CannotConnect",
    "ConnectionLost",
    "ConnectionSettings",
    "Method",
    "ServerConnection",
    "VersionRefused",
    "connect",
    "effective_url",
]

_MAX_QUEUED_BYTES = 1024 * 1024
_GOODBYE_TIMEOUT = 1.0
_CLOSE_TIMEOUT = 1.0


class ServerConnection:
    """An open stream. One task may receive while others send."""

    def __init__(self, stream: Stream, method: Method, max_message_size: int) -> None:
        self._stream = stream
        self._knows_additions = knows_additions(stream.headers or {})
        self._method = method
        self._max_message_size = max_message_size

    async def send(self, message: ToServer) -> None:
        """Waits only while more than a megabyte is still on its way. What the server does not know is left out."""
        if not self._knows_additions and is_addition(message):
            return
        try:
            self._stream.write(frame(message.SerializeToString()))
            await self._stream.drain(_MAX_QUEUED_BYTES)
        except Broken as broken:
            raise ConnectionLost(str(broken)) from broken

    async def receive(self) -> FromServer:
        try:
            message = await read_message(self._stream, FromServer, self._max_message_size)
        except (Broken, CallFailed) as failure:
            raise ConnectionLost(str(self._status() or failure)) from failure
        if message is None:
            raise ConnectionLost(str(self._status() or "the server ended the connection"))
        return message

    async def end(self) -> None:
        """Say goodbye and wait a moment for the server to end the stream; an agent just leaves."""
        if self._method is Method.AGENT:
            return
        with suppress(ConnectionLost, TimeoutError):
            async with asyncio.timeout(_GOODBYE_TIMEOUT):
                await self.send(ToServer(goodbye=Goodbye()))
                self._stream.half_close()
                while True:
                    await self.receive()

    def _status(self) -> CallFailed | None:
        return status_of(self._stream.trailers) if self._stream.trailers else None


@asynccontextmanager
async def connect(settings: ConnectionSettings, method: Method, hello: ToServer) -> AsyncIterator[ServerConnection]:
    """Connect and say hello; the body runs once the server has let us in, and its end closes the connection."""
    address = address_of(settings.shown_url)
    attempt = _Attempt(settings, address)
    try:
        async with asyncio.timeout(settings.connect_timeout):
            stream = await attempt.open(method, hello)
    except TimeoutError as error:
        attempt.drop()
        raise attempt.failed(f"no answer within {settings.connect_timeout:g} s") from error
    except BaseException:
        attempt.drop()
        raise
    try:
        yield ServerConnection(stream, method, settings.max_message_size)
    finally:
        await attempt.close(stream)


def _tls_layer(pem: PemMaterial) -> "TlsLayer":
    from ankaios.middleware.security import SERVER_NAME, client_context  # not where there is no TLS
    from ankaios.middleware.tls import TlsLayer

    return TlsLayer(client_context(pem), server_name=SERVER_NAME)


class _Attempt:
    """One try to reach the server; afterwards the holder of the connection."""

    def __init__(self, settings: ConnectionSettings, address: Address) -> None:
        self._settings = settings
        self._address = address
        self._pem = settings.pem if address.secure else None
        self._link: Link | None = None

    async def open(self, method: Method, hello: ToServer) -> Stream:
        link = self._link = await self._connect()
        await link.ready.wait()
        try:
            if link.reason is not None:
                raise Broken(link.reason)
            stream = self._call(link, method, hello)
            headers = await stream.response_headers()
        except Broken as broken:
            told = explain_break(str(broken), self._pem, link.tls_failure, peer_has_spoken=link.peer_has_spoken)
            raise self.failed(told) from broken
        if failure := status_of(headers):
            raise refusal(failure, self._settings.shown_url)
        return stream

    async def _connect(self) -> Link:
        link = self._new_link()
        try:
            await asyncio.get_running_loop().create_connection(lambda: link, self._address.host, self._address.port)
        except socket.gaierror as error:
            raise self.failed(f"cannot find host '{self._address.host}': {error.strerror}") from error
        except OSError as error:
            raise self.failed(os.strerror(error.errno) if error.errno else str(error)) from error
        return link

    def _new_link(self) -> Link:
        settings = self._settings
        tls = _tls_layer(self._pem) if self._pem is not None else None
        keepalive = Keepalive(settings.keepalive_interval, settings.keepalive_timeout)
        return Link(keepalive, settings.connect_timeout, tls=tls)

    def _call(self, link: Link, method: Method, hello: ToServer) -> Stream:
        stream = link.open(call_headers(self._address, method))
        stream.write(frame(hello.SerializeToString()))
        return stream

    def failed(self, reason: str) -> CannotConnect:
        return CannotConnect(self._settings.shown_url, reason)

    def drop(self) -> None:
        if self._link is not None:
            self._link.abort("the connection was given up")

    async def close(self, stream: Stream) -> None:
        """Send what waits, then leave without ceremony: only a broken stream tells every server of an agent's end."""
        try:
            with suppress(TimeoutError, Broken):
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await stream.drain(0)
        finally:  # also if whoever is cancelled is cancelled once more
            stream.link.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await stream.link.closed.wait()
