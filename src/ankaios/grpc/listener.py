"""Accepts connections on a listening socket: in small batches, within limits, and only those that send something.

Input: a listening socket. Output: connected sockets whose first bytes have arrived. Owns the listening socket and the
accepted sockets until they are passed on.

`asyncio` accepts as many connections at once as the backlog has, creates a transport for each, and when no descriptor
is left it logs a traceback for each attempt. Here an accepted socket costs a descriptor and an entry in a table until
the peer sends its first byte, and accepting pauses when there is no descriptor.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress

from ankaios.common.listening_socket import BACKLOG
from ankaios.common.log_limiter import LimitedLog
from ankaios.grpc.open_handshakes import OpenHandshakes

LOCAL = "a local process"
_BATCH = 16
_PAUSE = 0.2  # seconds without a free descriptor
_SWEEP = 0.5  # seconds between two checks of the deadline
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

log = logging.getLogger(__name__)


class Listener:
    """`connected` gets a socket, which is also the key of its entry in `handshakes`.

    The caller ends the entry when the connection is set up or has ended.
    """

    def __init__(
        self,
        sock: socket.socket,
        handshakes: OpenHandshakes[socket.socket],
        connected: Callable[[socket.socket], None],
        end_connection: Callable[[socket.socket], None],
        first_byte_timeout: float,
        can_accept: Callable[[], bool] = lambda: True,
    ) -> None:
        """`end_connection` ends a connection that was passed on already, because its place is needed.

        While `can_accept` returns False, new connections wait in the backlog: a burst must not fill the places of its
        address only because the accepted connections have not been processed yet.
        """
        self._socket = sock
        self._handshakes = handshakes
        self._connected = connected
        self._end_connection = end_connection
        self._timeout = first_byte_timeout
        self._can_accept = can_accept
        self._has_new = False
        self._silent: dict[socket.socket, None] = {}  # in the order of arrival
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._limited_log = LimitedLog(log, "connections were not accepted")
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._resume()

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for timer in (self._timer, self._sweep_timer):
            if timer is not None:
                timer.cancel()
        for connection in tuple(self._silent):
            self._close_silent(connection)

    # Accepting

    def _resume(self) -> None:
        self._timer = None
        self._loop.add_reader(self._socket, self._accept_batch)

    def _accept_batch(self) -> None:
        """The first bytes of a batch are read before the next batch is accepted."""
        if self._has_new or not self._can_accept():
            self._has_new = False
            return
        for _ in range(_BATCH):
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_RESOURCES:
                    self._pause(error)
                    return
                continue  # the peer has closed the connection again
            self._has_new = True
            self._start(connection, address[0] if isinstance(address, tuple) else LOCAL)

    def _pause(self, error: OSError) -> None:
        self._limited_log.warning("Cannot accept connections for a moment: %s.", os.strerror(error.errno or 0))
        self._loop.remove_reader(self._socket)
        self._timer = self._loop.call_later(_PAUSE, self._resume)

    def _start(self, connection: socket.socket, address: str) -> None:
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            # Without it a response waits up to 40 ms until the peer has acknowledged the previous one. asyncio sets it
            # only for sockets that were created with the protocol number of TCP.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_accepted, ended = self._handshakes.start(connection, address, self._loop.time())
        if ended is not None:
            end = self._close_silent if ended in self._silent else self._end_connection
            end(ended)
        if not is_accepted:
            self._limited_log.warning("Rejected a connection from %s: too many are not set up yet.", address)
            connection.close()
            return
        self._silent[connection] = None
        self._loop.add_reader(connection, self._first_byte, connection)
        if self._sweep_timer is None:
            self._sweep_timer = self._loop.call_later(_SWEEP, self._sweep)

    # Sockets without a first byte

    def _first_byte(self, connection: socket.socket) -> None:
        try:
            is_open = bool(connection.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            is_open = False
        if not is_open:
            self._close_silent(connection)
            return
        self._loop.remove_reader(connection)
        del self._silent[connection]
        self._connected(connection)

    def _close_silent(self, connection: socket.socket) -> None:
        del self._silent[connection]
        self._loop.remove_reader(connection)
        with suppress(OSError):
            connection.close()
        self._handshakes.end(connection)

    def _sweep(self) -> None:
        """One timer for all sockets, as there may be thousands."""
        self._sweep_timer = None
        for connection in self._handshakes.older_than(self._loop.time() - self._timeout):
            if connection in self._silent:
                self._limited_log.warning("Ended a connection that sent nothing within %g s.", self._timeout)
                self._close_silent(connection)
        if self._silent:
            self._sweep_timer = self._loop.call_later(_SWEEP, self._sweep)
