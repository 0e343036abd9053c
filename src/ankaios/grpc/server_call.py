"""One call at the server: what its handler reads, writes, and learns of the peer.

Input: messages of the peer, responses of the handler. Output: the same for the other side, or `CallFailed`. Owns the
time at which an incomplete message began.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ankaios.grpc.async_call import AsyncCall
from ankaios.grpc.inbox_budget import message_time_limit
from ankaios.grpc.wire_format import RESPONSE_HEADERS, CallFailed, Status, final_headers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeVar

    from google.protobuf.message import Message

    from ankaios.grpc.served_connection import ServedConnection
    from ankaios.grpc.tls import PeerCertificates
    from ankaios.grpc.wire_format import Headers

    M = TypeVar("M", bound=Message)

REQUEST_TIMEOUT = 10.0


class ServerCall(AsyncCall):
    """A call as its handler sees it."""

    connection: ServedConnection
    _end_scope: asyncio.Timeout | None = None
    _message_started: float | None = None

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.headers or {}

    @property
    def peer_address(self) -> str:
        return self.connection.peer_address

    @property
    def peer_certificates(self) -> PeerCertificates | None:
        """None without TLS."""
        tls = self.connection.tls
        return tls.peer_certificates() if tls is not None else None

    def accept(self, metadata: Headers | None = None) -> None:
        """Send the response headers now, before the first message."""
        self.connection.admit()
        self.send_headers([*RESPONSE_HEADERS, *(metadata or ())])

    def write(self, data: bytes) -> None:
        if not self.headers_sent:
            self.accept()
        super().write(data)

    def finish_with(self, status: Status, text: str = "") -> None:
        self.finish(final_headers(status, text, headers_sent=self.headers_sent))

    async def receive_request(self, kind: type[M], limit: int) -> M:
        """Return the only message of a request."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                request = await self.receive(kind, limit)
        except TimeoutError:
            raise CallFailed(Status.DEADLINE_EXCEEDED, f"no request within {REQUEST_TIMEOUT:g} s") from None
        if request is None:
            raise CallFailed(Status.INVALID_ARGUMENT, "the call contains no request")
        return request

    async def respond(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work; cancel it if the client ends the call before."""
        try:
            async with asyncio.timeout(None) as self._end_scope:
                self.check()
                await work()
        except TimeoutError:
            self.check()
            raise
        finally:
            self._end_scope = None

    def receive_data(self, data: bytes) -> None:
        super().receive_data(data)
        self.connection.inbox_grew(len(data))

    def inbox_shrunk(self, size: int) -> None:
        if size:
            self._message_started = None
            self.connection.inbox_shrunk(size)

    async def _wait_for_change(self) -> None:
        """The rest of a message has to arrive in time."""
        if not self._inbox:
            await super()._wait_for_change()
            return
        now = asyncio.get_running_loop().time()
        if self._message_started is None:
            self._message_started = now
        size = self._inbox.announced_size
        limit = message_time_limit(size)
        try:
            async with asyncio.timeout(self._message_started + limit - now):
                await super()._wait_for_change()
        except TimeoutError:
            text = f"a message of {size} bytes was not complete within {limit:.0f} s"
            raise CallFailed(Status.DEADLINE_EXCEEDED, text) from None

    def end(self, reason: str) -> None:
        """Unread messages are dropped: processing them would delay the requests of others."""
        super().end(reason)
        self.discard_inbox()
        if self._end_scope is not None and not self._end_scope.expired():
            self._end_scope.reschedule(0)
