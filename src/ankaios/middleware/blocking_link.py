"""One HTTP/2 stream over one socket, without an event loop: for programs that do one thing at a time.

Comes in: what shall be sent, how long to wait. Goes out: the bytes, headers and trailers of the stream, and one reason
why it is over. Owns the socket, the TLS session and the HTTP/2 state.

All waiting happens in `step`, in one `poll`: for the socket, for the time limit, for the next sign of life that is due,
and for descriptors somebody else cares about (`watch`, `attend`). Nothing that was received is lost, however it ends.
"""

from __future__ import annotations

import select
from time import monotonic
from typing import TYPE_CHECKING

from ankaios.middleware.http2_engine.engine import Http2Engine
from ankaios.middleware.http2_engine.errors import CannotSend, ProtocolError
from ankaios.middleware.http2_engine.events import (
    DataReceived,
    GoawayReceived,
    HeadersReceived,
    SettingsReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from ankaios.middleware.keepalive import Keepalive, Vigil
from ankaios.middleware.peer_conduct import (
    FLOODED,
    PING,
    ChatterLimit,
    goaway_text,
    protocol_error_text,
    reset_text,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection

    from ankaios.middleware.grpc_call import MessageBuffer
    from ankaios.middleware.http2_engine.events import Event, Headers
    from ankaios.middleware.tls import TlsFailed, TlsLayer

_CHUNK = 256 * 1024
_MAX_UNSENT = 16 * _CHUNK  # only a peer that provokes answers and does not read them gets there
_STALL_LIMIT = 30.0  # seconds in which a peer that lives must take something of what we send
_CLOSE_LIMIT = 1.0
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL


class Woken(Exception):
    """The watched descriptor has something to say.

    What was waited for is still to come. But a message that was being sent has ended the connection: it is half there.
    """


class BlockingLink:
    """Made for a connected socket that does not block. `inbox` is filled with the data of the stream."""

    def __init__(self, connected: socket.socket, keepalive: Keepalive, tls: TlsLayer | None) -> None:
        self.reason: str | None = None
        self.tls_failure: TlsFailed | None = None
        self.peer_has_spoken = False
        self.peer_ended = False
        self.headers: dict[str, str] | None = None
        self.trailers: dict[str, str] | None = None
        self._socket = connected
        self._tls = tls
        self._engine = Http2Engine(client_side=True)
        self._engine.begin()
        self._stream = 0
        self._inbox: MessageBuffer
        self._unacknowledged = 0
        self._unsent = b""
        self._keepalive = keepalive
        self._vigil: Vigil | None = None
        self._chatter = ChatterLimit()
        self._poll = select.poll()
        self._poll.register(connected.fileno(), select.POLLIN)
        self._watched: int | None = None

    # Beginning and end

    def shake_hands(self, until: float) -> bool:
        """TLS, if there is any. False if that took too long or failed."""
        if self._tls is not None:
            self._take_plaintext(b"")
            while not self._tls.established and self.reason is None and monotonic() < until:
                self.step(until)
            if not self._tls.established:
                return False
        self._vigil = Vigil(self._keepalive, monotonic())
        return self.reason is None

    def open(self, headers: Headers, inbox: MessageBuffer) -> None:
        """Only queued: `step` and `send` let it go, together with what follows."""
        self._inbox = inbox
        try:
            self._stream = self._engine.open_stream(headers)
        except CannotSend as error:  # with TLS the peer may already have said so
            self._break(str(error))

    def queue(self, data: bytes) -> None:
        """Like `send`, but what the peer takes at once leaves together with what follows."""
        if self._engine.sendable(self._stream) >= len(data):
            self._engine.send_data(self._stream, data)
        else:
            self.send(data)

    def close(self) -> None:
        """End our side of the stream, give what waits to be sent a moment, and leave."""
        self.watch(None)
        if self.reason is None:
            self._say_last_words()
        until = monotonic() + _CLOSE_LIMIT
        while self._unsent and self.reason is None and monotonic() < until:
            self.step(until)
        self._break("the connection was closed")
        self._socket.close()

    def _say_last_words(self) -> None:
        if self._stream and not self.peer_ended:
            self._engine.end_stream(self._stream)
        self._flush()
        if self._tls is not None and self._tls.established:
            self._tls.close()
            self._write(self._tls.take_outgoing())

    def _break(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason
            self._unsent = b""

    # Sending

    def send(self, data: bytes) -> None:
        """Returns when the socket has taken everything, or when the stream is over."""
        try:
            self._send_all(memoryview(data))
        except Woken:
            self._break("a message was left half sent")  # whatever followed would be taken for the rest of it
            raise

    def _send_all(self, rest: memoryview) -> None:
        until = monotonic() + _STALL_LIMIT
        while (rest or self._unsent) and not self.peer_ended and self.reason is None:
            unsent = len(self._unsent)
            size = 0 if unsent else min(len(rest), self._engine.sendable(self._stream))
            if size > 0:
                self._engine.send_data(self._stream, rest[:size])
                self._flush()
                rest = rest[size:]
            elif monotonic() < until:
                self.step(until)
            else:
                self._break("the peer does not take what is sent")
            if size > 0 or len(self._unsent) < unsent:
                until = monotonic() + _STALL_LIMIT

    def _flush(self) -> None:
        """Hand over to the socket what the engine has to say; nothing of that before TLS protects it."""
        if self._tls is None:
            self._write(self._engine.take_outgoing())
            return
        data = self._engine.take_outgoing() if self._tls.established else b""
        if data:
            self._tls.send(data)
        self._write(self._tls.take_outgoing())

    def _write(self, data: bytes) -> None:
        if self.reason is not None:
            return
        data = self._unsent + data if self._unsent else data
        try:
            taken = self._socket.send(data) if data else 0
        except BlockingIOError:
            taken = 0
        except OSError as error:
            self._read()  # it may say why
            self._break(f"the connection broke: {error}")
            return
        self._unsent = data[taken:]
        if len(self._unsent) > _MAX_UNSENT:
            self._break("the peer does not read")

    # Waiting and receiving

    def watch(self, descriptor: int | None) -> None:
        """Let every wait end with `Woken` as soon as this descriptor is readable; None: no more."""
        if self._watched is not None:
            self._poll.unregister(self._watched)
        if descriptor is not None:
            self._poll.register(descriptor, select.POLLIN)
        self._watched = descriptor

    def attend(self, descriptor: int) -> None:
        """Live with the peer until this descriptor takes more (its reader may be slow) or the stream is over."""
        self._poll.register(descriptor, select.POLLOUT)
        try:
            while self.reason is None and descriptor not in self.step(None):
                pass
        finally:
            self._poll.unregister(descriptor)

    def step(self, until: float | None) -> Collection[int]:
        """Send what waits to be sent, then take what the peer sends, or return when the time has come.

        Returns the descriptors that are ready.
        """
        was_waiting = bool(self._unsent)
        self._flush()
        if was_waiting and not self._unsent:
            return ()  # there is room again: the peer need not say anything before more can be sent
        found = dict(self._poll_until(until)) if self.reason is None else {}
        if self._watched in found:
            raise Woken
        if found.get(self._socket.fileno(), 0) & _READABLE:
            self._read()
        elif self._vigil is not None and monotonic() >= self._vigil.due:
            self._keep_vigil(self._vigil)
        return found

    def _poll_until(self, until: float | None) -> list[tuple[int, int]]:
        self._poll.modify(self._socket.fileno(), select.POLLIN | (select.POLLOUT if self._unsent else 0))
        due = self._vigil.due if self._vigil is not None else None
        left = min(end for end in (until, due) if end is not None) - monotonic()
        return self._poll.poll(int(left * 1000) + 1 if left > 0 else 0)

    def _keep_vigil(self, vigil: Vigil) -> None:
        if vigil.step(monotonic()):
            self._engine.ping(PING)
            self._flush()
        else:
            self._break("the peer does not answer")

    def acknowledge(self) -> None:
        """Somebody wants to read: the peer may send as much again as has arrived."""
        if self._unacknowledged:
            self._engine.acknowledge(self._stream, self._unacknowledged)
            self._unacknowledged = 0

    def _read(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self._break(f"the connection broke: {error}")
            return
        if self._vigil is not None:
            self._vigil.heard(monotonic())
        plaintext = data if self._tls is None else self._take_plaintext(data)
        if plaintext:
            self._take(plaintext)
        if not data:
            self._break("the peer closed the connection")

    def _take_plaintext(self, data: bytes) -> bytes:
        from ankaios.middleware.tls import TlsFailed

        assert self._tls is not None
        plaintext = b""
        try:
            plaintext = self._tls.receive(data)
        except TlsFailed as failure:
            self.tls_failure = failure
        self._write(self._tls.take_outgoing())
        if self.tls_failure is not None:
            self._break(f"TLS failed: {self.tls_failure.reason}")
        return plaintext

    def _take(self, plaintext: bytes) -> None:
        try:
            events = self._engine.receive(plaintext)
        except ProtocolError as error:
            self._flush()
            self._break(protocol_error_text(error))
            return
        for event in events:
            self._handle(event)
        if self._chatter.is_exceeded_by(events, monotonic()):
            self._break(FLOODED)
        self._flush()

    def _handle(self, event: Event) -> None:
        match event:
            case DataReceived(data=data):
                self._inbox.add(data)
                self._unacknowledged += len(data)
            case HeadersReceived(headers=headers):
                self.headers = dict(headers)
            case TrailersReceived(headers=headers):
                self.trailers = dict(headers)
            case StreamEnded():
                self.peer_ended = True
            case SettingsReceived():
                self.peer_has_spoken = True
            case StreamReset():
                self._break(reset_text(event))
            case GoawayReceived():
                self._break(goaway_text(event))
            case _:
                pass  # larger windows are noticed by who sends; all else needs no action
