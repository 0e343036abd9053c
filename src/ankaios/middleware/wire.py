"""The socket under a connection, with or without TLS: bytes in, bytes out, and one ending with a reason.

Comes in: bytes of the socket. Goes out: plaintext (`received`), a word when it can begin (`began`), go on writing
(`resumed`) and is over (`broke`). Owns the socket, the TLS session and the timers of one connection.

Whatever ends the connection ends it once: `reason` tells why; `closed` is set when the socket is gone.
"""

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING, cast

from ankaios.middleware.keepalive import Heartbeat, Keepalive

if TYPE_CHECKING:
    from ankaios.middleware.tls import TlsFailed, TlsLayer

_WRITE_BUFFER = 256 * 1024
_MAX_UNSENT = 16 * _WRITE_BUFFER  # only a peer that provokes answers and does not read them gets there
# Small, so that nobody's flood of tiny frames holds up the loop; one for all, as it is emptied at once.
_READ_BUFFER = bytearray(64 * 1024)
_LINGER = 1.0  # seconds a refused peer gets to read why


class Wire(asyncio.BufferedProtocol):
    """One end of a connection; what is said over it is up to the class that builds on it."""

    def __init__(self, keepalive: Keepalive, setup_timeout: float, tls: "TlsLayer | None") -> None:
        self.tls = tls
        self.tls_failure: TlsFailed | None = None
        self.reason: str | None = None
        self.ready = asyncio.Event()
        self.closed = asyncio.Event()
        self.writable = True
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._setup_timeout = setup_timeout
        self._setup_timer: asyncio.TimerHandle | None = None
        self._heartbeat = Heartbeat(self._loop, keepalive, self.ask_for_sign, self._peer_is_silent)

    # What is said over the wire

    @abstractmethod
    def began(self) -> None:
        """The peer can be talked to."""

    @abstractmethod
    def received(self, plaintext: bytes) -> None: ...

    @abstractmethod
    def resumed(self) -> None:
        """The socket takes more again."""

    @abstractmethod
    def broke(self, reason: str) -> None: ...

    @abstractmethod
    def ask_for_sign(self) -> None:
        """Send something that the peer must answer."""

    @property
    def peer_address(self) -> str:
        address = self._transport.get_extra_info("peername")
        return f"{address[0]}:{address[1]}" if address else "unknown"

    def set_up(self) -> None:
        """The peer speaks our language: the time limit for that no longer counts."""
        if self._setup_timer is not None:
            self._setup_timer.cancel()

    def write(self, data: bytes) -> None:
        if self.tls is not None:
            self.tls.send(data)
            data = self.tls.take_outgoing()
        self._write_raw(data)
        if self._transport.get_write_buffer_size() > _MAX_UNSENT:
            self.abort("the peer does not read")

    def abort(self, reason: str) -> None:
        """Cut the connection now; nothing that waits is sent."""
        self._end(reason)
        self._transport.abort()

    def close(self) -> None:
        """End the connection after what is in the socket's buffer, which gets a second to leave."""
        can_write = self.reason is None  # not while lingering
        self._end("the connection was closed")
        if can_write and self.tls is not None and self.tls.established:
            self.tls.close()
            self._write_raw(self.tls.take_outgoing())
        self._transport.close()
        self._loop.call_later(_LINGER, self._transport.abort)

    def linger(self, reason: str) -> None:
        """End the connection, but let the peer read what was written: unread input would reset the socket."""
        self._end(reason)
        if not self._transport.is_closing():
            self._transport.write_eof()
            self._loop.call_later(_LINGER, self._transport.abort)

    def _end(self, reason: str) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        self.writable = False
        self._heartbeat.stop()
        self.set_up()
        self.ready.set()
        self.broke(reason)

    def _begin(self) -> None:
        self.began()
        self._heartbeat.start()
        self.ready.set()

    def _peer_is_silent(self) -> None:
        self.abort("the peer does not answer")

    # The socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        self._setup_timer = self._loop.call_later(
            self._setup_timeout, self.abort, "the connection set-up took too long"
        )
        if self.tls is None:
            self._begin()
        else:
            self._decrypt(b"")

    def get_buffer(self, sizehint: int) -> bytearray:
        return _READ_BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        if self.reason is not None:
            return
        self._heartbeat.heard()
        data = bytes(memoryview(_READ_BUFFER)[:nbytes])
        plaintext = data if self.tls is None else self._decrypt(data)
        if plaintext:
            self.received(plaintext)

    def eof_received(self) -> None:
        self._end("the peer closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection broke: {exc}" if exc else "the connection was closed")
        self.closed.set()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        if self.reason is None:
            self.writable = True
            self.resumed()

    def _decrypt(self, data: bytes) -> bytes:
        from ankaios.middleware.tls import TlsFailed  # not where there is no TLS

        assert self.tls is not None
        was_established = self.tls.established
        try:
            plaintext = self.tls.receive(data)
        except TlsFailed as failure:
            self.tls_failure = failure
            self._write_raw(self.tls.take_outgoing())
            self.linger(f"TLS failed: {failure.reason}")
            return b""
        self._write_raw(self.tls.take_outgoing())
        if self.tls.established and not was_established:
            self._begin()
        return plaintext

    def _write_raw(self, data: bytes) -> None:
        if data:
            self._transport.write(data)
