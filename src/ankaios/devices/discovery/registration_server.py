"""Where discovery handlers of other processes register: `agent-registration.sock` in the handlers' directory.

In: registrations. Out: handlers in the registry. Owns the socket, the folders it had to make for it, and the list of
registered endpoints, which is forgotten with the process: handlers register again when they lose their stream.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ankaios.common.errors import Unavailable
from ankaios.devices.checked_file import restore_checked, write_checked
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.discovery.remote import Endpoint, RemoteHandler, parse_endpoint
from ankaios.devices.pb import discovery_pb2 as pb
from ankaios.devices.unix_rpc import MAX_REGISTRATION_SIZE, UnixServer
from ankaios.grpc.server import unary
from ankaios.grpc.wire_format import CallFailed, Status

DIRECTORY_VARIABLE = "DISCOVERY_HANDLERS_DIRECTORY"
DEFAULT_DIRECTORY = "/var/lib/akri"
SOCKET_NAME = "agent-registration.sock"
REGISTER = "/v0.Registration/RegisterDiscoveryHandler"
MAX_ENDPOINTS = 256
MAX_NAME = 253

log = logging.getLogger(__name__)


def handlers_directory() -> Path:
    return Path(os.environ.get(DIRECTORY_VARIABLE) or DEFAULT_DIRECTORY)


class RegistrationServer:
    """Serves registrations from `start` to `close`."""

    def __init__(self, registry: HandlerRegistry, directory: Path | None = None, file: Path | None = None) -> None:
        """`file` has the endpoints for the next agent, which calls them before they register again."""
        self._registry = registry
        self._file = file
        self.path = (directory or handlers_directory()) / SOCKET_NAME
        self._made: list[Path] = []  # the innermost first
        self._handlers: dict[tuple[str, Endpoint], RemoteHandler] = {}
        handler = unary(pb.RegisterDiscoveryHandlerRequest, self._serve, MAX_REGISTRATION_SIZE)
        self._server = UnixServer(self.path, {REGISTER: handler})

    async def start(self) -> None:
        try:
            self._made = [folder for folder in self.path.parents if not folder.exists()]
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _remove_stale(self.path)
            await self._server.start()
            self._restore()
        except (OSError, Unavailable) as error:
            self._remove_folders()
            raise Unavailable(
                f"cannot listen for discovery handlers at '{self.path}': {error}; set {DIRECTORY_VARIABLE} to another "
                "directory"
            ) from error

    async def close(self) -> None:
        await self._server.close()
        self._remove_folders()

    def _remove_folders(self) -> None:
        """Remove the folders that were made here, unless they contain other files."""
        with suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    async def _serve(self, request: pb.RegisterDiscoveryHandlerRequest, _metadata: Mapping[str, str]) -> pb.Empty:
        try:
            self.register(request)
        except ValueError as error:
            log.warning("refused the registration of a discovery handler: %s", error)
            raise CallFailed(Status.INVALID_ARGUMENT, str(error)) from error
        return pb.Empty()

    def register(self, request: pb.RegisterDiscoveryHandlerRequest) -> None:
        """Register one endpoint; ValueError states why it is rejected."""
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
            self._forget_absent()
        if len(self._handlers) >= MAX_ENDPOINTS:
            raise ValueError(f"there are already {MAX_ENDPOINTS} handlers; stop one that is not needed")
        self._add(request.name, endpoint, request.shared)
        self._save()
        log.info("discovery handler '%s' registered at '%s'", request.name, endpoint)

    def _add(self, name: str, endpoint: Endpoint, shared: bool) -> None:
        handler = RemoteHandler(name, endpoint, shared, on_gone=self._forget)
        self._handlers[name, endpoint] = handler
        self._registry.add(handler)

    def _restore(self) -> None:
        """Handlers of an earlier agent. One that cannot be reached for long is forgotten as after a loss."""
        if self._file is None:
            return
        known = restore_checked(self._file, list[tuple[str, Endpoint, bool]], "the discovery handlers")
        for name, endpoint, shared in (known or [])[:MAX_ENDPOINTS]:
            if (name, endpoint) not in self._handlers:
                self._add(name, endpoint, shared)

    def _save(self) -> None:
        if self._file is not None:
            known = [(name, endpoint, it.shared) for (name, endpoint), it in self._handlers.items()]
            try:
                write_checked(self._file, known)
            except OSError as error:
                log.warning("cannot keep the discovery handlers in '%s': %s", self._file, error)

    def _forget_absent(self) -> None:
        """A handler that no configuration names is never called, so its absence is noticed only here."""
        for handler in list(self._handlers.values()):
            if handler.endpoint.path is not None and not Path(handler.endpoint.path).exists():
                self._forget(handler)

    def _forget(self, handler: RemoteHandler) -> None:
        if self._handlers.get((handler.name, handler.endpoint)) is handler:
            del self._handlers[handler.name, handler.endpoint]
            self._registry.remove(handler)
            self._save()
            log.info("discovery handler '%s' at '%s' is forgotten", handler.name, handler.endpoint)


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
