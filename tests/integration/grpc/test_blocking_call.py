"""The call without an event loop, over real sockets: servers that are early, slow, or accept everything at once."""

import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from h2.settings import SettingCodes
from hyperframe.frame import Frame, PingFrame, SettingsFrame, WindowUpdateFrame

from ankaios.grpc import blocking_call
from ankaios.grpc.blocking_call import BlockingCall, WaitInterrupted
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.wire_format import length_prefixed, request_headers
from tests.integration.grpc.h2_server import TIME_LIMIT, H2Server

HELLO = length_prefixed(b"hello")


class Pair:
    """A call, and the server at the other end of its socket."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.settimeout(TIME_LIMIT)
        self.socket = ours
        self.call = BlockingCall(ours, Keepalive(1000.0, 1000.0), None)
        self.server = H2Server(theirs, threading.Event())

    def send_frames(self, *frames: Frame) -> None:
        self.server.socket.sendall(b"".join(frame.serialize() for frame in frames))

    def step(self) -> None:
        self.call.step(time.monotonic() + TIME_LIMIT)

    def open(self) -> bool:
        return self.call.open(request_headers("/x", secure=False, authority="a"), b"hello", 0)


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.server.socket.close()
    made.call.close()


@pytest.fixture
def readable() -> Iterator[int]:
    reader, writer = os.pipe()
    os.write(writer, b"!")
    yield reader
    os.close(reader)
    os.close(writer)


def settings_frame(code: SettingCodes, value: int) -> SettingsFrame:
    return SettingsFrame(settings={code: value})


def window_update(stream_id: int, size: int) -> WindowUpdateFrame:
    return WindowUpdateFrame(stream_id, window_increment=size)


def test_a_server_that_accepts_no_stream_before_we_open_one_is_the_reason(pair: Pair) -> None:
    pair.send_frames(settings_frame(SettingCodes.MAX_CONCURRENT_STREAMS, 0))
    pair.step()
    assert not pair.open()
    pair.call.send(b"more")
    assert str(pair.call.reason).startswith("the peer does not accept more calls")


def test_the_hello_waits_until_the_window_is_open(pair: Pair) -> None:
    pair.send_frames(settings_frame(SettingCodes.INITIAL_WINDOW_SIZE, 3))
    pair.step()
    pair.open()
    pair.send_frames(window_update(1, 12))
    pair.call.send(b"")
    pair.server.read_until(lambda: pair.server.received == HELLO + length_prefixed(b""))
    assert pair.server.received == HELLO + length_prefixed(b"")


def test_hello_and_first_message_are_sent_in_one_write(pair: Pair) -> None:
    pair.open()
    pair.call.send(b"first")
    pair.server.read()
    assert pair.server.received == HELLO + length_prefixed(b"first")


def test_after_an_interrupt_in_the_middle_of_a_message_nothing_follows(pair: Pair, readable: int) -> None:
    pair.open()
    pair.call.watch(readable)
    with pytest.raises(WaitInterrupted):
        pair.call.send(bytes(100_000))  # more than the window allows
    pair.call.send(b"goodbye")
    pair.server.read_until(lambda: len(pair.server.received) == 65_535)
    pair.server.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        pair.server.read()


def test_a_server_that_stops_reading_is_detected_also_at_the_end_of_a_message(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_call, "_STALL_LIMIT", 0.1)
    pair.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    pair.open()
    pair.call.send(bytes(16_000))
    assert pair.call.reason == "the peer does not take the data"


def test_a_server_that_causes_responses_and_reads_none_is_disconnected(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_call, "MAX_UNSENT", 1000)
    pair.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    pair.open()
    pair.send_frames(SettingsFrame(), *[PingFrame(opaque_data=b"12345678")] * 900)
    while pair.call.reason is None:
        pair.step()
    assert pair.call.reason == "the peer does not read"


def test_a_slow_server_is_accepted(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.server.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**30})
    pair.server.h2.increment_flow_control_window(2**30)
    pair.server.flush()
    pair.step()
    pair.open()
    now = 0.0
    wait = pair.call.step

    def wait_long(_: float | None) -> None:
        nonlocal now
        now += 20.0
        pair.server.read()
        wait(now)

    monkeypatch.setattr(blocking_call, "monotonic", lambda: now)
    monkeypatch.setattr(pair.call, "step", wait_long)
    pair.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    pair.call.send(bytes(200_000))
    assert pair.call.reason is None
    assert now > 40.0


def test_a_server_with_a_large_window_receives_parts_without_a_pause(pair: Pair) -> None:
    server = pair.server
    server.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1, SettingCodes.MAX_FRAME_SIZE: 2**24 - 1})
    server.h2.increment_flow_control_window(2**31 - 65_536)
    server.flush()
    pair.step()
    pair.open()
    size = 20_000_000 + len(HELLO) + 5
    reader = threading.Thread(target=server.read_until, args=(lambda: len(server.received) == size,), daemon=True)
    reader.start()
    pair.call.send(bytes(20_000_000))
    assert pair.call.reason is None
    reader.join(TIME_LIMIT)
    assert len(server.received) == size


def test_while_a_reader_is_slow_the_server_gets_its_responses(pair: Pair) -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    pair.open()
    waiting = threading.Thread(target=pair.call.wait_writable, args=(writer,))
    waiting.start()
    try:
        pair.send_frames(settings_frame(SettingCodes.INITIAL_WINDOW_SIZE, 1000), PingFrame(opaque_data=b"are you?"))
        received = b""
        while b"are you?" not in received:
            received += pair.server.socket.recv(1000)
        assert waiting.is_alive()
        os.read(reader, 1_000_000)
        waiting.join(TIME_LIMIT)
        assert not waiting.is_alive()
    finally:
        os.close(reader)
        waiting.join(TIME_LIMIT)
        os.close(writer)


def test_a_closed_reader_ends_the_wait(pair: Pair) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    pair.open()
    pair.call.wait_writable(writer)
    os.close(writer)
