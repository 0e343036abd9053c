"""The asyncio connection with a fake socket and a fake clock: its end, full sockets, keep-alive, small reads."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ankaios.grpc.async_call import AsyncCall
from ankaios.grpc.async_connection import AsyncConnection, FlushQueue, SharedBudgets
from ankaios.grpc.frame_budget import SLICE, TOTAL_SECONDS
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.wire_format import ConnectionBroken, request_headers
from tests.unit.grpc.h2_peer import DATA, PING, SETTINGS, raw_frame

SETTINGS_FRAME = raw_frame(SETTINGS, 0, 0)
PING_OF_OURS = raw_frame(PING, 0, 0, b"ankaios?")


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
    """A client's connection, unless `accept` is given."""

    def __init__(self, flush_queue: FlushQueue | None = None, **more: Any) -> None:
        self.loop = FakeLoop()
        self.transport = FakeTransport()
        self.ends: list[str | None] = []
        self.connection = AsyncConnection(
            AsyncCall,
            keepalive=Keepalive(1.0, 2.0),
            setup_timeout=5.0,
            flush_queue=flush_queue,
            on_end=lambda it: self.ends.append(it.reason),
            **more,
        )
        self.connection._loop = self.loop  # type: ignore[assignment]
        self.connection.connection_made(self.transport)

    def receive(self, data: bytes) -> None:
        buffer = self.connection.get_buffer(-1)
        buffer[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def written(self) -> bytes:
        written, self.transport.written = self.transport.written, b""
        return written


@pytest.fixture
async def connected() -> Connected:
    made = Connected()
    assert made.written().startswith(b"PRI * HTTP/2.0")
    return made


async def test_received_frames_are_answered(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME + raw_frame(PING, 0, 0, b"12345678"))
    assert b"12345678" in connected.written()
    assert connected.connection.http2.settings_received


async def test_only_the_first_end_counts(connected: Connected) -> None:
    connected.connection.eof_received()
    connected.connection.abort("later")
    connected.connection.connection_lost(OSError("even later"))
    assert connected.ends == ["the peer closed the connection"]
    assert connected.connection.closed.is_set()


async def test_nothing_is_processed_after_the_end(connected: Connected) -> None:
    connected.connection.connection_lost(OSError("reset"))
    connected.receive(SETTINGS_FRAME)
    connected.connection.resume_writing()
    assert connected.ends == ["the connection broke: reset"]
    assert connected.written() == b""


async def test_the_end_of_the_connection_ends_its_calls(connected: Connected) -> None:
    call = connected.connection.open_call(request_headers("/x", secure=False, authority="a"))
    connected.connection.abort("over")
    with pytest.raises(ConnectionBroken, match="over"):
        call.check()


async def test_a_full_socket_holds_back_data_but_not_responses(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME)
    call = connected.connection.open_call(request_headers("/x", secure=False, authority="a"))
    connected.connection.flush()
    connected.connection.pause_writing()
    connected.written()
    call.write(b"data")
    connected.receive(raw_frame(PING, 0, 0, b"12345678"))
    held_back = connected.written()
    assert b"12345678" in held_back
    assert b"data" not in held_back
    connected.connection.resume_writing()
    assert b"data" in connected.written()


async def test_a_peer_that_causes_responses_and_reads_none_is_disconnected(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME)
    connected.connection.pause_writing()
    connected.transport.unsent = 4 * 1024 * 1024 + 1
    connected.receive(raw_frame(PING, 0, 0, b"12345678"))
    assert connected.ends == ["the peer does not read"]
    assert connected.transport.aborted


async def test_a_peer_that_breaks_the_rules_can_read_the_reason(connected: Connected) -> None:
    connected.receive(raw_frame(DATA, 0, 1, b"x"))
    assert connected.ends == ["HTTP/2 protocol error: the first frame is not SETTINGS, so this is not HTTP/2"]
    assert b"the first frame is not SETTINGS" in connected.written()
    assert connected.transport.ended
    assert not connected.transport.aborted
    connected.loop.advance(1)
    assert connected.transport.aborted


async def test_a_flood_is_cut_off(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME + raw_frame(PING, 0, 0, b"12345678") * 1_500)
    assert not connected.transport.reads
    connected.loop.advance(0)
    assert connected.ends == ["HTTP/2 protocol error: more than 1000 frames without data in a second"]
    assert connected.transport.aborted


async def test_a_peer_that_sends_no_settings_is_disconnected(connected: Connected) -> None:
    connected.connection._keepalive = None
    connected.loop.advance(5)
    assert connected.ends == ["the connection was not set up in time"]


def answers(connected: Connected) -> int:
    return connected.written().count(b"12345678")


async def test_many_small_frames_are_processed_in_portions(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME)
    connected.receive(raw_frame(PING, 0, 0, b"12345678") * 600)
    assert answers(connected) == 64
    assert not connected.transport.reads
    connected.loop.advance(0)
    assert answers(connected) == 536
    assert connected.transport.is_reading()


PING_OF_PEER = raw_frame(PING, 0, 0, b"12345678")
START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS_FRAME


def a_server_connection(budgets: SharedBudgets) -> Connected:
    return Connected(budgets=budgets, accept=lambda call: None)


async def test_a_connection_that_has_used_its_share_waits_for_the_next_slice_of_time() -> None:
    budgets = SharedBudgets(1000)
    connected = a_server_connection(budgets)
    budgets.frames.allowance(connected.connection, connected.loop.now)
    budgets.frames.spend(connected.connection, 1, TOTAL_SECONDS)
    connected.receive(START + PING_OF_PEER * 30)
    connected.loop.advance(0)
    assert answers(connected) == 0
    assert not connected.transport.reads
    connected.loop.advance(2 * SLICE)
    assert connected.transport.is_reading()
    assert answers(connected) == 30


async def test_the_end_of_a_connection_that_waits_ends_the_waiting() -> None:
    connected = a_server_connection(SharedBudgets(1000))
    connected.receive(START + PING_OF_PEER * 600)
    connected.connection.abort("over")
    connected.written()
    connected.loop.advance(SLICE)
    assert connected.written() == b""


async def test_a_client_that_makes_no_call_is_disconnected() -> None:
    connected = a_server_connection(SharedBudgets(1000))
    connected.connection._keepalive = None
    connected.receive(START)
    connected.loop.advance(5)
    assert connected.ends == ["the connection was not set up in time"]


async def test_a_fault_in_one_connection_does_not_affect_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = FlushQueue()
    faulty, good = Connected(queue), Connected(queue)
    monkeypatch.setattr(faulty.transport, "write", None)
    for connected in (faulty, good):
        connected.written()
        connected.connection.open_call(request_headers("/x", secure=False, authority="a"))
    await asyncio.sleep(0)
    assert "Cannot send" in caplog.text
    assert faulty.ends == ["internal error"]
    assert faulty.transport.aborted
    assert good.written()


# Keep-alive


async def test_a_silent_peer_gets_one_ping_and_is_disconnected(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME)
    connected.written()
    connected.loop.advance(1)
    assert connected.written() == PING_OF_OURS
    connected.loop.advance(1.9)
    assert connected.ends == []
    connected.loop.advance(0.2)
    assert connected.ends == ["the peer does not respond"]
    assert connected.written() == b""


async def test_a_peer_that_responds_gets_the_next_ping_after_the_interval(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME)
    connected.loop.advance(1.5)
    connected.receive(raw_frame(PING, 1, 0, b"ankaios?"))
    connected.written()
    connected.loop.advance(0.9)
    assert connected.written() == b""
    connected.loop.advance(0.2)
    assert connected.written() == PING_OF_OURS


async def test_a_busy_peer_gets_no_ping(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME)
    connected.written()
    for _ in range(100):
        connected.loop.advance(0.9)
        connected.receive(raw_frame(PING, 1, 0, b"ankaios?"))
    assert connected.written() == b""


async def test_after_a_pause_of_this_process_the_peer_still_gets_its_time(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME)
    connected.loop.now += 50
    connected.loop.advance(1.9)
    assert connected.ends == []


async def test_an_ended_connection_sends_no_pings(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME)
    connected.connection.abort("over")
    connected.written()
    connected.loop.advance(100)
    assert connected.written() == b""
    assert connected.ends == ["over"]
