"""A gRPC server at a unix socket, as the device plugin API uses it.

Input: a path, a handler for each method. Output: a server that listens there, or a channel to one. Owns the socket
file, which only the user of the process can connect to.
"""

import socket
from collections.abc import Mapping
from pathlib import Path

from ankaios.devices.plugin_folder import bind_plugin_socket
from ankaios.grpc.addresses import UnixAddress
from ankaios.grpc.channel import GrpcChannel
from ankaios.grpc.server import GrpcServer, Handler

MAX_REGISTRATION_SIZE = 64 * 1024


def unix_channel(path: Path) -> GrpcChannel:
    return GrpcChannel(UnixAddress(str(path)))


class UnixServer:
    """Serves the methods at a path from `start` to `close`."""

    def __init__(self, path: Path, methods: Mapping[str, Handler]) -> None:
        self.path = path
        self._methods = methods
        self._server: GrpcServer | None = None

    async def start(self, listener: socket.socket | None = None) -> None:
        """`listener`: the socket is bound already."""
        sock = listener or bind_plugin_socket(self.path)
        server = GrpcServer(self._methods)
        try:
            server.listen_on(sock)
        except BaseException:
            sock.close()
            raise
        self._server = server

    async def close(self) -> None:
        if self._server is not None:
            self.path.unlink(missing_ok=True)
            await self._server.close()
            self._server = None
