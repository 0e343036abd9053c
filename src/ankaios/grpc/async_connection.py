"""One HTTP/2 connection for asyncio: the socket, optional TLS, and the timers around `Http2Connection`.

Input: bytes of the socket. Output: calls (`accept`), and the end of the connection with one reason. Owns the socket,
the TLS session, and the timers of one connection.

The connection ends once: `reason` states why, and `closed` is set when the socket is closed.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from time import thread_time
from typing import TYPE_CHECKING, cast

from h2.errors import ErrorCodes

from ankaios.grpc.frame_budget import FrameBudget
from ankaios.grpc.http2_connection import Http2Connection
from ankaios.grpc.inbox_budget import InboxBudget
from ankaios.grpc.keepalive import KeepaliveTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ankaios.grpc.async_call import AsyncCall
    from ankaios.grpc.keepalive import Keepalive
    from ankaios.grpc.tls import TlsSession
    from ankaios.grpc.wire_format import Headers

log = logging.getLogger(__name__)

_WRITE_BUFFER = 256 * 1024
_MAX_UNSENT = 16 * _WRITE_BUFFER  # reached only by a peer that causes responses and does not read them
_READ_BUFFER = bytearray(64 * 1024)  # shared by all connections, as it is processed immediately
_FRAMES_PER_TURN = 64  # are processed before other connections are served
_LINGER = 1.0  # seconds in which a rejected peer can read the reason


def _ignore(connection: AsyncConnection) -> None:
    del connection


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


class SharedBudgets:
    """What all connections of a server may cost together."""

    def __init__(self, max_message_size: int) -> None:
        self.frames = FrameBudget()
        self.inbox: InboxBudget[AsyncConnection] = InboxBudget(max_message_size)


class AsyncConnection(asyncio.BufferedProtocol):
    """A server's end if `accept` is given (called for each call of the peer), else a client's end.

    `on_start` is called when there is a socket, `on_set_up` when the first call of the peer is accepted, or at the
    latest when the socket is closed, and `on_end` when the connection cannot be used any more.
    """

    def __init__(
        self,
        call_type: Callable[[AsyncConnection, int], AsyncCall],
        *,
        keepalive: Keepalive | None,
        setup_timeout: float,
        tls: TlsSession | None = None,
        flush_queue: FlushQueue | None = None,
        budgets: SharedBudgets | None = None,
        accept: Callable[[AsyncCall], None] | None = None,
        on_start: Callable[[AsyncConnection], None] = _ignore,
        on_set_up: Callable[[], None] = lambda: None,
        on_end: Callable[[AsyncConnection], None] = _ignore,
    ) -> None:
        self.tls = tls
        self._call_type = call_type
        self._http2: Http2Connection | None = None
        self._budgets = budgets
        self.reason: str | None = None
        self.ready = asyncio.Event()
        self._heard = asyncio.Event()
        self.closed = asyncio.Event()
        self._accept = accept
        self._on_start, self._on_set_up, self._on_end = on_start, on_set_up, on_end
        self._is_admitted = False
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
                client_side=self._accept is None,
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

    @property
    def peer_host(self) -> str:
        address = self._transport.get_extra_info("peername")
        return str(address[0]) if address else ""

    def admit(self) -> None:
        """The first call of the peer was accepted."""
        if not self._is_admitted:
            self._is_admitted = True
            self._on_set_up()

    async def responds(self, within: float) -> bool:
        """Send a ping; return whether the peer sends anything in so many seconds."""
        if self.reason is None:
            self._heard.clear()
            self.http2.ping()
            self.flush()
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._heard.wait()
        return self.reason is None and self._heard.is_set()

    def inbox_grew(self, size: int) -> None:
        """A call stores so many more received bytes."""
        if self._budgets is not None and (most := self._budgets.inbox.add(self, size)) is not None:
            most.reject("too many bytes of unfinished or unread messages")

    def inbox_shrunk(self, size: int) -> None:
        if self._budgets is not None:
            self._budgets.inbox.remove(self, size)

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
            self.tls.send(data)
            data = self.tls.take_outgoing()
        self._transport.write(data)
        if not self._writable and self._transport.get_write_buffer_size() > _MAX_UNSENT:
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

    def reject(self, text: str) -> None:
        """End the connection with a GOAWAY frame that states the reason."""
        if self.reason is None:
            self.http2.fail(ErrorCodes.ENHANCE_YOUR_CALM, text)
            self.flush()
            self._linger(text)

    def end_if_unused(self) -> None:
        """End the connection if the peer makes no call within the time for the set-up of a connection."""
        if self.reason is None and self._setup_timer is None:
            self._setup_timer = self._loop.call_later(self._setup_timeout, self._check_unused)

    def _check_unused(self) -> None:
        self._setup_timer = None
        if not self.http2.calls:
            self.reject("the connection is not used")

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
        self._heard.set()
        if self._http2 is not None:
            self._http2.end(reason)
        if self._budgets is not None:
            self._budgets.inbox.forget(self)
        self._on_end(self)

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
        self._heard.set()
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
        self._on_start(self)

    def _start(self) -> None:
        """A server may not have accepted the connection yet; until it sends bytes the set-up time counts."""
        self.flush()
        if self._accept is not None or self.tls is not None:
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

    def _process(self, plaintext: bytes) -> None:
        now, began = self._loop.time(), thread_time()
        calls = self.http2.receive(plaintext, now, self._allowed_frames(now))
        if self._setup_timer is not None and self._is_set_up(has_calls=bool(calls)):
            self._setup_timer.cancel()
            self._setup_timer = None
        if self._accept is not None:
            for call in calls:
                self._accept(cast("AsyncCall", call))
        self.flush()
        if self.http2.meter.is_flooded:
            self.abort(self.http2.failure or "")
        elif self.http2.failure is not None:
            self._linger(self.http2.failure)
        else:
            self._limit_reading(now, thread_time() - began)

    def _is_set_up(self, *, has_calls: bool) -> bool:
        """A client of a server with limits has to make a call in time."""
        return has_calls or (self.http2.settings_received and self._budgets is None)

    def _allowed_frames(self, now: float) -> int:
        """Many small frames are processed in portions, and not longer than the budget of the server allows."""
        if self._budgets is None:
            return _FRAMES_PER_TURN
        return min(_FRAMES_PER_TURN, self._budgets.frames.allowance(self, now))

    def _limit_reading(self, now: float, seconds: float) -> None:
        """Read nothing more until what is left can be processed."""
        delay = 0.0
        if self._budgets is not None:
            frames = self._budgets.frames
            frames.spend(self, self.http2.meter.frames, seconds)
            delay = 0.0 if frames.allowance(self, now) else frames.slice_end - now
        if delay > 0 or self.http2.unprocessed:
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
        self._on_set_up()

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        if self.is_established:
            self.flush()
