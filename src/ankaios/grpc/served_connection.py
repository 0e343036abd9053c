"""The server's end of a connection: its calls, and the limits on what all peers together may cost.

Input: bytes of the socket. Output: calls and changes of the connection for its `GrpcServer`. Owns what is known of the
peer: whether it has made a call, and whether it responds.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import thread_time
from typing import TYPE_CHECKING, cast

from h2.errors import ErrorCodes

from ankaios.grpc.async_connection import FRAMES_PER_TURN, AsyncConnection
from ankaios.grpc.frame_budget import FrameBudget
from ankaios.grpc.inbox_budget import InboxBudget
from ankaios.grpc.server_call import ServerCall

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from ankaios.grpc.call_state import CallState
    from ankaios.grpc.server import GrpcServer


class SharedBudgets:
    """What all connections of a server may cost together."""

    def __init__(self, max_message_size: int) -> None:
        self.frames = FrameBudget()
        self.inbox: InboxBudget[ServedConnection] = InboxBudget(max_message_size)


class ServedConnection(AsyncConnection):
    """With budgets the peer has to make a call within the time for the set-up."""

    _is_client = False

    def __init__(self, server: GrpcServer, sock: socket.socket) -> None:
        """`sock` is the accepted socket, by which the server finds the connection."""
        super().__init__(
            ServerCall,
            keepalive=server.keepalive,
            setup_timeout=server.setup_timeout,
            tls=server.new_session(),
            flush_queue=server.flush_queue,
        )
        self._sock = sock
        self._server = server
        self._budgets = server.budgets
        self._is_admitted = False
        self._activity = asyncio.Event()

    @property
    def peer_host(self) -> str:
        address = self._transport.get_extra_info("peername")
        return str(address[0]) if address else ""

    def admit(self) -> None:
        """The first call of the peer was accepted."""
        if not self._is_admitted:
            self._is_admitted = True
            self._server.forget_handshake(self._sock)

    async def responds(self, within: float) -> bool:
        """Send a ping; return whether the peer sends anything in so many seconds."""
        if self.reason is None:
            self._activity.clear()
            self.http2.ping()
            self.flush()
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._activity.wait()
        return self.reason is None and self._activity.is_set()

    # Limits

    def inbox_grew(self, size: int) -> None:
        """A call stores so many more received bytes."""
        if self._budgets is not None and (most := self._budgets.inbox.add(self, size)) is not None:
            most.reject("too many bytes of unfinished or unread messages")

    def inbox_shrunk(self, size: int) -> None:
        if self._budgets is not None:
            self._budgets.inbox.remove(self, size)

    def reject(self, text: str) -> None:
        """End the connection with a GOAWAY frame that states the reason."""
        if self.reason is None:
            self.http2.fail(ErrorCodes.ENHANCE_YOUR_CALM, text)
            self.flush()
            self._linger(text)

    def call_ended(self) -> None:
        """With a limit for the set-up, a connection without calls is ended after the same time."""
        if self._budgets is not None and self.reason is None and self._setup_timer is None:
            self._setup_timer = self._loop.call_later(self._setup_timeout, self._check_unused)

    def _check_unused(self) -> None:
        self._setup_timer = None
        if not self.http2.calls:
            self.reject("the connection is not used")

    def _process(self, plaintext: bytes, max_frames: float = FRAMES_PER_TURN) -> None:
        """Process frames as long as the budget of the server allows."""
        if self._budgets is None:
            super()._process(plaintext, max_frames)
            return
        frames, now, began = self._budgets.frames, self._loop.time(), thread_time()
        super()._process(plaintext, min(max_frames, frames.allowance(self, now)))
        if self.reason is None:
            frames.spend(self, self.http2.meter.frames, thread_time() - began)
            if not frames.allowance(self, now):
                self._pause_reading(frames.slice_end - now)

    def _handle_calls(self, calls: Sequence[CallState]) -> None:
        if calls or (self.http2.settings_received and self._budgets is None):
            self._end_setup()
        for call in calls:
            self._server.accept(cast("ServerCall", call))

    # Changes of the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connection_started(self)

    def _note_activity(self) -> None:
        self._activity.set()
        super()._note_activity()

    def _end(self, reason: str) -> None:
        if self.reason is not None:
            return
        super()._end(reason)
        self._activity.set()
        if self._budgets is not None:
            self._budgets.inbox.forget(self)
        self._server.connection_ended(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._server.forget_handshake(self._sock)
