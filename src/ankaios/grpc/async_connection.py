"""One HTTP/2 connection for asyncio: the socket, optional TLS, and the timers around `Http2Connection`.

Input: bytes of the socket. Output: changed calls, and the end of the connection with one reason. Owns the socket, the
TLS session, and the timers of one connection.

The connection ends once: `reason` states why, and `closed` is set when the socket is closed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from ankaios.grpc.http2_connection import MAX_UNSENT, Http2Connection
from ankaios.grpc.keepalive import KeepaliveTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ankaios.grpc.async_call import AsyncCall
    from ankaios.grpc.call_state import CallState
    from ankaios.grpc.keepalive import Keepalive
    from ankaios.grpc.tls import TlsSession
    from ankaios.grpc.wire_format import Headers

log = logging.getLogger(__name__)

_WRITE_BUFFER = 256 * 1024
_READ_BUFFER = bytearray(64 * 1024)  # shared by all connections, as it is processed immediately
FRAMES_PER_TURN = 64  # are processed before other connections are served
_LINGER = 1.0  # seconds in which a rejected peer can read the reason


class FlushQueue:
    """Sends the data of several connections in one callback of the loop: a broadcast needs one instead of hundreds."""

    def __init__(self) -> None:
        self._connections: list[AsyncConnection] = []

    def add(self, connection: AsyncConnection) -> None:
        if not self._connections:
            asyncio.get_running_loop().call_soon(self._flush)
        self._connections.append(connection)

    def _flush(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            try:
                connection.flush()
            except Exception:  # a fault in one connection must not affect the others
                log.exception("Cannot send to %s.", connection.peer_address)
                connection.abort("internal error")


class AsyncConnection(asyncio.BufferedProtocol):
    """A client's end; `ServedConnection` is a server's end."""

    _is_client = True

    def __init__(
        self,
        call_type: Callable[[AsyncConnection, int], AsyncCall],
        *,
        keepalive: Keepalive | None,
        setup_timeout: float,
        tls: TlsSession | None = None,
        flush_queue: FlushQueue | None = None,
    ) -> None:
        self.tls = tls
        self._call_type = call_type
        self._http2: Http2Connection | None = None
        self.reason: str | None = None
        self.ready = asyncio.Event()
        self.closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._flush_planned = False
        self._writable = True
        self._flush_queue = flush_queue or FlushQueue()
        self._setup_timeout = setup_timeout
        self._setup_timer: asyncio.TimerHandle | None = None
        self._keepalive = keepalive
        self._keepalive_timer = KeepaliveTimer(None, 0)
        self._wake_up: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None

    @property
    def http2(self) -> Http2Connection:
        """Created when it is first used: a peer that fails in the TLS handshake costs none."""
        if self._http2 is None:
            self._http2 = Http2Connection(
                lambda _, number: self._call_type(self, number),
                client_side=self._is_client,
                on_output=self._flush_soon,
            )
        return self._http2

    @property
    def is_established(self) -> bool:
        return self.tls is None or self.tls.established

    @property
    def is_idle(self) -> bool:
        """The socket takes data, and nothing waits for the end of the loop iteration."""
        return self._writable and not self._flush_planned

    @property
    def peer_address(self) -> str:
        address = self._transport.get_extra_info("peername")
        return f"{address[0]}:{address[1]}" if address else "a local process"

    def open_call(self, headers: Headers) -> AsyncCall:
        """Start a call; raises `ConnectionBroken`."""
        return cast("AsyncCall", self.http2.open_call(headers))

    # Sending

    def _flush_soon(self) -> None:
        """Everything that is sent in one iteration of the loop leaves in one write."""
        if not self._flush_planned:
            self._flush_planned = True
            self._flush_queue.add(self)

    def flush(self) -> None:
        self._flush_planned = False
        while self.reason is None and (data := self.http2.take_outgoing(with_data=self._writable)):
            self._write(data)
            if not self.http2.has_queued_data:
                return

    def _write(self, data: bytes) -> None:
        if self.tls is not None:
            data = self.tls.encrypt(data)
        self._transport.write(data)
        if not self._writable and self._transport.get_write_buffer_size() > MAX_UNSENT:
            self.abort("the peer does not read")

    def _write_tls_output(self) -> None:
        if self.tls is not None and (data := self.tls.take_outgoing()):
            self._transport.write(data)

    # The end

    def abort(self, reason: str) -> None:
        """Close the connection immediately; nothing that waits is sent."""
        self._end(reason)
        self._transport.abort()

    def close(self) -> None:
        """Close the connection after what was sent so far, which gets a second to leave."""
        if self.reason is None and self.is_established:
            self.flush()
            if self.tls is not None:
                self.tls.close()
                self._write_tls_output()
        self._end("the connection was closed")
        self._transport.close()
        self._loop.call_later(_LINGER, self._transport.abort)

    def _linger(self, reason: str) -> None:
        """End the connection, but let the peer read what was written: unread input would reset the socket."""
        self._end(reason)
        if not self._transport.is_closing():
            self._transport.write_eof()
            self._loop.call_later(_LINGER, self._transport.abort)

    def _end(self, reason: str) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        self._stop_timers()
        self.ready.set()
        if self._http2 is not None:
            self._http2.end(reason)

    # Timers

    def _start_timers(self) -> None:
        self._keepalive_timer = KeepaliveTimer(self._keepalive, self._loop.time())
        self._plan_wake_up()

    def _stop_timers(self) -> None:
        for timer in (self._setup_timer, self._wake_up, self._reading_timer):
            if timer is not None:
                timer.cancel()

    def _plan_wake_up(self) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
        if self._keepalive is not None:
            self._wake_up = self._loop.call_at(self._keepalive_timer.due, self._check_keepalive)

    def _check_keepalive(self) -> None:
        now = self._loop.time()
        if now >= self._keepalive_timer.due:
            if not self._keepalive_timer.expire(now):
                self.abort("the peer does not respond")
                return
            self.http2.ping()
            self.flush()
        self._plan_wake_up()

    def _note_activity(self) -> None:
        """Only the response to a ping moves the timer; otherwise it finds the new time when it expires."""
        if self._keepalive is not None and self._wake_up is None and self.is_established:
            self._start_timers()
        ping_sent = self._keepalive_timer.ping_sent
        self._keepalive_timer.received(self._loop.time())
        if ping_sent:
            self._plan_wake_up()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        self._setup_timer = self._loop.call_later(
            self._setup_timeout, self.abort, "the connection was not set up in time"
        )
        if self.tls is None:
            self._start()
        else:
            self._decrypt(b"")

    def _start(self) -> None:
        """A server may not have accepted the connection yet; until it sends bytes the set-up time counts."""
        self.flush()
        if not self._is_client or self.tls is not None:
            self._start_timers()
        self.ready.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(_READ_BUFFER)

    def buffer_updated(self, nbytes: int) -> None:
        if self.reason is not None:
            return
        self._note_activity()
        data = bytes(memoryview(_READ_BUFFER)[:nbytes])
        plaintext = data if self.tls is None else self._decrypt(data)
        if plaintext:
            self._process(plaintext)

    def _process(self, plaintext: bytes, max_frames: float = FRAMES_PER_TURN) -> None:
        """Many small frames are processed in portions."""
        self._handle_calls(self.http2.receive(plaintext, self._loop.time(), max_frames))
        self.flush()
        if self.http2.meter.is_flooded:
            self.abort(self.http2.failure or "")
        elif self.http2.failure is not None:
            self._linger(self.http2.failure)
        elif self.http2.unprocessed:
            self._pause_reading(0.0)

    def _handle_calls(self, calls: Sequence[CallState]) -> None:
        """The peer has started these calls."""
        if calls or self.http2.settings_received:
            self._end_setup()

    def _end_setup(self) -> None:
        if self._setup_timer is not None:
            self._setup_timer.cancel()
            self._setup_timer = None

    def _pause_reading(self, delay: float) -> None:
        """Read nothing more until what is left can be processed."""
        if self._reading_timer is not None:
            self._reading_timer.cancel()
        self._transport.pause_reading()
        self._reading_timer = self._loop.call_later(delay, self._continue_reading)

    def _continue_reading(self) -> None:
        self._reading_timer = None
        if self.http2.unprocessed:
            self._note_activity()
            self._process(self.http2.unprocessed)
        if self.reason is None and self._reading_timer is None:
            self._transport.resume_reading()

    def _decrypt(self, data: bytes) -> bytes:
        assert self.tls is not None
        was_established = self.tls.established
        plaintext = self.tls.receive(data)
        self._write_tls_output()
        if self.tls.failure is not None:
            self._linger(f"TLS failed: {self.tls.failure.reason}")
        elif self.tls.established and not was_established:
            self._start()
        return plaintext

    def eof_received(self) -> None:
        self._end("the peer closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection broke: {exc}" if exc else "the connection was closed")
        self.closed.set()

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        if self.is_established:
            self.flush()
