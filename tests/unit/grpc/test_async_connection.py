"""The asyncio connection with a fake socket and a fake clock: its end, full sockets, keep-alive, small reads."""

import asyncio

import pytest

from ankaios.grpc.async_call import AsyncCall
from ankaios.grpc.async_connection import AsyncConnection, FlushQueue
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.wire_format import ConnectionBroken, request_headers
from tests.unit.grpc.fake_socket import SETTINGS_FRAME, Connected, answers
from tests.unit.grpc.h2_peer import DATA, PING, raw_frame

PING_OF_OURS = raw_frame(PING, 0, 0, b"ankaios?")


def a_client(flush_queue: FlushQueue | None = None) -> Connected:
    keepalive = Keepalive(1.0, 2.0)
    return Connected(AsyncConnection(AsyncCall, keepalive=keepalive, setup_timeout=5.0, flush_queue=flush_queue))


@pytest.fixture
async def connected() -> Connected:
    made = a_client()
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


async def test_a_full_socket_delays_data_but_not_responses(connected: Connected) -> None:
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


async def test_a_peer_that_sends_too_many_frames_is_disconnected(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME + raw_frame(PING, 0, 0, b"12345678") * 1_500)
    assert not connected.transport.reads
    connected.loop.advance(0)
    assert connected.ends == ["HTTP/2 protocol error: more than 1000 frames without data in a second"]
    assert connected.transport.aborted


async def test_a_peer_that_sends_no_settings_is_disconnected(connected: Connected) -> None:
    connected.connection._keepalive = None
    connected.loop.advance(5)
    assert connected.ends == ["the connection was not set up in time"]


async def test_many_small_frames_are_processed_in_portions(connected: Connected) -> None:
    connected.receive(SETTINGS_FRAME)
    connected.receive(raw_frame(PING, 0, 0, b"12345678") * 600)
    assert answers(connected) == 64
    assert not connected.transport.reads
    connected.loop.advance(0)
    assert answers(connected) == 536
    assert connected.transport.is_reading()


async def test_a_fault_in_one_connection_does_not_affect_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = FlushQueue()
    faulty, good = a_client(queue), a_client(queue)
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
