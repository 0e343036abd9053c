"""One gRPC call for asyncio, on either side: messages are received and sent with limits.

Input: messages to send. Output: messages of the peer, or `CallFailed`. Owns nothing beyond the call's state.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ankaios.grpc.call_state import CallState
from ankaios.grpc.wire_format import MIB, length_prefixed

if TYPE_CHECKING:
    from typing import TypeVar

    from google.protobuf.message import Message

    from ankaios.grpc.async_connection import AsyncConnection

    M = TypeVar("M", bound=Message)

MAX_MESSAGE_SIZE = 16 * MIB
_MAX_QUEUED_BYTES = MIB
_FLUSH_BYTES, _FLUSH_COUNT = 64 * 1024, 1_000


class AsyncCall(CallState):
    """One task may receive while others send."""

    def __init__(self, connection: AsyncConnection, stream_id: int) -> None:
        super().__init__(connection.http2, stream_id)
        self.connection = connection
        self._changed = asyncio.Event()
        self._progressed = asyncio.Event()

    def changed(self) -> None:
        self._changed.set()

    def progressed(self) -> None:
        self._progressed.set()

    async def receive(self, kind: type[M], limit: int = MAX_MESSAGE_SIZE) -> M | None:
        """Return the next message, or None at the end of the peer's messages."""
        while (message := self.take_message(kind, limit)) is None:
            if self.peer_ended:
                return None
            self.request_more()
            await self._wait_for_change()
        return message

    async def _wait_for_change(self) -> None:
        self.check()
        self._changed.clear()
        await self._changed.wait()

    async def send(self, message: Message) -> None:
        """Wait only while more than a megabyte is still queued."""
        self.write(length_prefixed(message.SerializeToString()))
        await self.drain(_MAX_QUEUED_BYTES)

    def write(self, data: bytes) -> None:
        """The data of one loop iteration is sent in one piece, unless it is large."""
        self.check()
        is_small = len(data) < _FLUSH_BYTES
        if is_small and not self.queued_bytes and self.connection.is_idle and self._http2.send_data_now(self, data):
            return
        super().write(data)
        if self.queued_bytes >= _FLUSH_BYTES or self.queued_count >= _FLUSH_COUNT:
            self.connection.flush()

    async def drain(self, limit: int) -> None:
        """Wait until at most `limit` bytes are queued."""
        while self.queued_bytes > limit:
            self.check()
            self._progressed.clear()
            await self._progressed.wait()
        self.check()
