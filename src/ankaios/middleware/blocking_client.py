"""The client of an Ankaios server for programs that do one thing at a time, such as `ank`.

Input: settings, hello, messages to send, time limits. Output: messages of the server, or an error that states why there
is no connection. Owns one connection.

    with connect_blocking(ConnectionSettings(url, pem), Method.CLI, hello) as server:
        server.send(ToServer(request=...))
        response = server.receive(3.0)

`client.py` does the same for asyncio; both have the same errors, from `connecting.py`. The hello is sent together with
the first message, and the first response shows whether the server has accepted it: this saves one round trip.
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING

from ankaios.common.pb.grpc_api_pb2 import FromServer
from ankaios.grpc.blocking_call import BlockingCall
from ankaios.grpc.blocking_socket import connected_socket
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, failure_in, request_headers
from ankaios.middleware.connecting import (
    CannotConnect,
    ConnectionLost,
    ConnectionSettings,
    address_of,
    explain_break,
    new_tls_session,
    refusal_error,
)
from ankaios.middleware.methods import accepts_additions
from ankaios.middleware.server_targets import ServerTargets, server_urls

if TYPE_CHECKING:
    from ankaios.common.pb.grpc_api_pb2 import ToServer
    from ankaios.grpc.addresses import TcpAddress
    from ankaios.middleware.methods import Method


def connect_blocking(settings: ConnectionSettings, method: Method, hello: ToServer) -> BlockingConnection:
    """Connect and prepare the hello. Close the connection after use, or use it as a context manager."""
    return BlockingConnection(settings, method, hello)


class BlockingConnection:
    """An open stream. `settings.url` may be a list of servers; the connection is made with the one that leads.

    What is sent before a server has accepted the hello is sent again to the next one.
    """

    def __init__(self, settings: ConnectionSettings, method: Method, hello: ToServer) -> None:
        urls = server_urls(settings.shown_url)
        for url in urls:
            address_of(url)
        self._settings = settings
        self._method = method
        self._hello = hello.SerializeToString()
        self._targets = ServerTargets(urls, settings.connect_timeout)
        self._began = monotonic()
        self._unconfirmed: list[bytes] = []
        self._watched: int | None = None
        self._open_or_next(self._targets.first)

    def _open_or_next(self, url: str) -> None:
        while True:
            try:
                self._open(url)
                return
            except CannotConnect as error:
                url = self._next_url(error)

    def _next_url(self, error: CannotConnect) -> str:
        """After a pause; raises the error if there is no other server to try."""
        target = self._targets.after(error, monotonic() - self._began)
        if target is None:
            raise error
        sleep(target.pause)
        return target.url

    def _open(self, url: str) -> None:
        address = address_of(url)
        self._url = url
        self._until = monotonic() + self._settings.connect_timeout
        self._is_accepted = False
        self._call = self._connect(address)
        self._call.watch(self._watched)
        headers = request_headers(self._method.value, secure=address.secure, authority=address.authority)
        if not self._call.open(headers, self._hello, self._until):
            reason = self._why_not()
            self._call.close()
            raise self._cannot_connect(reason)

    def _reopen(self, error: CannotConnect) -> None:
        """The server did not accept the hello, so it has processed nothing."""
        self._call.close()
        self._open_or_next(self._next_url(error))
        for data in self._unconfirmed:
            self._call.send(data)

    @property
    def can_follow(self) -> bool:
        """Whether there may be another server to continue with."""
        return self._targets.can_follow

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._call.close()

    def send(self, message: ToServer) -> None:
        """Wait until the message is sent; a large one is sent as fast as the server takes it."""
        data = message.SerializeToString()
        if not self._is_accepted:
            self._unconfirmed.append(data)
        self._call.send(data)
        while self._call.is_over:
            try:
                self._check_acceptance()
            except CannotConnect as error:
                self._reopen(error)
            else:
                raise self._lost()

    def receive(self, limit: float | None) -> FromServer | None:
        """Return the next message, or None after this many seconds; without a limit, wait forever.

        The next call continues with a message that has arrived in part.
        """
        while True:
            try:
                return self._receive(limit)
            except CannotConnect as error:
                self._reopen(error)

    def _receive(self, limit: float | None) -> FromServer | None:
        until = None if limit is None else monotonic() + limit
        while (message := self._next_message()) is None:
            is_late = until is not None and monotonic() >= until
            self._call.state.request_more()
            self._call.step(until if self._is_accepted else min(self._until, until or self._until))
            if is_late:
                return self._next_message()
        return message

    @property
    def accepts_additions(self) -> bool:
        """Whether the server supports the requests that this project adds. Valid after the first received message."""
        return accepts_additions(self._call.state.headers or {})

    def watch(self, descriptor: int | None) -> None:
        """Every wait ends with `WaitInterrupted` as soon as this descriptor is readable; None: no more."""
        self._watched = descriptor
        self._call.watch(descriptor)

    def wait_writable(self, descriptor: int) -> None:
        """Keep the connection alive until this descriptor is writable; also returns if the connection is over."""
        self._call.wait_writable(descriptor)

    def _next_message(self) -> FromServer | None:
        """Messages that arrived before the end are still returned."""
        if not (self._is_accepted or self._has_response()):
            return None
        try:
            message = self._call.state.take_message(FromServer, self._settings.max_message_size)
        except CallFailed as failure:
            raise ConnectionLost(str(self._status() or failure)) from failure
        if message is None and self._call.is_over:
            raise self._lost()
        return message

    def _lost(self) -> ConnectionLost:
        if status := self._status():
            return ConnectionLost(str(status))
        if self._call.state.peer_ended:
            return ConnectionLost("the server ended the connection")
        return ConnectionLost(self._call.reason or "")

    def _status(self) -> CallFailed | None:
        trailers = self._call.state.trailers
        return failure_in(trailers) if trailers else None

    # Until the server has accepted the hello

    def _connect(self, address: TcpAddress) -> BlockingCall:
        settings = self._settings
        tls = new_tls_session(settings.pem) if settings.pem is not None and address.secure else None
        try:
            connected = connected_socket(address.host, address.port, settings.connect_timeout)
        except ConnectionBroken as broken:
            raise self._cannot_connect(str(broken)) from broken
        return BlockingCall(connected, settings.keepalive, tls)

    def _has_response(self) -> bool:
        """The server sends headers when it has accepted the hello."""
        if self._call.state.headers is None and not self._call.is_over and monotonic() < self._until:
            return False
        self._check_acceptance()
        return True

    def _check_acceptance(self) -> None:
        """A call that ends before the server has accepted the hello means that there is no connection."""
        headers = self._call.state.headers
        if headers is None:
            raise self._cannot_connect(self._why_not())
        if failure := failure_in(headers):
            raise refusal_error(failure, self._url)
        self._is_accepted = True
        self._unconfirmed.clear()

    def _why_not(self) -> str:
        call = self._call
        if call.reason is not None:
            pem, settings_received = self._settings.pem, call.http2.settings_received
            return explain_break(call.reason, pem, call.tls, settings_received=settings_received)
        if call.state.peer_ended:
            return "the stream ended without headers"
        return f"no response within {self._settings.connect_timeout:g} s"

    def _cannot_connect(self, reason: str) -> CannotConnect:
        return CannotConnect(self._url, reason)
