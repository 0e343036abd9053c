"""One gRPC call over one socket without an event loop, for programs that do one thing at a time.

Input: messages to send, time limits. Output: messages of the server, its headers and trailers, and one reason why the
call is over. Owns the socket, the TLS session, and the HTTP/2 state.

All waiting happens in `step`, in one `poll`: for the socket, for a time limit, for the next keep-alive ping, and for
descriptors of the caller (`watch`, `wait_writable`). Received messages stay readable however the call ends.
"""

from __future__ import annotations

import select
from time import monotonic
from typing import TYPE_CHECKING

from ankaios.grpc.call_state import CallState
from ankaios.grpc.http2_connection import MAX_UNSENT, Http2Connection
from ankaios.grpc.keepalive import KeepaliveTimer
from ankaios.grpc.wire_format import ConnectionBroken, length_prefixed

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection

    from ankaios.grpc.keepalive import Keepalive
    from ankaios.grpc.tls import TlsSession
    from ankaios.grpc.wire_format import Headers

_CHUNK = 256 * 1024
_STALL_LIMIT = 30.0  # seconds in which the peer must take some of the data
_CLOSE_LIMIT = 1.0
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL


class WaitInterrupted(Exception):
    """The watched descriptor became readable.

    A wait can be repeated. A message that was being sent has ended the call, because only a part of it was sent.
    """


class BlockingCall:
    """Made for a connected non-blocking socket; `open` starts the call."""

    def __init__(self, connected: socket.socket, keepalive: Keepalive, tls: TlsSession | None) -> None:
        self.reason: str | None = None
        self.tls = tls
        self.http2 = Http2Connection(CallState, client_side=True)
        self.state = CallState(self.http2, 0)
        self._socket = connected
        self._unsent = b""
        self._sent_bytes = 0
        self._keepalive = keepalive
        self._keepalive_timer = KeepaliveTimer(None, 0)
        self._poll = select.poll()
        self._poll.register(connected.fileno(), select.POLLIN)
        self._watched: int | None = None

    @property
    def is_over(self) -> bool:
        return self.reason is not None or self.state.peer_ended

    # Start and end

    def open(self, headers: Headers, first_message: bytes, until: float) -> bool:
        """Set up TLS if there is any, and start the call. False: not in time, or for the `reason` that is then set.

        The headers and the first message leave with the next `step` or `send`.
        """
        if self.tls is not None:
            self._decrypt(b"")
            while not self.tls.established and self.reason is None and monotonic() < until:
                self.step(until)
            if not self.tls.established:
                return False
        # A server that is starting sends nothing yet; `until` is the limit for its first bytes.
        self._keepalive_timer = KeepaliveTimer(self._keepalive, until)
        try:
            self.state = self.http2.open_call(headers)
            self.state.write(length_prefixed(first_message))
        except ConnectionBroken as broken:  # with TLS the server may have ended the connection already
            self._end(str(broken))
        return self.reason is None

    def close(self) -> None:
        """End our side of the call, give unsent data a moment, and close the socket."""
        self.watch(None)
        if self.reason is None:
            self.state.half_close()
            self._flush()
            if self.tls is not None and self.tls.established:
                self.tls.close()
                self._write(self.tls.take_outgoing())
        until = monotonic() + _CLOSE_LIMIT
        while self._unsent and self.reason is None and monotonic() < until:
            self.step(until)
        self._end("the connection was closed")
        self._socket.close()

    def _end(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason
            self._unsent = b""

    # Sending

    def send(self, payload: bytes) -> None:
        """Return when the socket has taken the message, or when the call is over."""
        if self.is_over:
            return
        self.state.write(length_prefixed(payload))
        try:
            self._send_all()
        except WaitInterrupted:
            self._end("a message was sent only in part")
            raise

    def _send_all(self) -> None:
        sent, until = self._sent_bytes, monotonic() + _STALL_LIMIT
        self._flush()
        while (self.state.queued_bytes or self._unsent) and not self.is_over:
            if self._sent_bytes > sent:
                sent, until = self._sent_bytes, monotonic() + _STALL_LIMIT
            elif monotonic() >= until:
                self._end("the peer does not take the data")
            self.step(until)

    def _flush(self) -> None:
        """Write everything that the peer and the socket take now, but nothing before TLS protects it."""
        self._write(b"" if self.tls is None else self.tls.take_outgoing())
        while self.reason is None and (self.tls is None or self.tls.established):
            data = self.http2.take_outgoing(with_data=not self._unsent)
            if not data:
                return
            if self.tls is not None:
                data = self.tls.encrypt(data)
            self._write(data)

    def _write(self, data: bytes) -> None:
        data = self._unsent + data if self._unsent else data
        if self.reason is not None or not data:
            return
        try:
            taken = self._socket.send(data)
        except BlockingIOError:
            taken = 0
        except OSError as error:
            self._read()  # the server may have sent the reason
            self._end(f"the connection broke: {error}")
            return
        self._sent_bytes += taken
        self._unsent = data[taken:]
        if len(self._unsent) > MAX_UNSENT:
            self._end("the peer does not read")

    # Waiting and receiving

    def watch(self, descriptor: int | None) -> None:
        """Let every wait end with `WaitInterrupted` as soon as this descriptor is readable; None: no more."""
        if self._watched is not None:
            self._poll.unregister(self._watched)
        if descriptor is not None:
            self._poll.register(descriptor, select.POLLIN)
        self._watched = descriptor

    def wait_writable(self, descriptor: int) -> None:
        """Keep the connection alive until this descriptor is writable or the call is over."""
        self._poll.register(descriptor, select.POLLOUT)
        try:
            while self.reason is None and descriptor not in self.step(None):
                pass
        finally:
            self._poll.unregister(descriptor)

    def step(self, until: float | None) -> Collection[int]:
        """Send what is queued, then process what the peer sends, or return at the time limit.

        Returns the descriptors that are ready.
        """
        had_unsent = bool(self._unsent)
        self._flush()
        if had_unsent and not self._unsent:
            return ()  # the caller can send more
        ready = dict(self._poll_until(until)) if self.reason is None else {}
        if self._watched in ready:
            raise WaitInterrupted
        if ready.get(self._socket.fileno(), 0) & _READABLE:
            self._read()
        elif self.reason is None and monotonic() >= self._keepalive_timer.due:
            self._check_keepalive()
        return ready

    def _poll_until(self, until: float | None) -> list[tuple[int, int]]:
        self._poll.modify(self._socket.fileno(), select.POLLIN | (select.POLLOUT if self._unsent else 0))
        end = self._keepalive_timer.due if until is None else min(until, self._keepalive_timer.due)
        left = end - monotonic()
        return self._poll.poll(int(left * 1000) + 1 if left > 0 else 0)

    def _check_keepalive(self) -> None:
        if self._keepalive_timer.expire(monotonic()):
            self.http2.ping()
            self._flush()
        else:
            self._end("the peer does not respond")

    def _read(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(f"the connection broke: {error}")
            return
        self._keepalive_timer.received(monotonic())
        plaintext = data if self.tls is None else self._decrypt(data)
        if plaintext:
            self._process(plaintext)
        if not data:
            self._end("the peer closed the connection")

    def _decrypt(self, data: bytes) -> bytes:
        assert self.tls is not None
        plaintext = self.tls.receive(data)
        self._write(self.tls.take_outgoing())
        if self.tls.failure is not None:
            self._end(f"TLS failed: {self.tls.failure.reason}")
        return plaintext

    def _process(self, plaintext: bytes) -> None:
        self.http2.receive(plaintext, monotonic())
        self._flush()
        if self.http2.failure is not None:
            self._end(self.http2.failure)
        elif self.state.broken is not None and not self.state.peer_ended:
            self._end(self.state.broken)
