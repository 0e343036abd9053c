"""Where discovery handlers of other processes register: `agent-registration.sock` in the handlers' directory.

In: registrations. Out: handlers in the registry. Owns the socket and the list of registered endpoints, which is
forgotten with the process: handlers register again when they lose their stream.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path
from typing import Any

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from ankaios.common.errors import Unavailable
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.discovery.remote import Endpoint, RemoteHandler, limit_messages, parse_endpoint
from ankaios.devices.pb import discovery_pb2 as pb

DIRECTORY_VARIABLE = "DISCOVERY_HANDLERS_DIRECTORY"
DEFAULT_DIRECTORY = "/var/lib/akri"
SOCKET_NAME = "agent-registration.sock"
REGISTER = "/v0.Registration/RegisterDiscoveryHandler"
MAX_REQUEST = 64 * 1024
MAX_ENDPOINTS = 256
MAX_NAME = 253
RECEIVE_SECONDS = 10.0
CLOSE_SECONDS = 2.0

log = logging.getLogger(__name__)


def handlers_directory() -> Path:
    return Path(os.environ.get(DIRECTORY_VARIABLE) or DEFAULT_DIRECTORY)


class RegistrationServer:
    """Serves registrations from `start` to `close`."""

    def __init__(self, registry: HandlerRegistry, directory: Path | None = None) -> None:
        self._registry = registry
        self.path = (directory or handlers_directory()) / SOCKET_NAME
        self._handlers: dict[tuple[str, Endpoint], RemoteHandler] = {}
        self._server: Server | None = None

    async def start(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            sock = _bind(self.path)
        except OSError as error:
            raise Unavailable(
                f"cannot listen for discovery handlers at '{self.path}': {error}; set {DIRECTORY_VARIABLE} to another "
                "directory"
            ) from error
        self._server = Server([self])
        await self._server.start(sock=sock)

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self.path.unlink(missing_ok=True)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._server.wait_closed()
        except TimeoutError:
            log.warning("a registration at '%s' did not end in time", self.path)
        self._server = None

    def __mapping__(self) -> dict[str, Handler]:
        return {
            REGISTER: Handler(self._serve, Cardinality.UNARY_UNARY, pb.RegisterDiscoveryHandlerRequest, pb.Empty),
        }

    async def _serve(self, stream: Any) -> None:
        limit_messages(stream, MAX_REQUEST)
        try:
            async with asyncio.timeout(RECEIVE_SECONDS):
                request = await stream.recv_message()
        except TimeoutError as error:
            raise GRPCError(Status.DEADLINE_EXCEEDED, f"no request came within {RECEIVE_SECONDS} s") from error
        except ValueError as error:
            raise GRPCError(Status.INVALID_ARGUMENT, str(error)) from error
        try:
            self.register(request)
        except ValueError as error:
            log.warning("refused the registration of a discovery handler: %s", error)
            raise GRPCError(Status.INVALID_ARGUMENT, str(error)) from error
        await stream.send_message(pb.Empty())

    def register(self, request: pb.RegisterDiscoveryHandlerRequest) -> None:
        """Take in one endpoint; ValueError says why not."""
        if not request.name or len(request.name) > MAX_NAME or not request.name.isprintable():
            raise ValueError(f"the name of a handler is a visible text of at most {MAX_NAME} characters")
        endpoint = parse_endpoint(request.endpoint, request.endpoint_type == pb.RegisterDiscoveryHandlerRequest.NETWORK)
        known = self._handlers.get((request.name, endpoint))
        if known is not None and known.shared == request.shared:
            # It lost a stream and is back. Streams that still run are left alone, broken ones are tried again now.
            known.registered_again()
            self._registry.announce()
            return
        if known is not None:
            self._forget(known)
        if len(self._handlers) >= MAX_ENDPOINTS:
            raise ValueError(f"there are already {MAX_ENDPOINTS} handlers; stop one that is not needed")
        handler = RemoteHandler(request.name, endpoint, request.shared, on_gone=self._forget)
        self._handlers[request.name, endpoint] = handler
        self._registry.add(handler)
        log.info("discovery handler '%s' registered at '%s'", request.name, endpoint)

    def _forget(self, handler: RemoteHandler) -> None:
        if self._handlers.get((handler.name, handler.endpoint)) is handler:
            del self._handlers[handler.name, handler.endpoint]
            self._registry.remove(handler)
            log.info("discovery handler '%s' at '%s' is forgotten", handler.name, handler.endpoint)


def _bind(path: Path) -> socket.socket:
    """A socket only root can use, since a handler decides which files of the host a workload gets."""
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        sock.bind(str(path))
        path.chmod(0o600)  # nobody can connect before it listens; a umask would reach files of other threads
    except BaseException:
        sock.close()
        raise
    return sock


def _remove_stale(path: Path) -> None:
    """Remove what an earlier process left behind, but not the socket of one that still answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(1)
        try:
            trial.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise OSError("another agent listens there")
