"""gRPC over unix sockets, as the device plugin API is spoken.

In: a path. Out: a server that listens there, or a channel to one. Socket files are made for the owner only.
"""

import asyncio
import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.const import Handler, Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from grpclib.server import Server

from ankaios.devices.plugin_folder import bind

CLOSE_SECONDS = 2.0
RECEIVE_SECONDS = 10.0
LARGEST_REQUEST = 64 * 1024
LARGEST_MESSAGE = 16 * 1024 * 1024

A = TypeVar("A")

# What a call raises when the other side refuses, breaks off, or does not speak the protocol.
CALL_FAILED = (
    OSError,
    GRPCError,
    StreamTerminatedError,
    ProtocolError,
    DecodeError,
    TimeoutError,
    ValueError,
    NotImplementedError,
    AssertionError,
)

log = logging.getLogger(__name__)


def failure(error: BaseException) -> str:
    """What went wrong with a call, for people."""
    if isinstance(error, GRPCError):
        return error.message or error.status.name
    return str(error) or type(error).__name__


class UnixChannel(Channel):
    """A kubelet says `localhost` too: many servers refuse a socket path as authority."""

    def __init__(self, path: Path) -> None:
        super().__init__(path=str(path))

    def _get_authority(self, host: str, port: int) -> str:
        return "localhost"

    async def __connect__(self) -> Any:
        """A peer that hangs up at once, as one without free descriptors does, is a failed call and not a bug."""
        protocol: Any = await super().__connect__()
        if protocol.handler.connection_lost:
            raise ConnectionResetError("the other side hung up")
        return protocol


class UnixServer:
    """Serves handlers at a path from `start` to `close`."""

    def __init__(self, path: Path, handlers: Mapping[str, Handler]) -> None:
        self.path = path
        self._handlers = dict(handlers)
        self._server: Server | None = None

    def __mapping__(self) -> dict[str, Handler]:
        return self._handlers

    async def start(self, listener: socket.socket | None = None) -> None:
        sock = listener or bind(self.path)
        server = Server([self])
        try:
            await server.start(sock=sock)
        except BaseException:
            sock.close()
            raise
        self._server = server

    async def close(self) -> None:
        if self._server is None:
            return
        self.path.unlink(missing_ok=True)
        self._server.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._server.wait_closed()
        except TimeoutError:
            log.warning("a call at '%s' did not end in time", self.path)
        self._server = None


async def call(
    channel: Channel,
    method: str,
    request: Any,
    answer: type[A],
    seconds: float,
    metadata: Mapping[str, str] | None = None,
) -> A:
    """One question, one answer of bounded size within the time; raises one of `CALL_FAILED`."""
    rpc = UnaryUnaryMethod(channel, method, type(request), answer)
    async with asyncio.timeout(seconds), rpc.open(metadata=metadata) as stream:
        await stream.send_message(request, end=True)
        limit_messages(stream, LARGEST_MESSAGE)
        response = await stream.recv_message()
    if not isinstance(response, answer):
        raise ProtocolError("there was no answer")
    return response


async def receive(stream: Any) -> Any:
    """The one message of a small request; a caller who says nothing, or far too much, is turned away."""
    limit_messages(stream, LARGEST_REQUEST)
    try:
        async with asyncio.timeout(RECEIVE_SECONDS):
            request = await stream.recv_message()
    except TimeoutError as error:
        raise GRPCError(Status.DEADLINE_EXCEEDED, f"no request came within {RECEIVE_SECONDS} s") from error
    except ValueError as error:
        raise GRPCError(Status.INVALID_ARGUMENT, str(error)) from error
    if request is None:
        raise GRPCError(Status.INVALID_ARGUMENT, "there was no request")
    return request


def limit_messages(stream: Any, size: int) -> None:
    """grpclib reads a message of any length its sender announces; this makes it stop before."""
    receive = stream._stream.recv_data

    async def receive_bounded(wanted: int) -> bytes:
        if wanted > size:
            raise ValueError(f"a message of {wanted} bytes is longer than {size}")
        return bytes(await receive(wanted))

    stream._stream.recv_data = receive_bounded
