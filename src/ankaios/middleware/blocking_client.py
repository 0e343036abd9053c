"""The client's end of the communication middleware for programs that do one thing at a time, such as `ank`.

Comes in: settings, hello, messages to send, how long to wait. Goes out: messages of the server, or an error that says
why there is no connection. Owns one connection.

    with connect(ConnectionSettings(url, pem), Method.CLI, hello) as server:
        server.send(ToServer(request=...))
        answer = server.receive(3.0)

`client.py` does the same for those that live in an event loop; which errors there are and what they say is decided in
`connecting.py` for both. The hello leaves together with the first message, and whether the server lets us in is looked
at with the first answer: that saves one way to the server and back.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from ankaios.common.pb.grpc_api_pb2 import FromServer
from ankaios.middleware.blocking_link import BlockingLink, Woken
from ankaios.middleware.blocking_socket import Unreachable, connected_socket
from ankaios.middleware.connecting import (
    CannotConnect,
    ConnectionLost,
    ConnectionSettings,
    address_of,
    call_headers,
    explain_break,
    refusal,
)
from ankaios.middleware.grpc_call import CUT_SHORT, CallFailed, MessageBuffer, decoded, frame, status_of
from ankaios.middleware.keepalive import Keepalive

if TYPE_CHECKING:
    from ankaios.common.config import PemMaterial
    from ankaios.common.pb.grpc_api_pb2 import ToServer
    from ankaios.middleware.connecting import Address
    from ankaios.middleware.methods import Method
    from ankaios.middleware.tls import TlsLayer

__all__ = ["BlockingConnection", "Woken", "connect"]


def connect(settings: ConnectionSettings, method: Method, hello: ToServer) -> BlockingConnection:
    """Connect and prepare the hello. Must be closed, or used as a context manager."""
    address = address_of(settings.shown_url)
    return BlockingConnection(settings, address, method, hello)


class BlockingConnection:
    """An open stream."""

    def __init__(self, settings: ConnectionSettings, address: Address, method: Method, hello: ToServer) -> None:
        self._settings = settings
        self._pem = settings.pem if address.secure else None
        self._until = monotonic() + settings.connect_timeout
        self._inbox = MessageBuffer(settings.max_message_size)
        self._is_admitted = False
        self._link = self._dial(address)
        self._link.open(call_headers(address, method), self._inbox)
        self._link.queue(frame(hello.SerializeToString()))

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._link.close()

    def send(self, message: ToServer) -> None:
        """Waits until the message is on its way; a large one goes as fast as the server takes it."""
        self._link.send(frame(message.SerializeToString()))
        if self._is_over():
            self._check_admission()
            raise self._lost()

    def receive(self, limit: float | None) -> FromServer | None:
        """The next message, or None when this many seconds are over; waits for ever without a limit.

        A message that has arrived in part stays where it is and is met again by the next call.
        """
        until = None if limit is None else monotonic() + limit
        while (message := self._next_message()) is None:
            is_late = until is not None and monotonic() >= until
            self._link.acknowledge()
            self._link.step(until if self._is_admitted else min(self._until, until or self._until))
            if is_late:
                return self._next_message()
        return message

    def watch(self, descriptor: int | None) -> None:
        """Every wait ends with `Woken` as soon as this descriptor is readable; None: no more."""
        self._link.watch(descriptor)

    def attend(self, descriptor: int) -> None:
        """Stay in touch with the server until this descriptor takes more; also returns if the connection is over."""
        self._link.attend(descriptor)

    def _next_message(self) -> FromServer | None:
        """What has arrived before the end still counts."""
        if not (self._is_admitted or self._has_decided()):
            return None
        try:
            payload = self._inbox.take()
            if payload is not None:
                return decoded(FromServer, payload)
        except CallFailed as failure:
            raise ConnectionLost(str(self._status() or failure)) from failure
        if self._is_over():
            raise self._lost()
        return None

    def _lost(self) -> ConnectionLost:
        if status := self._status():
            return ConnectionLost(str(status))
        if self._link.peer_ended:
            return ConnectionLost(CUT_SHORT if self._inbox else "the server ended the connection")
        return ConnectionLost(self._link.reason or "")

    def _status(self) -> CallFailed | None:
        return status_of(self._link.trailers) if self._link.trailers else None

    # Being let in

    def _dial(self, address: Address) -> BlockingLink:
        settings = self._settings
        tls = _tls_layer(self._pem) if self._pem is not None else None
        try:
            connected = connected_socket(address.host, address.port, settings.connect_timeout)
        except Unreachable as unreachable:
            raise self._cannot_connect(str(unreachable)) from unreachable
        link = BlockingLink(connected, Keepalive(settings.keepalive_interval, settings.keepalive_timeout), tls)
        if not link.shake_hands(self._until):
            reason = self._why_not(link)
            link.close()
            raise self._cannot_connect(reason)
        return link

    def _has_decided(self) -> bool:
        """False while there is hope: the server answers with headers when it has accepted the hello."""
        if self._link.headers is None and not self._is_over() and monotonic() < self._until:
            return False
        self._check_admission()
        return True

    def _check_admission(self) -> None:
        """Whatever ends the call before the server has let us in means that we are not connected at all."""
        if self._link.headers is None:
            raise self._cannot_connect(self._why_not(self._link))
        if failure := status_of(self._link.headers):
            raise refusal(failure, self._settings.shown_url)
        self._is_admitted = True

    def _is_over(self) -> bool:
        return self._link.reason is not None or self._link.peer_ended

    def _why_not(self, link: BlockingLink) -> str:
        if link.reason is None:
            if link.peer_ended:
                return "the stream ended without headers"
            return f"no answer within {self._settings.connect_timeout:g} s"
        return explain_break(link.reason, self._pem, link.tls_failure, peer_has_spoken=link.peer_has_spoken)

    def _cannot_connect(self, reason: str) -> CannotConnect:
        return CannotConnect(self._settings.shown_url, reason)


def _tls_layer(pem: PemMaterial) -> TlsLayer:
    from ankaios.middleware.security import SERVER_NAME, client_context  # half of the start-up time, if needed
    from ankaios.middleware.tls import TlsLayer

    return TlsLayer(client_context(pem), server_name=SERVER_NAME)
