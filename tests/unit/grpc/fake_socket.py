"""A fake socket and a fake clock for connections."""

import asyncio
from collections.abc import Callable
from typing import Any

from ankaios.grpc.async_connection import AsyncConnection
from tests.unit.grpc.h2_peer import PING, SETTINGS, raw_frame

SETTINGS_FRAME = raw_frame(SETTINGS, 0, 0)
PING_OF_PEER = raw_frame(PING, 0, 0, b"12345678")


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unsent = 0
        self.aborted = False
        self.ended = False
        self.reads = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_reading(self) -> bool:
        return self.reads

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def write_eof(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.ended = True


class FakeTimer:
    def __init__(self, when: float, callback: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.when = when
        self.cancelled = False
        self._callback, self._arguments = callback, arguments

    def cancel(self) -> None:
        self.cancelled = True

    def run(self) -> None:
        self._callback(*self._arguments)


class FakeLoop:
    def __init__(self) -> None:
        self.now = 100.0
        self._timers: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., None], *arguments: Any) -> FakeTimer:
        self._timers.append(FakeTimer(when, callback, arguments))
        return self._timers[-1]

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: Any) -> FakeTimer:
        return self.call_at(self.now + delay, callback, *arguments)

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted((it for it in self._timers if it.when <= end and not it.cancelled), key=lambda it: it.when):
            self.now = max(self.now, due[0].when)
            self._timers.remove(due[0])
            due[0].run()
        self.now = end


class Connected:
    """A connection with a fake socket and a fake clock."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.loop = FakeLoop()
        self.transport = FakeTransport()
        self.connection = connection
        self.connection._loop = self.loop  # type: ignore[assignment]
        self.connection.connection_made(self.transport)

    @property
    def ends(self) -> list[str]:
        return [] if self.connection.reason is None else [self.connection.reason]

    def receive(self, data: bytes) -> None:
        buffer = self.connection.get_buffer(-1)
        buffer[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def written(self) -> bytes:
        written, self.transport.written = self.transport.written, b""
        return written


def answers(connected: Connected) -> int:
    """The number of answered pings of the peer since the last call."""
    return connected.written().count(b"12345678")
