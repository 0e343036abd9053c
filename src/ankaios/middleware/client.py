"""The asyncio client of an Ankaios server: one stream of an agent, a CLI or a commander.

Input: settings, hello, messages to send. Output: messages of the server, or an error that states why there is no
connection. Owns one connection.

    async with connect(ConnectionSettings(url, pem), Method.CLI, hello) as server:
        await server.send(ToServer(request=...))
        response = await server.receive()

[impl->swdd~communication-to-from-agent-middleware~1]
[impl->swdd~agent-default-communication-grpc~1]
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer
from ankaios.grpc.async_connection import AsyncConnection
from ankaios.grpc.channel import ClientCall, GrpcChannel
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, length_prefixed
from ankaios.middleware.connecting import (
    CannotConnect,
    ConnectionLost,
    ConnectionSettings,
    address_of,
    explain_break,
    new_tls_session,
    refusal_error,
)
from ankaios.middleware.methods import Method, accepts_additions, is_addition

_CLOSE_TIMEOUT = 1.0


class ServerConnection:
    """An open stream. One task may receive while others send."""

    def __init__(self, call: ClientCall, max_message_size: int) -> None:
        self._call = call
        self.accepts_additions = accepts_additions(call.headers or {})
        self._max_message_size = max_message_size

    async def send(self, message: ToServer) -> None:
        """Wait only while more than a megabyte is queued. Messages that the server does not support are dropped."""
        if not self.accepts_additions and is_addition(message):
            return
        try:
            await self._call.send(message)
        except ConnectionBroken as broken:
            raise ConnectionLost(str(broken)) from broken

    async def receive(self) -> FromServer:
        try:
            message = await self._call.receive(FromServer, self._max_message_size)
        except CallFailed as failure:
            raise ConnectionLost(str(failure)) from failure
        if message is None:
            raise ConnectionLost("the server ended the connection")
        return message


@asynccontextmanager
async def connect(
    settings: ConnectionSettings, method: Method, hello: ToServer, on_hello: Callable[[], None] = lambda: None
) -> AsyncIterator[ServerConnection]:
    """Connect and send the hello. The body runs after the server has accepted it; its end closes the connection.

    `on_hello` is called when the hello is sent.
    """
    channel = _channel(settings)
    try:
        async with asyncio.timeout(settings.connect_timeout):
            call = await _start_call(channel, settings, method, hello, on_hello)
    except TimeoutError as error:
        channel.abort("no connection in time")
        raise CannotConnect(settings.shown_url, f"no response within {settings.connect_timeout:g} s") from error
    except BaseException:
        channel.abort("the attempt to connect failed")
        raise
    try:
        yield ServerConnection(call, settings.max_message_size)
    finally:
        await _close(call)


def _channel(settings: ConnectionSettings) -> GrpcChannel:
    address = address_of(settings.shown_url)
    return GrpcChannel(
        address,
        tls=partial(new_tls_session, settings.pem) if settings.pem is not None and address.secure else None,
        keepalive=settings.keepalive,
        connect_timeout=settings.connect_timeout,
    )


async def _start_call(
    channel: GrpcChannel, settings: ConnectionSettings, method: Method, hello: ToServer, on_hello: Callable[[], None]
) -> ClientCall:
    url = settings.shown_url
    try:
        call = await channel.start_call(method.value)
        call.write(length_prefixed(hello.SerializeToString()))
        asyncio.get_running_loop().call_soon(on_hello)  # what was written leaves before that
        await call.response_headers()
    except ConnectionBroken as broken:
        raise CannotConnect(url, _explain(str(broken), channel.connection, settings)) from broken
    except CallFailed as failure:
        raise refusal_error(failure, url) from failure
    return call


def _explain(reason: str, connection: AsyncConnection | None, settings: ConnectionSettings) -> str:
    if connection is None:
        return reason
    return explain_break(reason, settings.pem, connection.tls, settings_received=connection.http2.settings_received)


async def _close(call: ClientCall) -> None:
    """Send what is queued, then close without ending the call, because some servers notice only a broken stream."""
    try:
        with suppress(TimeoutError, ConnectionBroken):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await call.drain(0)
    finally:  # also if the task is cancelled once more
        call.connection.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT):
            await call.connection.closed.wait()
